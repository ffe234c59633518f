package handler

import (
	"context"
	"math"
	"time"

	"github.com/hawserio/hawser/quota"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// waitingMax is how much time counts of a request that mostly waits: for the disk, for metadata, for other members.
const waitingMax = time.Millisecond

// waits reports whether answering a request of the key is waiting more than work.
func waits(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup, kmsg.ConsumerGroupHeartbeat,
		kmsg.OffsetCommit, kmsg.OffsetDelete, kmsg.DeleteGroups,
		kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.WriteTxnMarkers, kmsg.TxnOffsetCommit,
		kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.DeleteRecords, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs,
		kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.AlterClientQuotas, kmsg.AlterUserSCRAMCredentials:
		return true
	}
	return false
}

// charge counts a request for the quotas, tells the answer for how long the client shall rest, and returns it.
// Of the quotas that were violated the longest rest counts. resp is nil where nothing is answered.
func (c *call) charge(row *api, resp kmsg.Response) time.Duration {
	if c.Quotas == nil || c.from.Principal == "" {
		return 0
	}
	rest := c.resting
	if row.key == kmsg.Produce.Int16() {
		rest = max(rest, c.Quotas.Produced(c.from.Principal, c.from.ID, c.size))
	}
	if row.key != kmsg.Fetch.Int16() && resp != nil { // a fetch was counted before its answer was made
		rest = max(rest, c.Quotas.Worked(c.from.Principal, c.from.ID, c.busy(row.key)))
	}
	if told, ok := resp.(kmsg.SetThrottleResponse); ok && rest > 0 {
		told.SetThrottle(int32(rest.Milliseconds()))
	}
	c.counters.apis[row.key].throttled.Add(int64(rest))
	return rest
}

// busy is the time that the request took of us so far.
func (c *call) busy(key int16) time.Duration {
	busy := time.Since(c.begun) - c.waited
	if waits(key) {
		busy = min(busy, waitingMax)
	}
	return busy
}

// untilGone is a context that ends when the client hangs up: its place in a wait is
// given up then. stop must be called before the answer.
func (c *call) untilGone(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	unwatch := c.conn.watchGone(cancel)
	return ctx, func() { unwatch(); cancel() }
}

// waiting marks the begin of a wait; what it returns marks the end.
func (c *call) waiting() func() {
	from := time.Now()
	return func() { c.waited += time.Since(from) }
}

// fetchMax is the most bytes that the caller's quota lets one answer have.
func (c *call) fetchMax() int32 {
	if c.Quotas != nil {
		if most, ok := c.Quotas.FetchMax(c.from.Principal, c.from.ID); ok {
			return int32(min(most, math.MaxInt32))
		}
	}
	return math.MaxInt32
}

// chargeFetch counts an answer of so many bytes; if the caller must rest it is not
// to be sent and, as in Kafka, does not count.
func (c *call) chargeFetch(bytes int) (over bool) {
	if c.Quotas == nil {
		return false
	}
	rest := c.Quotas.Worked(c.from.Principal, c.from.ID, c.busy(kmsg.Fetch.Int16()))
	rest = max(rest, c.Quotas.Fetched(c.from.Principal, c.from.ID, bytes))
	if rest == 0 {
		return false
	}
	c.Quotas.Fetched(c.from.Principal, c.from.ID, -bytes)
	c.resting = rest
	return true
}

// mutate counts partitions that are made or deleted.
func (c *call) mutate(partitions int, mode quota.Mode) error {
	if c.Quotas == nil {
		return nil
	}
	rest, err := c.Quotas.Mutated(c.from.Principal, c.from.ID, partitions, mode)
	c.resting = max(c.resting, rest)
	return err
}

// strictFrom is Strict for versions from first on: their clients know the error and try again.
func strictFrom(version, first int16) quota.Mode {
	if version >= first {
		return quota.Strict
	}
	return quota.Permissive
}

// mute rests after an answer that told the client to: no further request is read meanwhile (KIP-219).
func (c *conn) mute(ctx context.Context) {
	rest := c.resting
	if c.resting = 0; rest <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	defer c.watchGone(cancel)()
	select {
	case <-ctx.Done():
	case <-c.server.stopping:
	}
}
