//go:build e2e

package e2e

import (
	bits "encoding/binary"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// badFetches read from where nothing can be read.
func badFetches(id kafka.TopicID) []bad {
	from := func(change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) kmsg.Request {
		return at(17, kmsg.NewPtrFetchRequest(), func(rq *kmsg.FetchRequest) {
			rq.MaxWaitMillis, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch = 0, 1, 1<<20, -1
			topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
			topic.TopicID, p.PartitionMaxBytes = id, 1<<20
			rq.Topics = append(rq.Topics, topic)
			rq.Topics[0].Partitions = append(rq.Topics[0].Partitions, p)
			change(rq, &rq.Topics[0].Partitions[0])
		})
	}
	return []bad{
		{name: "fetch from an unknown id", rq: from(func(rq *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { rq.Topics[0].TopicID = [16]byte{9} }), want: "UNKNOWN_TOPIC_ID"},
		{name: "fetch from an unknown name", rq: from(func(rq *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) {
			rq.SetVersion(12)
			rq.Topics[0].Topic = "bad-nowhere"
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "fetch from partition 99", rq: from(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 99 }), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "fetch above the end", rq: from(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 1 << 40 }), want: "OFFSET_OUT_OF_RANGE"},
		{name: "fetch at -5", rq: from(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -5 }), want: "OFFSET_OUT_OF_RANGE"},
		{name: "fetch in an unknown session", rq: from(func(rq *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { rq.SessionID, rq.SessionEpoch = 77, 3 }), want: "FETCH_SESSION_ID_NOT_FOUND"},
		{name: "fetch under an epoch to come", rq: from(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 1 << 30 }), want: "UNKNOWN_LEADER_EPOCH"},
		{name: "fetch as a follower", rq: from(func(rq *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { rq.ReplicaState.ID = 5 }), want: "NOT_LEADER_FOR_PARTITION"},
	}
}

// badReads are questions about what is not there.
func badReads() []bad {
	topicPartition := func(topic string, partition int32, ms int64) kmsg.Request {
		return at(7, kmsg.NewPtrListOffsetsRequest(), func(rq *kmsg.ListOffsetsRequest) {
			rq.ReplicaID = -1
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = partition, ms
			rq.Topics = append(rq.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
		})
	}
	metadata := func(name *string, id [16]byte) kmsg.Request {
		return at(12, kmsg.NewPtrMetadataRequest(), func(rq *kmsg.MetadataRequest) {
			rq.AllowAutoTopicCreation = false
			rq.Topics = append(rq.Topics, kmsg.MetadataRequestTopic{Topic: name, TopicID: id})
		})
	}
	return []bad{
		{name: "offsets of an unknown topic", rq: topicPartition("bad-nowhere", 0, -1), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "offsets of partition 99", rq: topicPartition("bad-input", 99, -1), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "metadata of an unknown topic", rq: metadata(ptr("bad-nowhere"), [16]byte{}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "metadata of no name", rq: metadata(ptr(""), [16]byte{}), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "metadata of ..", rq: metadata(ptr(".."), [16]byte{}), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "metadata of a/b", rq: metadata(ptr("a/b"), [16]byte{}), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "metadata of 250 letters", rq: metadata(ptr(long), [16]byte{}), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "metadata of an unknown id", rq: metadata(nil, [16]byte{9}), want: "UNKNOWN_TOPIC_ID"},
		{name: "epoch end of an unknown topic", rq: at(4, kmsg.NewPtrOffsetForLeaderEpochRequest(), func(rq *kmsg.OffsetForLeaderEpochRequest) {
			rq.ReplicaID = -1
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rq.Topics = append(rq.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "bad-nowhere", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}})
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "ApiVersions version 99", rq: at(0, kmsg.NewPtrApiVersionsRequest(), func(*kmsg.ApiVersionsRequest) {}), bytes: head(18, 99, 0), want: "UNSUPPORTED_VERSION"},
		{name: "client software of a bad name", rq: at(3, kmsg.NewPtrApiVersionsRequest(), func(rq *kmsg.ApiVersionsRequest) {
			rq.ClientSoftwareName, rq.ClientSoftwareVersion = "a b", "1"
		}), want: "INVALID_REQUEST"},
		{name: "producers of an unknown topic", rq: at(0, kmsg.NewPtrDescribeProducersRequest(), func(rq *kmsg.DescribeProducersRequest) {
			rq.Topics = append(rq.Topics, kmsg.DescribeProducersRequestTopic{Topic: "bad-nowhere", Partitions: []int32{0}})
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "description of an unknown topic", rq: at(0, kmsg.NewPtrDescribeTopicPartitionsRequest(), func(rq *kmsg.DescribeTopicPartitionsRequest) {
			rq.Topics = append(rq.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: "bad-nowhere"})
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
	}
}

// badGroups ask for groups in ways that no member does.
func badGroups() []bad {
	join := func(change func(*kmsg.JoinGroupRequest)) kmsg.Request {
		return at(9, kmsg.NewPtrJoinGroupRequest(), func(rq *kmsg.JoinGroupRequest) {
			rq.Group, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis, rq.ProtocolType = "bad-group", 10_000, 10_000, "consumer"
			rq.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0}}}
			change(rq)
		})
	}
	sync := func(change func(*kmsg.SyncGroupRequest)) kmsg.Request {
		return at(5, kmsg.NewPtrSyncGroupRequest(), func(rq *kmsg.SyncGroupRequest) {
			rq.Group, rq.Generation, rq.MemberID, rq.ProtocolType, rq.Protocol = "bad-group", 1, "who", ptr("consumer"), ptr("range")
			change(rq)
		})
	}
	commit := func(change func(*kmsg.OffsetCommitRequest)) kmsg.Request {
		return at(9, kmsg.NewPtrOffsetCommitRequest(), func(rq *kmsg.OffsetCommitRequest) {
			rq.Group, rq.Generation = "bad-group", -1
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "bad-input", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
			change(rq)
		})
	}
	return []bad{
		{name: "join no group", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.Group = "" }), want: "INVALID_GROUP_ID"},
		{name: "join with a session of 1 ms", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.SessionTimeoutMillis = 1 }), want: "INVALID_SESSION_TIMEOUT"},
		{name: "join with a session of a day", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.SessionTimeoutMillis = 86_400_000 }), want: "INVALID_SESSION_TIMEOUT"},
		{name: "join with a session of -1", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.SessionTimeoutMillis = -1 }), want: "INVALID_SESSION_TIMEOUT"},
		{name: "join as an unknown member", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.MemberID = "who" }), want: "UNKNOWN_MEMBER_ID"},
		{name: "join without a protocol", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.Protocols = nil }), want: "INCONSISTENT_GROUP_PROTOCOL"},
		{name: "join without a type", rq: join(func(rq *kmsg.JoinGroupRequest) { rq.ProtocolType = "" }), want: "INCONSISTENT_GROUP_PROTOCOL"},
		{name: "sync no group", rq: sync(func(rq *kmsg.SyncGroupRequest) { rq.Group = "" }), want: "INVALID_GROUP_ID"},
		{name: "sync as an unknown member", rq: sync(func(*kmsg.SyncGroupRequest) {}), want: "UNKNOWN_MEMBER_ID"},
		{name: "sync without a protocol", rq: sync(func(rq *kmsg.SyncGroupRequest) { rq.Protocol = nil }), want: "INCONSISTENT_GROUP_PROTOCOL"},
		{name: "heartbeat of an unknown member", rq: at(4, kmsg.NewPtrHeartbeatRequest(), func(rq *kmsg.HeartbeatRequest) { rq.Group, rq.MemberID = "bad-group", "who" }), want: "UNKNOWN_MEMBER_ID"},
		{name: "heartbeat in no group", rq: at(4, kmsg.NewPtrHeartbeatRequest(), func(rq *kmsg.HeartbeatRequest) { rq.MemberID = "who" }), want: "INVALID_GROUP_ID"},
		{name: "leave as an unknown member", rq: at(5, kmsg.NewPtrLeaveGroupRequest(), func(rq *kmsg.LeaveGroupRequest) {
			rq.Group, rq.Members = "bad-group", []kmsg.LeaveGroupRequestMember{{MemberID: "who"}}
		}), want: "UNKNOWN_MEMBER_ID"},
		{name: "commit in a generation of an unknown group", rq: commit(func(rq *kmsg.OffsetCommitRequest) { rq.Group, rq.Generation, rq.MemberID = "bad-generation", 5, "who" }), want: "GROUP_ID_NOT_FOUND"},
		{name: "commit to an unknown topic", rq: commit(func(rq *kmsg.OffsetCommitRequest) { rq.Topics[0].Topic = "bad-nowhere" }), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "commit to partition 99", rq: commit(func(rq *kmsg.OffsetCommitRequest) { rq.Topics[0].Partitions[0].Partition = 99 }), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "commit 5000 bytes of metadata", rq: commit(func(rq *kmsg.OffsetCommitRequest) {
			rq.Topics[0].Partitions[0].Metadata = ptr(long + long + long + long + long + long + long + long + long + long + long + long + long + long + long + long + long + long + long + long)
		}), want: "OFFSET_METADATA_TOO_LARGE"},
		{name: "delete an unknown group", rq: at(2, kmsg.NewPtrDeleteGroupsRequest(), func(rq *kmsg.DeleteGroupsRequest) { rq.Groups = []string{"bad-gone"} }), want: "GROUP_ID_NOT_FOUND"},
		{name: "delete no group", rq: at(2, kmsg.NewPtrDeleteGroupsRequest(), func(rq *kmsg.DeleteGroupsRequest) { rq.Groups = []string{""} }), want: "GROUP_ID_NOT_FOUND"},
		{name: "delete offsets of an unknown group", rq: at(0, kmsg.NewPtrOffsetDeleteRequest(), func(rq *kmsg.OffsetDeleteRequest) { rq.Group = "bad-gone" }), want: "GROUP_ID_NOT_FOUND"},
		{name: "describe an unknown group", rq: at(6, kmsg.NewPtrDescribeGroupsRequest(), func(rq *kmsg.DescribeGroupsRequest) { rq.Groups = []string{"bad-gone"} }), want: "GROUP_ID_NOT_FOUND"},
		{name: "coordinator of a type 9", rq: at(4, kmsg.NewPtrFindCoordinatorRequest(), func(rq *kmsg.FindCoordinatorRequest) {
			rq.CoordinatorType, rq.CoordinatorKeys = 9, []string{"bad"}
		}), want: "INVALID_REQUEST"},
	}
}

