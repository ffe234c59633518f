package handler

import (
	"context"
	"errors"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce, key 0, versions 3-13 (0-2 are listed and answered UNSUPPORTED_VERSION).
//
//	acks -1 answers when the records are synced, or REQUEST_TIMED_OUT; the append stays.
//	acks 1 answers after the append. acks 0 answers nothing; an error closes the
//	connection, so that the client asks for metadata again.
//	Exactly one batch of format 2 a partition. Mirror topics: refused with INVALID_REQUEST.
//	v7 zstd. v8 messages beside the error codes, and which records of a batch are wrong (KIP-467). v9 flexible encoding.
//	v10 the new leader in the answer (KIP-951). v11 TRANSACTION_ABORTABLE, v12 adds the partition to the
//	transaction by itself (KIP-890). v13 topic ids.
func produce(ctx context.Context, c *call, rq *kmsg.ProduceRequest) (kmsg.Response, error) {
	w := &producing{call: c, rq: rq, resp: kmsg.NewPtrProduceResponse()}
	w.deadline = time.Now().Add(time.Duration(rq.TimeoutMillis) * time.Millisecond)
	refused := w.refuseAll()
	if refused == nil {
		w.enlist(ctx)
	}
	for i := range rq.Topics {
		w.topic(ctx, &rq.Topics[i], refused)
	}
	switch {
	case rq.Acks == 0:
		return nil, w.first
	case rq.Acks == -1 && len(w.waiting) > 0:
		// The records of the request are in the log: its bytes are not held while it waits.
		millis := rq.TimeoutMillis
		w.rq = nil
		return &unsyncedAnswer{ProduceResponse: w.resp, finish: func(ctx context.Context) { w.await(ctx, millis) }}, nil
	}
	return w.resp, nil
}

// unsyncedAnswer is complete but for the word that the records are synced.
type unsyncedAnswer struct {
	*kmsg.ProduceResponse
	finish func(context.Context)
}

// producing is one request's work.
type producing struct {
	*call
	rq      *kmsg.ProduceRequest
	resp    *kmsg.ProduceResponse
	waiting []unsynced
	first   error // of all partitions, for acks=0
	// deadline is when the client gives up, by the real clock that contexts obey.
	deadline time.Time
}

// unsynced is an append that acks=-1 waits for, and where its answer is.
type unsynced struct {
	p                *partition.Partition
	next             kafka.Offset
	topic, partition int
}

// refuseAll says what is wrong with the request as a whole.
func (w *producing) refuseAll() error {
	switch {
	case w.version < 3:
		return kafka.Errorf(kafka.UnsupportedVersion, "Produce versions 0 to 2 are not supported: the client is too old.")
	case w.rq.Acks < -1 || w.rq.Acks > 1:
		return kafka.Errorf(kafka.InvalidRequiredAcks, "Invalid required acks %d: it must be -1, 0 or 1.", w.rq.Acks)
	case w.rq.TransactionID != nil && !w.allowed(kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, *w.rq.TransactionID):
		return kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, "Not authorized to use transactional id '%s'.", *w.rq.TransactionID)
	case w.rq.TransactionID == nil && w.transactional():
		return kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, "Transactional records came without a transactional id.")
	}
	return nil
}

// transactional reports whether any batch of the request is part of a transaction.
func (w *producing) transactional() bool {
	for _, topic := range w.rq.Topics {
		for _, p := range topic.Partitions {
			if b, _, err := batch.Split(p.Records); err == nil && b.IsTransactional() {
				return true
			}
		}
	}
	return false
}

func (w *producing) topic(ctx context.Context, in *kmsg.ProduceRequestTopic, refused error) {
	out := kmsg.NewProduceResponseTopic()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	t, err := w.writable(in)
	if refused != nil {
		err = refused
	}
	for i := range in.Partitions {
		out.Partitions = append(out.Partitions, w.partition(ctx, t, &in.Partitions[i], err, i))
	}
	w.resp.Topics = append(w.resp.Topics, out)
}

// writable finds the topic if the caller may write to it.
func (w *producing) writable(in *kmsg.ProduceRequestTopic) (*meta.Topic, error) {
	t, err := w.topicOf(in.Topic, in.TopicID, w.namingFrom(13))
	name := in.Topic
	if t != nil {
		name = t.Name
	}
	switch {
	case name != "" && !w.topicAllowed(kmsg.ACLOperationWrite, name):
		return nil, topicDenied(name)
	case err != nil:
		return nil, err
	case kafka.IsInternal(name) && w.from.ID != "__admin_client":
		return nil, kafka.Errorf(kafka.InvalidTopicException, "Cannot append to internal topic %s", name)
	}
	return t, nil
}

