//go:build e2e

package e2e

import "github.com/twmb/franz-go/pkg/kmsg"

// badTopics would make, change and delete what must not be.
func badTopics() []bad {
	create := func(change func(*kmsg.CreateTopicsRequestTopic)) kmsg.Request {
		return at(7, kmsg.NewPtrCreateTopicsRequest(), func(rq *kmsg.CreateTopicsRequest) {
			rq.TimeoutMillis = 10_000
			rq.Topics = append(rq.Topics, newTopic("bad-made", 1))
			change(&rq.Topics[0])
		})
	}
	named := func(name string) kmsg.Request {
		return create(func(topic *kmsg.CreateTopicsRequestTopic) { topic.Topic = name })
	}
	with := func(name string, value *string) kmsg.Request {
		return create(func(topic *kmsg.CreateTopicsRequestTopic) {
			topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: value}}
		})
	}
	grow := func(topic string, count int32, assigned int) kmsg.Request {
		return at(3, kmsg.NewPtrCreatePartitionsRequest(), func(rq *kmsg.CreatePartitionsRequest) {
			rq.TimeoutMillis = 10_000
			rt := kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: count}
			for range assigned {
				rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{1}})
			}
			rq.Topics = append(rq.Topics, rt)
		})
	}
	cut := func(topic string, partition int32, offset int64) kmsg.Request {
		return at(2, kmsg.NewPtrDeleteRecordsRequest(), func(rq *kmsg.DeleteRecordsRequest) {
			rq.TimeoutMillis = 10_000
			rq.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
		})
	}
	remove := func(topics ...kmsg.DeleteTopicsRequestTopic) kmsg.Request {
		return at(6, kmsg.NewPtrDeleteTopicsRequest(), func(rq *kmsg.DeleteTopicsRequest) { rq.TimeoutMillis, rq.Topics = 10_000, topics })
	}
	return []bad{
		{name: "create no name", rq: named(""), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create .", rq: named("."), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create ..", rq: named(".."), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create a/b", rq: named("a/b"), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create a name with a zero byte", rq: named("a\x00b"), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create a name that is no UTF-8", rq: named("a\xffb"), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create 250 letters", rq: named(long), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "create what is there", rq: named("bad-input"), want: "TOPIC_ALREADY_EXISTS"},
		{name: "create with 0 partitions", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = 0 }), want: "INVALID_PARTITIONS"},
		{name: "create with -2 partitions", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = -2 }), want: "INVALID_PARTITIONS"},
		{name: "create with a million partitions", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = 1_000_000 }), want: "POLICY_VIOLATION"},
		{name: "create with 0 replicas", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 0 }), want: "INVALID_REPLICATION_FACTOR"},
		{name: "create with 99 replicas", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 99 }), want: "INVALID_REPLICATION_FACTOR", words: "99"},
		{name: "create on an unknown broker", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.NumPartitions, rt.ReplicationFactor = -1, -1
			rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{99}}}
		}), want: "INVALID_REPLICA_ASSIGNMENT"},
		{name: "create with a number and an assignment", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}}
		}), want: "INVALID_REQUEST"},
		{name: "create with partition 7 alone", rq: create(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.NumPartitions, rt.ReplicationFactor = -1, -1
			rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 7, Replicas: []int32{1}}}
		}), want: "INVALID_REPLICA_ASSIGNMENT"},
		{name: "create with an unknown config", rq: with("retention.years", ptr("1")), want: "INVALID_CONFIG", words: "retention.years"},
		{name: "create with a bad value", rq: with("retention.ms", ptr("long")), want: "INVALID_CONFIG", words: "retention.ms"},
		{name: "create with a value out of range", rq: with("min.cleanable.dirty.ratio", ptr("1.5")), want: "INVALID_CONFIG"},
		{name: "create with a null value", rq: with("retention.ms", nil), want: "INVALID_CONFIG"},
		{name: "create one name twice in a request", rq: at(7, kmsg.NewPtrCreateTopicsRequest(), func(rq *kmsg.CreateTopicsRequest) {
			rq.TimeoutMillis, rq.Topics = 10_000, []kmsg.CreateTopicsRequestTopic{newTopic("bad-twice", 1), newTopic("bad-twice", 1)}
		}), want: "INVALID_REQUEST"},
		{name: "create a mirror over an unknown link", rq: with("hawser.mirror.link", ptr("none")), want: "INVALID_REQUEST", kafka: unasked},
		{name: "create with an unknown hawser config", rq: with("hawser.mirror.speed", ptr("1")), want: "INVALID_CONFIG", kafka: unasked},
		{name: "delete an unknown topic", rq: remove(kmsg.DeleteTopicsRequestTopic{Topic: ptr("bad-nowhere")}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "delete an unknown id", rq: remove(kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{9}}), want: "UNKNOWN_TOPIC_ID"},
		{name: "delete a name and an id", rq: remove(kmsg.DeleteTopicsRequestTopic{Topic: ptr("bad-nowhere"), TopicID: [16]byte{9}}), want: "INVALID_REQUEST"},
		{name: "delete neither name nor id", rq: remove(kmsg.DeleteTopicsRequestTopic{}), want: "INVALID_REQUEST"},
		{name: "delete one name twice in a request", rq: remove(kmsg.DeleteTopicsRequestTopic{Topic: ptr("bad-nowhere")}, kmsg.DeleteTopicsRequestTopic{Topic: ptr("bad-nowhere")}), want: "INVALID_REQUEST"},
		{name: "grow an unknown topic", rq: grow("bad-nowhere", 9, 0), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "grow to what it has", rq: grow("bad-input", 1, 0), want: "INVALID_PARTITIONS"},
		{name: "grow to less", rq: grow("bad-input", 0, 0), want: "INVALID_PARTITIONS"},
		{name: "grow by 2 with 1 assignment", rq: grow("bad-input", 3, 1), want: "INVALID_REPLICA_ASSIGNMENT"},
		{name: "delete records above the end", rq: cut("bad-input", 0, 1<<40), want: "OFFSET_OUT_OF_RANGE"},
		{name: "delete records to -5", rq: cut("bad-input", 0, -5), want: "OFFSET_OUT_OF_RANGE"},
		{name: "delete records of an unknown topic", rq: cut("bad-nowhere", 0, 0), want: "UNKNOWN_TOPIC_OR_PARTITION"},
	}
}

