package handler

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch, key 1, versions 4-18. Answers with batches as they lie in the log.
//
//	Answers at once when there are min bytes, when a read failed or found a
//	diverging history, or when nothing can be waited for; else at the first moment one of
//	these is so, at max wait at the latest.
//	The first batch found is sent even if it is larger than all limits (KIP-74).
//	v4 isolation, aborted transactions. v5 log start offset. v7 incremental sessions (KIP-227).
//	v9 leader epochs (KIP-320). v10 zstd. v11 rack: every replica is the leader here.
//	v12 flexible encoding, diverging epochs (KIP-595). v13 topic ids. v15 replica state.
//	v16 the new leader's address. v17 directory ids, v18 a follower's high watermark: for followers only, ignored.
//	Not done: followers. A request with a replica id is answered NOT_LEADER_OR_FOLLOWER.
func fetch(ctx context.Context, c *call, rq *kmsg.FetchRequest) (kmsg.Response, error) {
	scratch := takeScratch()
	defer scratch.give()
	plan, err := c.sessions.begin(rq, c.version, scratch)
	if err != nil {
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = code(err)
		return &fetchAnswer{FetchResponse: resp}, nil
	}
	f := &fetching{call: c, rq: rq, parts: scratch.partsOf(plan.parts)}
	f.resolveAll()
	f.maxBytes = int(max(0, min(rq.MaxBytes, c.Settings.FetchMaxBytes, c.fetchMax())))
	f.minBytes = min(int(rq.MinBytes), f.maxBytes)
	defer f.unwatch()
	f.readAll()
	f.wait(ctx)
	if f.overQuota() {
		return f.nothing(plan), nil
	}
	defer func() { scratch.sent = plan.sent }() // it has grown
	return f.finish(plan), nil
}

// fetching is one Fetch request's work.
type fetching struct {
	*call
	rq       *kmsg.FetchRequest
	parts    []fetchPart
	maxBytes int
	minBytes int
	bytes    int               // found so far
	waiter   *partition.Waiter // nil until it waits
}

// fetchPart is a partition asked for and what was found.
type fetchPart struct {
	want   fetchWant
	p      *partition.Partition // nil where err says why
	err    error
	ans    partition.Answer
	failed bool // err came from the read, not from finding the partition
}

func (part *fetchPart) size() int { return int(part.ans.Slice.Length) }

// sent is what the session remembers of the answer.
func (part *fetchPart) sent() fetchSent {
	if part.err != nil {
		return fetchSent{highWatermark: -1, logStart: -1, bytes: part.size(), telling: code(part.err) != 0}
	}
	o := part.ans.Offsets
	return fetchSent{highWatermark: o.HighWatermark, logStart: o.LogStart, bytes: part.size(), telling: part.ans.Diverging}
}

// resolveAll finds the partitions that the caller may read. Those of a topic stand together as a rule.
func (f *fetching) resolveAll() {
	var t *meta.Topic
	var err error
	for i := range f.parts {
		part := &f.parts[i]
		if i == 0 || part.want.topic != f.parts[i-1].want.topic || part.want.id != f.parts[i-1].want.id {
			t, err = f.readableTopic(part.want)
		}
		if part.err = err; err == nil {
			part.p, part.err = f.open(t, part.want.number)
		}
		if part.err != nil {
			part.p = nil
		}
	}
}

// readableTopic finds the topic if the caller may read it.
func (f *fetching) readableTopic(want fetchWant) (*meta.Topic, error) {
	mode := f.namingFrom(13)
	follower := f.rq.ReplicaID >= 0 || f.rq.ReplicaState.ID >= 0
	may := func(topic string) bool {
		if follower { // brokers are trusted with every topic
			return f.clusterAllowed(kmsg.ACLOperationClusterAction)
		}
		return f.topicAllowed(kmsg.ACLOperationRead, topic)
	}
	t, err := f.topicOf(want.topic, want.id, mode)
	switch {
	case mode == byName && !may(want.topic):
		return nil, topicDenied(want.topic)
	case err != nil:
		return nil, err
	case mode == byID && !may(t.Name):
		return nil, topicDenied(t.Name)
	case follower:
		return nil, kafka.Errorf(kafka.NotLeaderForPartition, "There are no followers here.")
	case f.version < 10 && t.Configs["compression.type"] == "zstd":
		return nil, kafka.Errorf(kafka.UnsupportedCompressionType, "Fetch version %d cannot carry zstd.", f.version)
	}
	return t, nil
}

// readAll reads every partition once.
func (f *fetching) readAll() {
	for i := range f.parts {
		if part := &f.parts[i]; part.p != nil {
			f.readOne(part)
		}
	}
}

// readOne reads one partition within what the others leave of max bytes.
func (f *fetching) readOne(part *fetchPart) {
	f.bytes -= part.size()
	part.ans.Slice.Close()
	part.ans = partition.Answer{}
	part.ans, part.err = part.p.Read(partition.Read{
		From:         part.want.offset,
		MaxBytes:     max(0, min(int(part.want.maxBytes), f.maxBytes-f.bytes)),
		AtLeastOne:   f.bytes == 0,
		Isolation:    isolationOf(f.rq.IsolationLevel),
		CurrentEpoch: part.want.currentEpoch,
		LastEpoch:    part.want.lastEpoch,
	})
	part.failed = part.err != nil
	f.bytes += part.size()
}