// badMembers are heartbeats of the newer groups (KIP-848).
func badMembers() []bad {
	beat := func(change func(*kmsg.ConsumerGroupHeartbeatRequest)) kmsg.Request {
		return at(1, kmsg.NewPtrConsumerGroupHeartbeatRequest(), func(rq *kmsg.ConsumerGroupHeartbeatRequest) {
			rq.Group, rq.MemberID, rq.RebalanceTimeoutMillis, rq.SubscribedTopicNames = "bad-new", "me", 10_000, []string{"bad-input"}
			rq.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			change(rq)
		})
	}
	return []bad{
		{name: "beat in no group", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.Group = "" }), want: "INVALID_REQUEST", words: "GroupId"},
		{name: "beat without a member", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberID = "" }), want: "INVALID_REQUEST", words: "MemberId"},
		{name: "beat in epoch -9", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberEpoch = -9 }), want: "INVALID_REQUEST"},
		{name: "beat without a time-out", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.RebalanceTimeoutMillis = -1 }), want: "INVALID_REQUEST"},
		{name: "beat without topics", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.SubscribedTopicNames = nil }), want: "INVALID_REQUEST"},
		{name: "beat with an unknown assignor", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.ServerAssignor = ptr("best") }), want: "UNSUPPORTED_ASSIGNOR"},
		{name: "beat of an unknown member", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberEpoch, rq.Group = 7, "bad-none" }), want: "GROUP_ID_NOT_FOUND"},
		{name: "beat with a bad expression", rq: beat(func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.SubscribedTopicRegex = ptr("(") }), want: "INVALID_REGULAR_EXPRESSION"},
		{name: "describe an unknown newer group", rq: at(1, kmsg.NewPtrConsumerGroupDescribeRequest(), func(rq *kmsg.ConsumerGroupDescribeRequest) { rq.Groups = []string{"bad-new"} }), want: "GROUP_ID_NOT_FOUND"},
	}
}

