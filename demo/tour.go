package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "orders"
	linkName   = "from-east"
	group      = "shipping"
	partitions = 3
	firstBatch = 3000
)

// tour is the state that the steps share.
type tour struct {
	o         Options
	out       io.Writer
	began     time.Time
	dir       string
	keep      bool // the directory was given, so it stays
	east      *cluster
	west      *cluster
	produced  int
	stopFlow  context.CancelFunc // ends the live traffic
	flow      sync.WaitGroup
	prints    []fingerprint // of each partition of the mirror, before east was lost
	committed map[int32]int64
}

func newTour(o Options) (*tour, error) {
	t := &tour{o: o, out: o.Out, began: time.Now(), dir: o.Dir, keep: o.Dir != "", stopFlow: func() {}}
	if t.o.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		t.o.Program = self
	}
	var err error
	if t.dir == "" {
		t.dir, err = os.MkdirTemp("", "hawser-demo-")
	} else {
		t.dir, err = filepath.Abs(t.dir)
	}
	return t, err
}

func (t *tour) close() {
	t.stopFlow()
	t.flow.Wait()
	for _, c := range []*cluster{t.west, t.east} {
		if c != nil {
			c.stop()
		}
	}
	if !t.keep {
		if err := os.RemoveAll(t.dir); err != nil {
			t.say("the data in %s could not be removed: %v", t.dir, err)
		}
	}
}

func (t *tour) startClusters(ctx context.Context) error {
	var err error
	if t.east, err = startCluster(ctx, t.o.Program, "east", t.dir); err != nil {
		return err
	}
	if t.west, err = startCluster(ctx, t.o.Program, "west", t.dir); err != nil {
		return err
	}
	for _, c := range []*cluster{t.east, t.west} {
		t.say("%s: Kafka at %s, REST and console at http://%s, pid %d, data in %s", c.name, c.kafka, c.http, c.cmd.Process.Pid, c.dir)
	}
	return nil
}

func (t *tour) produceOrders(ctx context.Context) error {
	producer, err := dial(t.east)
	if err != nil {
		return err
	}
	defer producer.Close()
	made, err := kadm.NewClient(producer).CreateTopic(ctx, partitions, 1, nil, topic)
	if err = errors.Join(err, made.Err); err != nil {
		return fmt.Errorf("create topic %s on east: %w", topic, err)
	}
	if err := produce(ctx, producer, 0, firstBatch); err != nil {
		return fmt.Errorf("produce to east: %w", err)
	}
	t.produced = firstBatch
	t.say("%d orders in topic %s on %d partitions, acknowledged after they were synced", firstBatch, topic, partitions)
	return t.startFlow()
}

// startFlow keeps orders coming on east while the tour goes on.
func (t *tour) startFlow() error {
	producer, err := dial(t.east)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stopFlow = cancel
	t.flow.Go(func() {
		defer producer.Close()
		t.produced += trickle(ctx, producer, firstBatch)
	})
	return nil
}

func (t *tour) linkAndMirror(ctx context.Context) error {
	if err := t.east.alive(); err != nil {
		return err
	}
	_, err := t.west.rest.CreateLink(ctx, client.NewLink{Name: linkName, Body: api.CreateLinkRequest{Configs: configData(map[string]string{
		"bootstrap.servers":             t.east.kafka,
		"consumer.offset.sync.enable":   "true",
		"consumer.offset.sync.ms":       "1000",
		"consumer.offset.group.filters": `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`,
	})}})
	if err != nil {
		return fmt.Errorf("create the link: %w", err)
	}
	asked := api.CreateMirrorRequest{SourceTopicName: topic, Configs: []api.ConfigData{}}
	if _, err := t.west.rest.CreateMirror(ctx, linkName, asked); err != nil {
		return fmt.Errorf("create the mirror: %w", err)
	}
	from := time.Now()
	err = t.until(ctx, 15*time.Second, "the mirror to hold what east holds", func(ctx context.Context) (bool, string, error) {
		east, west, err := t.ends(ctx)
		return err == nil && west.total() >= firstBatch && east.total()-west.total() < 50,
			fmt.Sprintf("east ends at %v, west at %v", east, west), err
	})
	if err != nil {
		return err
	}
	t.say("link %s and mirror topic %s made; level with live traffic after %.2f s", linkName, topic, time.Since(from).Seconds())
	return nil
}

func configData(values map[string]string) []api.ConfigData {
	var list []api.ConfigData
	for name, value := range values {
		list = append(list, api.ConfigData{Name: name, Value: &value})
	}
	return list
}