// badConfigs are configs of what is not there, and values that cannot be.
func badConfigs() []bad {
	describe := func(kind kmsg.ConfigResourceType, name string) kmsg.Request {
		return at(4, kmsg.NewPtrDescribeConfigsRequest(), func(rq *kmsg.DescribeConfigsRequest) {
			rq.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name}}
		})
	}
	type op = kmsg.IncrementalAlterConfigsRequestResourceConfig
	alter := func(kind kmsg.ConfigResourceType, name string, ops ...op) kmsg.Request {
		return at(1, kmsg.NewPtrIncrementalAlterConfigsRequest(), func(rq *kmsg.IncrementalAlterConfigsRequest) {
			rq.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: name, Configs: ops}}
		})
	}
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	const set, appending = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpAppend
	return []bad{
		{name: "configs of an unknown topic", rq: describe(topic, "bad-nowhere"), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "configs of a bad name", rq: describe(topic, "a/b"), want: "INVALID_TOPIC_EXCEPTION"},
		{name: "configs of a type 99", rq: describe(99, "x"), want: "INVALID_REQUEST"},
		{name: "configs of a broker called x", rq: describe(broker, "x"), want: "INVALID_REQUEST"},
		{name: "configs of broker 99", rq: describe(broker, "99"), want: "INVALID_REQUEST"},
		{name: "alter an unknown topic", rq: alter(topic, "bad-nowhere", op{Name: "retention.ms", Op: set, Value: ptr("1000")}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "alter an unknown config", rq: alter(topic, "bad-input", op{Name: "retention.years", Op: set, Value: ptr("1")}), want: "INVALID_CONFIG", words: "retention.years"},
		{name: "alter to a bad value", rq: alter(topic, "bad-input", op{Name: "retention.ms", Op: set, Value: ptr("long")}), want: "INVALID_CONFIG", words: "retention.ms"},
		{name: "alter to null", rq: alter(topic, "bad-input", op{Name: "retention.ms", Op: set}), want: "INVALID_REQUEST"},
		{name: "alter one name twice", rq: alter(topic, "bad-input", op{Name: "retention.ms", Op: set, Value: ptr("1000")}, op{Name: "retention.ms", Op: set, Value: ptr("2000")}), want: "INVALID_REQUEST"},
		{name: "alter by an unknown operation", rq: alter(topic, "bad-input", op{Name: "retention.ms", Op: 9, Value: ptr("1000")}), want: "INVALID_REQUEST", kafka: "UNKNOWN_SERVER_ERROR"},
		{name: "append to what is no list", rq: alter(topic, "bad-input", op{Name: "retention.ms", Op: appending, Value: ptr("1000")}), want: "INVALID_CONFIG"},
		{name: "alter a read-only broker config", rq: alter(broker, "1", op{Name: "socket.request.max.bytes", Op: set, Value: ptr("1000")}), want: "INVALID_REQUEST"},
		{name: "alter broker 99", rq: alter(broker, "99", op{Name: "max.connections", Op: set, Value: ptr("1000")}), want: "INVALID_REQUEST"},
		{name: "a bad value by the older request", rq: at(2, kmsg.NewPtrAlterConfigsRequest(), func(rq *kmsg.AlterConfigsRequest) {
			rq.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: topic, ResourceName: "bad-input", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: ptr("long")}}}}
		}), want: "INVALID_CONFIG"},
	}
}