// badTransactions are of producers that nobody knows.
func badTransactions() []bad {
	begin := func(change func(*kmsg.InitProducerIDRequest)) kmsg.Request {
		return at(5, kmsg.NewPtrInitProducerIDRequest(), func(rq *kmsg.InitProducerIDRequest) {
			rq.TransactionalID, rq.TransactionTimeoutMillis = ptr("bad-txn"), 10_000
			change(rq)
		})
	}
	add := func(topic string) kmsg.Request {
		return at(3, kmsg.NewPtrAddPartitionsToTxnRequest(), func(rq *kmsg.AddPartitionsToTxnRequest) {
			rq.TransactionalID, rq.ProducerID = "bad-txn", 77
			rq.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		})
	}
	return []bad{
		{name: "producer id for no transactional id", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.TransactionalID = ptr("") }), want: "INVALID_REQUEST"},
		{name: "transaction time-out of 0", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.TransactionTimeoutMillis = 0 }), want: "INVALID_TRANSACTION_TIMEOUT"},
		{name: "transaction time-out of -1", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.TransactionTimeoutMillis = -1 }), want: "INVALID_TRANSACTION_TIMEOUT"},
		{name: "transaction time-out of 24 days", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.TransactionTimeoutMillis = 1<<31 - 1 }), want: "INVALID_TRANSACTION_TIMEOUT"},
		{name: "producer id without its epoch", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.ProducerID, rq.ProducerEpoch = 7, -1 }), want: "INVALID_REQUEST"},
		{name: "epoch without its producer id", rq: begin(func(rq *kmsg.InitProducerIDRequest) { rq.ProducerID, rq.ProducerEpoch = -1, 7 }), want: "INVALID_REQUEST"},
		{name: "add a partition to an unknown transaction", rq: add("bad-input"), want: "INVALID_PRODUCER_ID_MAPPING"},
		{name: "add an unknown partition to a transaction", rq: add("bad-nowhere"), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "add offsets to an unknown transaction", rq: at(3, kmsg.NewPtrAddOffsetsToTxnRequest(), func(rq *kmsg.AddOffsetsToTxnRequest) {
			rq.TransactionalID, rq.ProducerID, rq.Group = "bad-txn", 77, "bad-group"
		}), want: "INVALID_PRODUCER_ID_MAPPING"},
		{name: "end an unknown transaction", rq: at(3, kmsg.NewPtrEndTxnRequest(), func(rq *kmsg.EndTxnRequest) { rq.TransactionalID, rq.ProducerID = "bad-txn", 77 }), want: "INVALID_PRODUCER_ID_MAPPING"},
		{name: "end no transaction", rq: at(3, kmsg.NewPtrEndTxnRequest(), func(rq *kmsg.EndTxnRequest) { rq.ProducerID = 77 }), want: "INVALID_REQUEST"},
		{name: "describe an unknown transaction", rq: at(0, kmsg.NewPtrDescribeTransactionsRequest(), func(rq *kmsg.DescribeTransactionsRequest) { rq.TransactionalIDs = []string{"bad-txn"} }), want: "TRANSACTIONAL_ID_NOT_FOUND"},
	}
}