// satisfied reports whether the answer must not wait longer.
func (f *fetching) satisfied() bool {
	waitable := false
	for i := range f.parts {
		part := &f.parts[i]
		if part.failed || part.ans.Diverging {
			return true
		}
		waitable = waitable || part.p != nil
	}
	return !waitable || f.bytes >= f.minBytes
}

// wait waits for min bytes, for max wait at most.
func (f *fetching) wait(ctx context.Context) {
	if f.rq.MaxWaitMillis <= 0 || f.satisfied() {
		return
	}
	limit := time.Duration(f.rq.MaxWaitMillis) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer f.conn.watchGone(cancel)()
	defer f.waiting()()
	f.waiter = partition.NewWaiter()
	for i := range f.parts {
		if part := &f.parts[i]; part.p != nil {
			part.p.Watch(f.waiter)
		}
	}
	for {
		// Before the first wait as well: something may have come before the watch.
		f.readChanged()
		if f.satisfied() {
			return
		}
		select {
		case <-f.waiter.C:
		case <-f.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *fetching) unwatch() {
	if f.waiter == nil {
		return
	}
	for i := range f.parts {
		if part := &f.parts[i]; part.p != nil {
			part.p.Unwatch(f.waiter)
		}
	}
}

// readChanged reads again the partitions whose marks have moved.
func (f *fetching) readChanged() {
	for i := range f.parts {
		part := &f.parts[i]
		if part.p == nil {
			continue
		}
		now, err := part.p.Shown()
		now.LogEnd = part.ans.Offsets.LogEnd // not shown
		if now != part.ans.Offsets || err != nil {
			f.readOne(part)
		}
	}
}

// overQuota reports whether the answer must not be sent: its reader has had too much lately and rests first.
func (f *fetching) overQuota() bool {
	bytes := 0
	for i := range f.parts {
		if part := &f.parts[i]; part.size() > 0 || part.err != nil {
			bytes += part.size() + fetchPartHead
		}
	}
	return f.chargeFetch(bytes)
}

// fetchPartHead is about how many bytes a partition takes in an answer beside its records.
const fetchPartHead = 48

// nothing is the answer in place of one that is over the reader's quota: no partition at all (KIP-219). A session
// goes on as if it had not been asked; one that was to be made is not.
func (f *fetching) nothing(plan *fetchPlan) *fetchAnswer {
	for i := range f.parts {
		f.parts[i].ans.Slice.Close()
	}
	answer := &fetchAnswer{FetchResponse: kmsg.NewPtrFetchResponse()}
	if plan.session != nil {
		answer.SessionID = plan.session.id
	}
	return answer
}

// finish makes the answer and lets the session remember it.
func (f *fetching) finish(plan *fetchPlan) *fetchAnswer {
	answer := &fetchAnswer{FetchResponse: kmsg.NewPtrFetchResponse()}
	for i := range f.parts {
		part := &f.parts[i]
		sent := part.sent()
		plan.sent = append(plan.sent, sent)
		if plan.omits(i, sent) {
			part.ans.Slice.Close()
			continue
		}
		out := f.partitionAnswer(part)
		if out.CurrentLeader.LeaderID != -1 && f.version >= 16 && len(answer.Brokers) == 0 {
			self := kmsg.NewFetchResponseBroker()
			self.NodeID, self.Host, self.Port, self.Rack = f.self(f.listener)
			answer.Brokers = append(answer.Brokers, self)
		}
		answer.add(part.want, out, part.ans.Slice)
	}
	answer.SessionID = f.sessions.end(plan)
	return answer
}

func (f *fetching) partitionAnswer(part *fetchPart) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = part.want.number
	if part.err != nil {
		out.ErrorCode, out.HighWatermark = code(part.err), -1
		if part.p != nil && f.version >= 12 {
			f.leaderIfNeeded(part, &out)
		}
		if kafka.CodeOf(part.err) == kafka.UnknownServerError {
			f.Logger.Error("read failed", "topic", part.want.topic, "partition", part.want.number, "err", part.err)
		}
		return out
	}
	o := part.ans.Offsets
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = int64(o.HighWatermark), int64(o.LastStable), int64(o.LogStart)
	if part.ans.Diverging && f.version >= 12 {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(part.ans.DivergingEpoch), int64(part.ans.DivergingEnd)
	}
	if isolationOf(f.rq.IsolationLevel) == kafka.ReadCommitted {
		out.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, len(part.ans.Aborted))
		for i, a := range part.ans.Aborted {
			out.AbortedTransactions[i].ProducerID, out.AbortedTransactions[i].FirstOffset = int64(a.Producer), int64(a.FirstOffset)
		}
	}
	return out
}

// leaderIfNeeded tells a client with an old idea of the leader the new one.
func (f *fetching) leaderIfNeeded(part *fetchPart, out *kmsg.FetchResponseTopicPartition) {
	switch kafka.CodeOf(part.err) {
	case kafka.NotLeaderForPartition, kafka.FencedLeaderEpoch:
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = f.NodeID, int32(part.p.Offsets().Epoch)
	}
}
