package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// consumeFlags is what `consume` was told.
type consumeFlags struct {
	fromBeginning, atEnd, uncommitted        bool
	withKey, withOffset, withTime, withHeads bool
	group, delimiter                         string
	partition                                int32
	offset, most                             int64
	timeout                                  time.Duration
}

func (a *app) consume(use string) *cobra.Command {
	f := &consumeFlags{}
	cmd := &cobra.Command{Use: use + " <topic>", Short: "Consume records and print them; a mirror topic is read like any other",
		Args: exactArgs("<topic>"),
		Example: "  hawser consume orders --from-beginning --exit-at-end\n" +
			"  hawser consume orders --partition 3 --offset 1200 --max-messages 10 --print-key\n" +
			"  hawser consume orders --group billing -o json"}
	flags := cmd.Flags()
	flags.BoolVar(&f.fromBeginning, "from-beginning", false, "from the first record, where a group has no offset")
	flags.BoolVar(&f.fromBeginning, "b", false, "the same as --from-beginning")
	_ = flags.MarkHidden("b")
	flags.BoolVarP(&f.atEnd, "exit-at-end", "e", false, "read from the first record, or --offset, to the end that the partitions "+
		"have now, and stop")
	flags.StringVar(&f.group, "group", "", "read as a member of this consumer `group`, and commit")
	flags.Int32Var(&f.partition, "partition", -1, "only this `partition`")
	flags.Int64Var(&f.offset, "offset", -1, "with --partition: from this `offset`")
	flags.Int64Var(&f.most, "max-messages", 0, "stop after this many records")
	flags.DurationVar(&f.timeout, "timeout", 0, "stop when nothing has come for so long")
	flags.BoolVar(&f.uncommitted, "read-uncommitted", false, "show records of transactions that are open or were aborted, too")
	flags.BoolVar(&f.withKey, "print-key", false, "print the key")
	flags.BoolVar(&f.withOffset, "print-offset", false, "print partition and offset")
	flags.BoolVar(&f.withTime, "timestamp", false, "print the record's time, in ms since 1970")
	flags.BoolVar(&f.withHeads, "print-headers", false, "print the headers")
	flags.StringVar(&f.delimiter, "delimiter", "\t", "what stands between what is printed of a record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runConsume(cmd.Context(), args[0], f) }
	return cmd
}

func (f *consumeFlags) check() error {
	switch {
	case f.offset >= 0 && f.partition < 0:
		return errors.New("--offset is for one partition. Say which with --partition")
	case f.group != "" && f.partition >= 0:
		return errors.New("--group and --partition are both given. A group shares the partitions out by itself")
	case f.group != "" && f.atEnd:
		return errors.New("--group and --exit-at-end are both given. Use --max-messages or --timeout with a group")
	case f.offset >= 0 && f.fromBeginning:
		return errors.New("--offset and --from-beginning are both given. Give one")
	}
	return nil
}

func (f *consumeFlags) options(topic string, spans map[int32]span) []kgo.Opt {
	start := kgo.NewOffset().AtEnd()
	if f.fromBeginning || f.atEnd {
		start = kgo.NewOffset().AtStart()
	}
	opts := []kgo.Opt{kgo.ConsumeResetOffset(start), kgo.FetchMaxWait(500 * time.Millisecond)}
	if !f.uncommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if f.atEnd { // markers at the end of a partition are records, too: without them the end would not be seen
		opts = append(opts, kgo.KeepControlRecords())
	}
	if f.group != "" {
		return append(opts, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(f.group), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second))
	}
	from := map[int32]kgo.Offset{}
	for partition := range spans {
		if f.partition < 0 || f.partition == partition {
			from[partition] = start
			if f.offset >= 0 {
				from[partition] = kgo.NewOffset().At(f.offset)
			}
		}
	}
	return append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
}

func (a *app) runConsume(ctx context.Context, topic string, f *consumeFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	asker, err := a.kafkaClient(ctx)
	if err != nil {
		return err
	}
	isolation := int8(1)
	if f.uncommitted {
		isolation = 0
	}
	spans, err := spansOf(ctx, asker, topic, isolation)
	asker.Close()
	if err != nil {
		return err
	}
	if _, is := spans[f.partition]; f.partition >= 0 && !is {
		return fmt.Errorf("topic %q has no partition %d; its last is %d", topic, f.partition, len(spans)-1)
	}
	c, err := a.kafkaClient(ctx, f.options(topic, spans)...)
	if err != nil {
		return err
	}
	defer c.Close()
	reader := &consuming{flags: f, app: a, client: c, out: bufio.NewWriter(a.out), left: map[int32]int64{}}
	for partition, has := range spans {
		if f.atEnd && (f.partition < 0 || f.partition == partition) && max(f.offset, has.start) < has.end {
			reader.left[partition] = has.end
		}
	}
	err = reader.run(ctx)
	if f.group != "" {
		if commit := c.CommitMarkedOffsets(context.WithoutCancel(ctx)); err == nil {
			err = commit
		}
	}
	if flush := reader.out.Flush(); err == nil {
		err = flush
	}
	if errors.Is(err, context.Canceled) {
		return nil // interrupted: what was read is printed
	}
	return err
}

// consuming is one run of `consume`.
type consuming struct {
	flags  *consumeFlags
	app    *app
	client *kgo.Client
	out    *bufio.Writer
	left   map[int32]int64 // with --exit-at-end: ends that are not reached yet, exclusive
	shown  int64
}

