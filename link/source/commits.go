package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// Bounds of what is read of the offsets topic at a time.
const (
	commitsFetchMax     = 4 << 20
	commitsPartitionMax = 1 << 20
	commitsWait         = 500 * time.Millisecond
	commitsOpenMax      = 10_000 // producers whose transactions' groups are remembered until they end
	commitsGroupsMax    = 100    // groups of one transaction that are
)

// WatchCommits reads the source's offsets topic from its end on and tells which groups have committed since the last
// call, until ctx ends or the topic cannot be read (READ on it is not needed for a link, only for this). What they
// have committed is for the coordinator to say: a record alone does not tell whether its transaction will be committed.
func (c *Cluster) WatchCommits(ctx context.Context, changed func(groups []string)) error {
	if err := c.gate(); err != nil {
		return err
	}
	topics, err := c.Topics(ctx, []string{kafka.ConsumerOffsetsTopic})
	if err != nil {
		return err
	}
	if len(topics) == 0 {
		return kafka.UnknownTopicError(kafka.ConsumerOffsetsTopic)
	}
	if topics[0].Err != nil {
		return topics[0].Err
	}
	ends := make(map[int32]kgo.Offset, topics[0].Partitions)
	for p := range topics[0].Partitions {
		ends[p] = kgo.NewOffset().AtEnd()
	}
	client, err := c.newClient(c.candidates(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{kafka.ConsumerOffsetsTopic: ends}),
		kgo.FetchMaxBytes(commitsFetchMax), kgo.FetchMaxPartitionBytes(commitsPartitionMax), kgo.FetchMaxWait(commitsWait),
		kgo.Dialer(c.dialFor(c.cfg.MaxReadBytes)), kgo.KeepControlRecords(), kgo.MetadataMaxAge(max(c.cfg.MetadataAge, time.Second)))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	w := commitWatch{open: map[openCommit][]string{}}
	for {
		fetches := client.PollFetches(ctx)
		switch {
		case c.ctx.Err() != nil, fetches.IsClientClosed():
			return errClosed
		case ctx.Err() != nil:
			return ctx.Err()
		}
		for _, failed := range fetches.Errors() {
			if err := fatalCommits(failed.Err); err != nil {
				return c.classify(err, "")
			}
		}
		if groups := w.groups(fetches); len(groups) > 0 {
			changed(groups)
		}
	}
}

// fatalCommits picks the errors that asking again does not heal soon.
func fatalCommits(err error) error {
	var known *Error
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("read %s: %w", kafka.ConsumerOffsetsTopic, err)
	case errors.As(err, &known):
		return err
	}
	return nil
}

// openCommit is a transaction that may commit offsets: of a producer, in one partition of the offsets topic.
type openCommit struct {
	partition int32
	producer  int64
}

// commitWatch knows which groups' offsets are waiting for the end of a transaction.
type commitWatch struct{ open map[openCommit][]string }

// groups lists the groups, each once, whose offsets may have changed by these records.
func (w *commitWatch) groups(fetches kgo.Fetches) []string {
	seen := map[string]bool{}
	fetches.EachRecord(func(r *kgo.Record) {
		txn := openCommit{r.Partition, r.ProducerID}
		switch group, is := committing(r); {
		case r.Attrs.IsControl():
			for _, group := range w.open[txn] {
				seen[group] = true
			}
			delete(w.open, txn)
		case !is:
		case !r.Attrs.IsTransactional():
			seen[group] = true
		case len(w.open) >= commitsOpenMax || len(w.open[txn]) >= commitsGroupsMax:
			seen[group] = true // too many to remember: it is looked at now, and with all groups at the next round
		case !slices.Contains(w.open[txn], group):
			w.open[txn] = append(w.open[txn], group)
		}
	})
	list := make([]string, 0, len(seen))
	for group := range seen {
		list = append(list, group)
	}
	slices.Sort(list)
	return list
}

// committing is the group of a record that commits an offset or takes one away.
func committing(r *kgo.Record) (string, bool) {
	if r.Attrs.IsControl() || len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] > 1 { // keys of version 0 and 1 are commits
		return "", false
	}
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(r.Key); err != nil {
		return "", false
	}
	return key.Group, true
}