// compare stops the traffic for a moment, waits for lag 0 and compares every byte.
func (t *tour) compare(ctx context.Context) error {
	if err := t.east.alive(); err != nil {
		return fmt.Errorf("nothing to compare with: %w", err)
	}
	t.stopFlow()
	t.flow.Wait()
	if err := t.level(ctx); err != nil {
		return err
	}
	prints, err := t.compareBytes(ctx)
	if err != nil {
		return err
	}
	t.prints = prints
	var records, size int64
	for _, p := range prints {
		records += int64(p.end - p.start)
		size += p.bytes
	}
	t.say("lag 0; %d records, %d bytes in %d partitions are the same on both sides, byte for byte, at the same offsets", records, size,
		len(prints))
	return nil
}

func (t *tour) level(ctx context.Context) error {
	return t.until(ctx, 10*time.Second, "lag 0", func(ctx context.Context) (bool, string, error) {
		east, west, err := t.ends(ctx)
		return err == nil && east == west, fmt.Sprintf("east ends at %v, west at %v", east, west), err
	})
}

func (t *tour) writeToMirror(ctx context.Context) error {
	producer, err := dial(t.west)
	if err != nil {
		return err
	}
	defer producer.Close()
	err = produce(ctx, producer, 0, 1)
	switch {
	case err == nil:
		return errors.New("the mirror took a record from a producer; it must refuse")
	case !errors.Is(err, kerr.InvalidRequest):
		return fmt.Errorf("the mirror refused a producer, but not as a read-only topic: %w", err)
	}
	t.say("refused at once, as it should be: mirror topics are read-only (%v)", kafka.ErrorCode(kerr.InvalidRequest.Code))
	return nil
}

// syncGroup commits for a group on east and waits until west knows it.
func (t *tour) syncGroup(ctx context.Context) error {
	if err := t.east.alive(); err != nil {
		return err
	}
	reader, err := dial(t.east, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	for n := 0; n < firstBatch/2; {
		fetches := reader.PollRecords(ctx, 500)
		if err := fetches.Err0(); err != nil {
			reader.Close()
			return fmt.Errorf("consume on east: %w", err)
		}
		n += fetches.NumRecords()
	}
	err = reader.CommitUncommittedOffsets(ctx)
	reader.Close()
	if err != nil {
		return fmt.Errorf("commit on east: %w", err)
	}
	if t.committed, err = offsetsOf(ctx, t.east); err != nil {
		return err
	}
	err = t.until(ctx, 20*time.Second, "the group's offsets to reach west", func(ctx context.Context) (bool, string, error) {
		west, err := offsetsOf(ctx, t.west)
		return err == nil && equal(west, t.committed), fmt.Sprintf("east has %v, west %v", t.committed, west), err
	})
	if err != nil {
		return err
	}
	t.say("group %s has read up to %s on east; west holds the same offsets", group, shown(t.committed))
	return nil
}

// shown is a group's offsets in words.
func shown(offsets map[int32]int64) string {
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(offsets)) {
		parts = append(parts, fmt.Sprintf("offset %d in partition %d", offsets[p], p))
	}
	return strings.Join(parts, ", ")
}

func equal(a, b map[int32]int64) bool {
	for p, offset := range a {
		if b[p] != offset {
			return false
		}
	}
	return len(a) == len(b)
}

func offsetsOf(ctx context.Context, c *cluster) (map[int32]int64, error) {
	admin, err := dial(c)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	fetched, err := kadm.NewClient(admin).FetchOffsets(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s on %s: %w", group, c.name, err)
	}
	offsets := map[int32]int64{}
	for p, o := range fetched[topic] {
		if o.At >= 0 {
			offsets[p] = o.At
		}
	}
	return offsets, nil
}

// until asks again and again until ok, and says what it last saw when time is up.
func (t *tour) until(ctx context.Context, limit time.Duration, what string, ok func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var words string
	var last error
	for {
		for _, c := range []*cluster{t.east, t.west} {
			if err := c.alive(); err != nil && (c == t.west || t.needsEast()) {
				return fmt.Errorf("waited for %s, but %w", what, err)
			}
		}
		done, now, err := ok(ctx)
		if done {
			return nil
		}
		if ctx.Err() == nil || words == "" {
			words, last = now, err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited %v for %s: %s", limit, what, words), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// needsEast is whether east should still be running.
func (t *tour) needsEast() bool { return t.east != nil && !t.east.lost }