func (r *consuming) run(ctx context.Context) error {
	for !r.flags.atEnd || len(r.left) > 0 {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if r.flags.timeout > 0 {
			wait, cancel = context.WithTimeout(ctx, r.flags.timeout)
		}
		fetches := r.client.PollFetches(wait)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		if errors.Is(wait.Err(), context.DeadlineExceeded) {
			break // nothing came for --timeout
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read topic %q, partition %d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		if done, err := r.take(fetches); done || err != nil {
			return err
		}
		if err := r.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// take prints what a poll brought; done is true once enough was printed.
func (r *consuming) take(fetches kgo.Fetches) (done bool, err error) {
	for iter := fetches.RecordIter(); !iter.Done(); {
		record := iter.Next()
		end, bounded := r.left[record.Partition]
		if bounded && record.Offset+1 >= end {
			delete(r.left, record.Partition)
		}
		if record.Attrs.IsControl() || r.flags.atEnd && (!bounded || record.Offset >= end) {
			continue
		}
		if err := r.print(record); err != nil {
			return true, err
		}
		r.client.MarkCommitRecords(record)
		if r.shown++; r.shown == r.flags.most {
			return true, nil
		}
	}
	return false, nil
}

// consumedRecord is what a program gets of a record, a line of JSON each.
type consumedRecord struct {
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Timestamp int64             `json:"timestamp_ms"`
	Key       *string           `json:"key"`
	Value     *string           `json:"value"`
	Headers   map[string]string `json:"headers,omitempty"`
}

func (r *consuming) print(record *kgo.Record) error {
	if r.app.format != "human" {
		line, err := json.Marshal(consumedRecord{record.Topic, record.Partition, record.Offset, record.Timestamp.UnixMilli(),
			orNull(record.Key), orNull(record.Value), headersOf(record)})
		if err != nil {
			return fmt.Errorf("encode a record: %w", err)
		}
		_, err = r.out.Write(append(line, '\n'))
		return err
	}
	var parts []string
	if r.flags.withOffset {
		parts = append(parts, fmt.Sprintf("%d:%d", record.Partition, record.Offset))
	}
	if r.flags.withTime {
		parts = append(parts, fmt.Sprint(record.Timestamp.UnixMilli()))
	}
	if r.flags.withHeads {
		var pairs []string
		for _, h := range record.Headers {
			pairs = append(pairs, h.Key+"="+string(h.Value))
		}
		parts = append(parts, strings.Join(pairs, ","))
	}
	if r.flags.withKey {
		parts = append(parts, string(record.Key))
	}
	parts = append(parts, string(record.Value))
	_, err := r.out.WriteString(strings.Join(parts, r.flags.delimiter) + "\n")
	return err
}

func orNull(b []byte) *string {
	if b == nil {
		return nil
	}
	text := string(b)
	return &text
}

func headersOf(record *kgo.Record) map[string]string {
	headers := map[string]string{}
	for _, h := range record.Headers {
		headers[h.Key] = string(h.Value)
	}
	return headers
}

// span is what a partition holds: from start, inclusive, to end, exclusive.
type span struct{ start, end int64 }

// spansOf asks what a topic's partitions hold, for a reader of this isolation.
func spansOf(ctx context.Context, c *kgo.Client, topic string, isolation int8) (map[int32]span, error) {
	ask := kmsg.NewPtrMetadataRequest()
	about := kmsg.NewMetadataRequestTopic()
	about.Topic = kmsg.StringPtr(topic)
	ask.Topics = append(ask.Topics, about)
	meta, err := ask.RequestWith(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("ask for topic %q: %w", topic, err)
	}
	var partitions []int32
	for _, t := range meta.Topics {
		if code := kafka.ErrorCode(t.ErrorCode); code != kafka.None {
			return nil, fmt.Errorf("topic %q: %w. 'hawser topic list' shows those there are", topic, code)
		}
		for _, p := range t.Partitions {
			partitions = append(partitions, p.Partition)
		}
	}
	ends, err := offsetsOf(ctx, c, topic, partitions, latest, isolation)
	if err != nil {
		return nil, err
	}
	starts, err := offsetsOf(ctx, c, topic, partitions, earliest, isolation)
	if err != nil {
		return nil, err
	}
	spans := map[int32]span{}
	for partition, end := range ends {
		spans[partition] = span{starts[partition], end}
	}
	return spans, nil
}

// The times that ListOffsets has a meaning of its own for.
const (
	latest   = -1
	earliest = -2
)

func offsetsOf(ctx context.Context, c *kgo.Client, topic string, partitions []int32, at int64, isolation int8) (map[int32]int64, error) {
	list := kmsg.NewPtrListOffsetsRequest()
	list.IsolationLevel = isolation
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic = topic
	for _, p := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p, at
		one.Partitions = append(one.Partitions, part)
	}
	list.Topics = append(list.Topics, one)
	offsets := map[int32]int64{}
	for _, shard := range c.RequestSharded(ctx, list) {
		if shard.Err != nil {
			return nil, fmt.Errorf("ask for offsets of topic %q: %w", topic, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if code := kafka.ErrorCode(p.ErrorCode); code != kafka.None {
					return nil, fmt.Errorf("ask for offsets of topic %q, partition %d: %w", topic, p.Partition, code)
				}
				offsets[p.Partition] = p.Offset
			}
		}
	}
	return offsets, nil
}