// badAdmin are ACLs, quotas, users and moves.
func badAdmin() []bad {
	type entity = kmsg.AlterClientQuotasRequestEntryEntity
	quota := func(key string, value float64, of ...entity) kmsg.Request {
		return at(1, kmsg.NewPtrAlterClientQuotasRequest(), func(rq *kmsg.AlterClientQuotasRequest) {
			rq.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: of, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: key, Value: value}}}}
		})
	}
	ann := entity{Type: "user", Name: ptr("ann")}
	user := func(change func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) kmsg.Request {
		return at(0, kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), func(rq *kmsg.AlterUserSCRAMCredentialsRequest) {
			up := kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: "ann", Mechanism: 1, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}
			change(&up)
			rq.Upsertions = append(rq.Upsertions, up)
		})
	}
	return []bad{
		{name: "a quota of an unknown key", rq: quota("bytes", 1, ann), want: "INVALID_REQUEST", words: "bytes"},
		{name: "a quota of -1", rq: quota("producer_byte_rate", -1, ann), want: "INVALID_REQUEST"},
		{name: "a quota of nobody", rq: quota("producer_byte_rate", 1), want: "INVALID_REQUEST"},
		{name: "a quota of an unknown type", rq: quota("producer_byte_rate", 1, entity{Type: "team", Name: ptr("a")}), want: "INVALID_REQUEST", words: "team"},
		{name: "a quota of a user twice", rq: quota("producer_byte_rate", 1, ann, ann), want: "INVALID_REQUEST", kafka: "NONE"},
		{name: "a quota of a user and an address", rq: quota("producer_byte_rate", 1, ann, entity{Type: "ip", Name: ptr("127.0.0.1")}), want: "INVALID_REQUEST"},
		{name: "a user of 100 iterations", rq: user(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 100 }), want: "UNACCEPTABLE_CREDENTIAL"},
		{name: "a user of a million iterations", rq: user(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 1_000_000 }), want: "UNACCEPTABLE_CREDENTIAL"},
		{name: "a user without a name", rq: user(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Name = "" }), want: "UNACCEPTABLE_CREDENTIAL"},
		{name: "a user of an unknown mechanism", rq: user(func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Mechanism = 9 }), want: "UNSUPPORTED_SASL_MECHANISM"},
		{name: "delete an unknown user", rq: at(0, kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), func(rq *kmsg.AlterUserSCRAMCredentialsRequest) {
			rq.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "nobody", Mechanism: 1}}
		}), want: "RESOURCE_NOT_FOUND"},
		{name: "move an unknown topic", rq: at(0, kmsg.NewPtrAlterPartitionAssignmentsRequest(), func(rq *kmsg.AlterPartitionAssignmentsRequest) {
			rq.TimeoutMillis = 10_000
			rq.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "bad-nowhere", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}}}}
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "elect a leader of an unknown topic", rq: at(2, kmsg.NewPtrElectLeadersRequest(), func(rq *kmsg.ElectLeadersRequest) {
			rq.TimeoutMillis = 10_000
			rq.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "bad-nowhere", Partitions: []int32{0}}}
		}), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "an ACL of an unknown operation", rq: at(3, kmsg.NewPtrCreateACLsRequest(), func(rq *kmsg.CreateACLsRequest) {
			rq.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: 2, ResourceName: "t", ResourcePatternType: 3, Principal: "User:ann", Host: "*", Operation: 0, PermissionType: 3}}
		}), want: "INVALID_REQUEST", kafka: unasked},
		{name: "an ACL of a principal without a type", rq: at(3, kmsg.NewPtrCreateACLsRequest(), func(rq *kmsg.CreateACLsRequest) {
			rq.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: 2, ResourceName: "t", ResourcePatternType: 3, Principal: "ann", Host: "*", Operation: 3, PermissionType: 3}}
		}), want: "INVALID_REQUEST", kafka: unasked},
	}
}