func (w *producing) partition(ctx context.Context, t *meta.Topic, in *kmsg.ProduceRequestTopicPartition, err error,
	at int) kmsg.ProduceResponseTopicPartition {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition, out.BaseOffset = in.Partition, -1
	var p *partition.Partition
	var done partition.Appended
	if err == nil {
		p, err = w.open(t, in.Partition)
	}
	if err == nil {
		err = w.checkRecords(in.Records)
	}
	if err == nil {
		done, err = p.Append(ctx, batch.Batches(in.Records), w.confirm(ctx, t, in.Partition))
	}
	if err != nil {
		w.fail(&out, p, err)
		return out
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = int64(done.Base), done.LogAppendTime, int64(done.LogStart)
	w.waiting = append(w.waiting, unsynced{p, done.Next, len(w.resp.Topics), at})
	return out
}

// fail fills an answer with an error.
func (w *producing) fail(out *kmsg.ProduceResponseTopicPartition, p *partition.Partition, err error) {
	out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = -1, -1, -1
	switch kafka.CodeOf(err) {
	case kafka.OutOfOrderSequenceNumber, kafka.InvalidProducerEpoch: // these speak of the log
		out.LogStartOffset = logStartOf(p)
	}
	var bad *partition.InvalidRecords
	if errors.As(err, &bad) { // encoded from v8 on
		for _, r := range bad.Records {
			record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			record.RelativeOffset, record.ErrorMessage = r.Index, kmsg.StringPtr(r.Message)
			out.ErrorRecords = append(out.ErrorRecords, record)
		}
	}
	if p != nil && w.version >= 10 && kafka.CodeOf(err) == kafka.NotLeaderForPartition {
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = w.NodeID, int32(p.Offsets().Epoch)
		if len(w.resp.Brokers) == 0 {
			self := kmsg.NewProduceResponseBroker()
			self.NodeID, self.Host, self.Port, self.Rack = w.self(w.listener)
			w.resp.Brokers = append(w.resp.Brokers, self)
		}
	}
	if kafka.CodeOf(err) == kafka.UnknownServerError {
		w.Logger.Error("append failed", "partition", out.Partition, "err", err)
	}
	if w.first == nil {
		w.first = err
	}
}

// logStartOf is a partition's log start offset, -1 where there is no partition.
func logStartOf(p *partition.Partition) int64 {
	if p == nil {
		return -1
	}
	return int64(p.Offsets().LogStart)
}

// checkRecords is what the request's version says of the batch; the partition checks the rest.
func (w *producing) checkRecords(records []byte) error {
	if len(records) == 0 {
		return kafka.Errorf(kafka.InvalidRecord, "Produce requests with version %d must have exactly one record batch per partition",
			w.version)
	}
	first, rest, err := batch.Split(records)
	var old batch.ErrMagic
	switch {
	case errors.As(err, &old):
		return kafka.Errorf(kafka.InvalidRecord,
			"Produce requests with version %d are only allowed to contain record batches with magic version 2", w.version)
	case errors.Is(err, batch.ErrShort):
		return kafka.Errorf(kafka.InvalidRecord, "Record batch is cut short: %d bytes are not all of it.", len(records))
	case errors.Is(err, batch.ErrHeader):
		return kafka.Errorf(kafka.InvalidRecord, "Record batch cannot be taken: %v.", err)
	case errors.Is(err, batch.ErrCodec):
		return kafka.Errorf(kafka.UnsupportedCompressionType, "Record batch cannot be taken: %v.", err)
	case err != nil:
		return kafka.Errorf(kafka.CorruptMessage, "Record batch is corrupt: %v.", err)
	case len(rest) > 0:
		return kafka.Errorf(kafka.InvalidRecord,
			"Produce requests with version %d are only allowed to contain exactly one record batch per partition", w.version)
	case w.version < 7 && first.Codec() == batch.CodecZstd:
		return kafka.Errorf(kafka.UnsupportedCompressionType,
			"Produce requests with version %d are not allowed to use ZStandard compression", w.version)
	}
	return nil
}

// enlist takes all partitions of the request into its transaction at once (v12). What is wrong with it, the
// confirmation of each partition says again.
func (w *producing) enlist(ctx context.Context) {
	if w.version < 12 || w.Transactions == nil || w.rq.TransactionID == nil {
		return
	}
	var list []kafka.TopicPartition
	var first batch.Batch
	for i := range w.rq.Topics {
		t, err := w.writable(&w.rq.Topics[i])
		if err != nil {
			continue
		}
		for _, p := range w.rq.Topics[i].Partitions {
			if b, _, err := batch.Split(p.Records); err == nil && b.IsTransactional() && has(t, p.Partition) {
				first = b
				list = append(list, kafka.TopicPartition{Topic: t.Name, Partition: p.Partition})
			}
		}
	}
	if len(list) > 1 {
		_ = w.Transactions.Enlist(ctx, *w.rq.TransactionID, list, first.ProducerID(), first.ProducerEpoch())
	}
}

// confirm is the coordinator's word on a transactional batch, nil where there is no coordinator (rule P2).
func (w *producing) confirm(ctx context.Context, t *meta.Topic, number int32) func(kafka.ProducerID, int16) error {
	if w.Transactions == nil || w.rq.TransactionID == nil {
		return nil
	}
	mode := EnlistBefore
	if w.version >= 12 {
		mode = EnlistImplicit
	}
	return func(id kafka.ProducerID, epoch int16) error {
		tp := kafka.TopicPartition{Topic: t.Name, Partition: number}
		return w.abortableFrom(11, w.Transactions.Confirm(ctx, *w.rq.TransactionID, tp, id, epoch, mode))
	}
}

// await waits, within the request's time-out, until all that was appended is synced.
func (w *producing) await(ctx context.Context, millis int32) {
	ctx, cancel := context.WithDeadline(ctx, w.deadline)
	defer cancel()
	for _, u := range w.waiting {
		err := u.p.WaitSynced(ctx, u.next)
		if err == nil {
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = kafka.Errorf(kafka.RequestTimedOut, "The records were appended but not synced within %d ms.", millis)
		}
		w.fail(&w.resp.Topics[u.topic].Partitions[u.partition], u.p, err)
	}
}