// badLogins go to the listener for logins.
func badLogins() []bad {
	hand := func(mechanism string) kmsg.Request {
		return at(1, kmsg.NewPtrSASLHandshakeRequest(), func(rq *kmsg.SASLHandshakeRequest) { rq.Mechanism = mechanism })
	}
	token := func(b ...byte) kmsg.Request {
		return at(2, kmsg.NewPtrSASLAuthenticateRequest(), func(rq *kmsg.SASLAuthenticateRequest) { rq.SASLAuthBytes = b })
	}
	bare := bits.BigEndian.AppendUint32(request(at(0, kmsg.NewPtrSASLHandshakeRequest(), func(rq *kmsg.SASLHandshakeRequest) { rq.Mechanism = "PLAIN" })), 1<<30)
	return []bad{
		{name: "handshake where there are no logins", rq: hand("PLAIN"), want: "ILLEGAL_SASL_STATE"},
		{name: "token where there are no logins", rq: token(0), want: "ILLEGAL_SASL_STATE"},
		{name: "an unknown mechanism", rq: hand("GSSAPI"), want: "UNSUPPORTED_SASL_MECHANISM", login: true},
		{name: "no mechanism", rq: hand(""), want: "UNSUPPORTED_SASL_MECHANISM", login: true},
		{name: "a token before the handshake", rq: token(0), want: "ILLEGAL_SASL_STATE", login: true},
		{name: "a request before the login", bytes: request(at(1, kmsg.NewPtrMetadataRequest(), func(*kmsg.MetadataRequest) {})), want: closed, login: true},
		{name: "a bare token of 1 GiB", bytes: bare, want: "an answer", login: true}, // of the handshake; then it is closed
	}
}
