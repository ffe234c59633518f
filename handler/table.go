package handler

import (
	"context"
	"slices"

	"github.com/hawserio/hawser/link/peer"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is a row of the table: what dispatch, ApiVersions and docs/protocol.md know of an API.
type api struct {
	key      int16
	name     string // Kafka's
	min, max int16  // versions advertised, inclusive
	handle   handle
	needs    needs
	note     string // for docs/protocol.md; what differs from Apache Kafka
}

// handle answers one request. A nil response sends nothing (acks=0). An error
// closes the connection: it is for requests that no answer is defined for.
type handle func(context.Context, *call, kmsg.Request) (kmsg.Response, error)

// needs says which part of the broker must be there for a row to be offered.
type needs int8

const (
	always needs = iota
	transactions
	security
)

// on makes a row's handle of a typed function.
func on[Rq kmsg.Request](fn func(context.Context, *call, Rq) (kmsg.Response, error)) handle {
	return func(ctx context.Context, c *call, rq kmsg.Request) (kmsg.Response, error) { return fn(ctx, c, rq.(Rq)) }
}

// apis is every API of Kafka's that the door serves, by key; privateRows are those of our own.
var apis = []api{
	{key: 0, name: "Produce", min: 0, max: 13, handle: on(produce),
		note: "versions 0-2 are listed for old librdkafka and answered UNSUPPORTED_VERSION, as Apache Kafka 4 does (KAFKA-18659)"},
	{key: 1, name: "Fetch", min: 4, max: 18, handle: on(fetch)},
	{key: 2, name: "ListOffsets", min: 1, max: 11, handle: on(listOffsets)},
	{key: 3, name: "Metadata", min: 0, max: 13, handle: on(metadata)},
	{key: 8, name: "OffsetCommit", min: 2, max: 10, handle: on(offsetCommit)},
	{key: 9, name: "OffsetFetch", min: 1, max: 10, handle: on(offsetFetch)},
	{key: 10, name: "FindCoordinator", min: 0, max: 6, handle: on(findCoordinator)},
	{key: 11, name: "JoinGroup", min: 0, max: 9, handle: on(joinGroup)},
	{key: 12, name: "Heartbeat", min: 0, max: 4, handle: on(heartbeat)},
	{key: 13, name: "LeaveGroup", min: 0, max: 5, handle: on(leaveGroup)},
	{key: 14, name: "SyncGroup", min: 0, max: 5, handle: on(syncGroup)},
	{key: 15, name: "DescribeGroups", min: 0, max: 6, handle: on(describeGroups)},
	{key: 16, name: "ListGroups", min: 0, max: 5, handle: on(listGroups)},
	{key: 17, name: "SaslHandshake", min: 0, max: 1, handle: on(saslHandshake)},
	{key: 18, name: "ApiVersions", min: 0, max: 5, handle: on(apiVersions)},
	{key: 19, name: "CreateTopics", min: 2, max: 7, handle: on(createTopics), note: "the config `hawser.mirror.link` makes a mirror topic"},
	{key: 20, name: "DeleteTopics", min: 1, max: 6, handle: on(deleteTopics)},
	{key: 21, name: "DeleteRecords", min: 0, max: 2, handle: on(deleteRecords), note: "refused on mirror topics"},
	{key: 22, name: "InitProducerId", min: 0, max: 5, handle: on(initProducerID)},
	{key: 23, name: "OffsetForLeaderEpoch", min: 2, max: 4, handle: on(offsetForLeaderEpoch)},
	{key: 24, name: "AddPartitionsToTxn", min: 0, max: 5, handle: on(addPartitionsToTxn), needs: transactions},
	{key: 25, name: "AddOffsetsToTxn", min: 0, max: 4, handle: on(addOffsetsToTxn), needs: transactions},
	{key: 26, name: "EndTxn", min: 0, max: 5, handle: on(endTxn), needs: transactions},
	{key: 27, name: "WriteTxnMarkers", min: 1, max: 1, handle: on(writeTxnMarkers), needs: transactions},
	{key: 28, name: "TxnOffsetCommit", min: 0, max: 5, handle: on(txnOffsetCommit), needs: transactions},
	{key: 29, name: "DescribeAcls", min: 1, max: 3, handle: on(describeACLs)},
	{key: 30, name: "CreateAcls", min: 1, max: 3, handle: on(createACLs)},
	{key: 31, name: "DeleteAcls", min: 1, max: 3, handle: on(deleteACLs)},
	{key: 32, name: "DescribeConfigs", min: 1, max: 4, handle: on(describeConfigs),
		note: "mirror topics have read-only entries `hawser.mirror.*`"},
	{key: 33, name: "AlterConfigs", min: 0, max: 2, handle: on(alterConfigs)},
	{key: 35, name: "DescribeLogDirs", min: 1, max: 4, handle: on(describeLogDirs)},
	{key: 36, name: "SaslAuthenticate", min: 0, max: 2, handle: on(saslAuthenticate)},
	{key: 37, name: "CreatePartitions", min: 0, max: 3, handle: on(createPartitions), note: "refused on mirror topics"},
	{key: 42, name: "DeleteGroups", min: 0, max: 3, handle: on(deleteGroups)},
	{key: 43, name: "ElectLeaders", min: 0, max: 2, handle: on(electLeaders), note: "one broker: never needed"},
	{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, handle: on(incrementalAlterConfigs),
		note: "the config `hawser.mirror.order` gives a mirror topic an order"},
	{key: 45, name: "AlterPartitionReassignments", min: 0, max: 1, handle: on(alterPartitionReassignments),
		note: "one broker: nothing to move"},
	{key: 46, name: "ListPartitionReassignments", min: 0, max: 0, handle: on(listPartitionReassignments), note: "one broker: always empty"},
	{key: 47, name: "OffsetDelete", min: 0, max: 0, handle: on(offsetDelete)},
	{key: 48, name: "DescribeClientQuotas", min: 0, max: 1, handle: on(describeClientQuotas), needs: security},
	{key: 49, name: "AlterClientQuotas", min: 0, max: 1, handle: on(alterClientQuotas), needs: security},
	{key: 50, name: "DescribeUserScramCredentials", min: 0, max: 0, handle: on(describeUserScramCredentials), needs: security},
	{key: 51, name: "AlterUserScramCredentials", min: 0, max: 0, handle: on(alterUserScramCredentials), needs: security},
	{key: 60, name: "DescribeCluster", min: 0, max: 2, handle: on(describeCluster)},
	{key: 61, name: "DescribeProducers", min: 0, max: 0, handle: on(describeProducers)},
	{key: 65, name: "DescribeTransactions", min: 0, max: 0, handle: on(describeTransactions), needs: transactions},
	{key: 66, name: "ListTransactions", min: 0, max: 2, handle: on(listTransactions), needs: transactions},
	{key: 68, name: "ConsumerGroupHeartbeat", min: 0, max: 1, handle: on(consumerGroupHeartbeat)},
	{key: 69, name: "ConsumerGroupDescribe", min: 0, max: 1, handle: on(consumerGroupDescribe)},
	{key: 74, name: "ListConfigResources", min: 0, max: 1, handle: on(listConfigResources)},
	{key: 75, name: "DescribeTopicPartitions", min: 0, max: 0, handle: on(describeTopicPartitions)},
}

// table is the rows that this broker offers, by key.
type table map[int16]*api

func newTable(d *Deps) table {
	t := make(table, len(apis))
	for _, row := range apis {
		if row.needs == transactions && d.Transactions == nil || row.needs == security && d.Security == nil {
			continue
		}
		t[row.key] = &row
	}
	if d.Peers == nil {
		return t
	}
	for _, row := range privateRows() {
		t[row.key] = &row
	}
	return t
}

// keys is the keys in order.
func (t table) keys() []int16 {
	keys := make([]int16, 0, len(t))
	for key := range t {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// request finds the row and an empty request for a key and version that are
// served, else nil: a decoder is never run on a version that is not.
func (t table) request(key, version int16) (*api, kmsg.Request) {
	row := t[key]
	if row == nil || version < row.min || version > row.max {
		return nil, nil
	}
	rq := kmsg.RequestForKey(key)
	if rq == nil {
		rq = peer.NewRequest(peer.Key(key))
	}
	rq.SetVersion(version)
	return row, rq
}
