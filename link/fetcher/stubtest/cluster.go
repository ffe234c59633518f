package stubtest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// Cluster is a source cluster of stub brokers that share one memory.
type Cluster struct {
	ID string

	mu       sync.Mutex
	changed  chan struct{} // closed and renewed at each change; long polls wait for it
	topics   map[string]*topic
	brokers  map[int32]*Broker
	fetches  map[kafka.TopicPartition][]time.Time
	requests map[int16]int // by key
	mangle   func(kafka.TopicPartition, kafka.Offset, []byte) []byte
	lie      func(kmsg.Response)
	configs  func(topic string) (map[string]string, kafka.ErrorCode)
	password string
	closed   bool
}

type topic struct {
	id    kafka.TopicID
	parts []*part
}

// part is one partition's log, as all brokers see it.
type part struct {
	leader  int32
	epoch   kafka.LeaderEpoch
	start   kafka.Offset
	high    kafka.Offset // high watermark, -1 for the log's end
	stable  kafka.Offset // last stable offset, -1 for the high watermark
	batches [][]byte     // whole sets; normally batches of format 2
	starts  []kafka.EpochStart
	deny    kafka.ErrorCode
}

// NewCluster starts brokers 1 to n. They are closed with the test.
func NewCluster(t interface {
	Cleanup(func())
	Fatal(...any)
}, n int) *Cluster {
	c := &Cluster{
		ID: "stub", changed: make(chan struct{}), topics: make(map[string]*topic), brokers: make(map[int32]*Broker),
		fetches: make(map[kafka.TopicPartition][]time.Time), requests: make(map[int16]int),
	}
	for id := range int32(n) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b := &Broker{id: id + 1, cluster: c, listener: listener, stop: make(chan struct{}), conns: make(map[net.Conn]bool), maxFetch: 17}
		c.brokers[b.id] = b
		go b.accept()
	}
	t.Cleanup(c.close)
	return c
}

func (c *Cluster) close() {
	c.mu.Lock()
	c.closed = true
	c.note()
	brokers := c.brokers
	c.mu.Unlock()
	for _, b := range brokers {
		b.Stop()
	}
}

// note wakes long polls. c.mu is held.
func (c *Cluster) note() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// change runs f under the lock and wakes long polls.
func (c *Cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.note()
}

// Bootstrap is all brokers' addresses.
func (c *Cluster) Bootstrap() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, b := range c.brokers {
		list = append(list, b.Address())
	}
	slices.Sort(list)
	return list
}

// Broker is one of them.
func (c *Cluster) Broker(id int32) *Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brokers[id]
}

// Password makes the brokers want SASL PLAIN with it; any user will do.
func (c *Cluster) Password(password string) { c.change(func() { c.password = password }) }

// Configs says what configs topics have beside the defaults, or with which code the question for them is refused. It is called for
// each topic that is asked about, by several goroutines.
func (c *Cluster) Configs(configs func(topic string) (map[string]string, kafka.ErrorCode)) {
	c.change(func() { c.configs = configs })
}

// Create makes a topic, anew if it is there, with broker 1 leading all partitions in epoch 0.
// Without an id it is one of a source from before they were invented.
func (c *Cluster) Create(name string, id kafka.TopicID, partitions int) {
	c.change(func() {
		t := &topic{id: id}
		for range partitions {
			t.parts = append(t.parts, &part{leader: 1, high: -1, stable: -1, starts: []kafka.EpochStart{{}}})
		}
		c.topics[name] = t
	})
}

// Delete removes a topic.
func (c *Cluster) Delete(name string) { c.change(func() { delete(c.topics, name) }) }

// Partition is a handle on one partition; its methods panic where there is none.
func (c *Cluster) Partition(tp kafka.TopicPartition) *Partition { return &Partition{c, tp} }

// Partition changes one partition's log and leader.
type Partition struct {
	c  *Cluster
	tp kafka.TopicPartition
}

func (p *Partition) part() *part {
	t := p.c.topics[p.tp.Topic]
	if t == nil || int(p.tp.Partition) >= len(t.parts) {
		panic(fmt.Sprintf("stub has no partition %s", p.tp))
	}
	return t.parts[p.tp.Partition]
}

// Append adds bytes as one set to the log's end.
func (p *Partition) Append(sets ...[]byte) {
	p.c.change(func() { q := p.part(); q.batches = append(q.batches, sets...) })
}

// Produce adds a batch of n records in the present epoch, and returns it.
func (p *Partition) Produce(n int, value string) batch.Batch {
	var b batch.Batch
	p.c.change(func() {
		q := p.part()
		b = Build(q.end(), q.epoch, n, value)
		q.batches = append(q.batches, b)
	})
	return b
}

// Build makes a batch of n records.
func Build(base kafka.Offset, epoch kafka.LeaderEpoch, n int, value string) batch.Batch {
	records := make([]batch.Record, n)
	for i := range records {
		records[i] = batch.Record{Offset: base + kafka.Offset(i), Timestamp: 1, Value: []byte(value)}
	}
	b, err := batch.Build(batch.Spec{BaseOffset: base, LeaderEpoch: epoch, ProducerID: kafka.NoProducerID, ProducerEpoch: -1,
		BaseSequence: -1}, records)
	if err != nil {
		panic(err)
	}
	return b
}

// Trim moves the log start.
func (p *Partition) Trim(start kafka.Offset) {
	p.c.change(func() {
		q := p.part()
		q.start = start
		q.batches = slices.DeleteFunc(q.batches, func(set []byte) bool { return nextOf(set) <= start })
	})
}

// Cut removes everything from offset on, as an unclean election does.
func (p *Partition) Cut(offset kafka.Offset) {
	p.c.change(func() {
		q := p.part()
		q.batches = slices.DeleteFunc(q.batches, func(set []byte) bool { return nextOf(set) > offset })
		q.starts = slices.DeleteFunc(q.starts, func(s kafka.EpochStart) bool { return s.Start >= offset && s.Start > 0 })
	})
}

// Replace puts another log in the place of the old one.
func (p *Partition) Replace(sets ...[]byte) {
	p.c.change(func() { q := p.part(); q.batches = slices.Clone(sets) })
}

// Lead gives the partition to a broker in an epoch that begins at the log's end.
func (p *Partition) Lead(broker int32, epoch kafka.LeaderEpoch) {
	p.c.change(func() {
		q := p.part()
		if epoch != q.epoch {
			q.starts = append(q.starts, kafka.EpochStart{Epoch: epoch, Start: q.end()})
		}
		q.leader, q.epoch = broker, epoch
	})
}

// Began says where leader epochs began, as a source knows it whose cleaner has been at work.
func (p *Partition) Began(starts ...kafka.EpochStart) {
	p.c.change(func() { p.part().starts = starts })
}

// Hide holds the high watermark below the log's end; -1 lets it go.
func (p *Partition) Hide(high kafka.Offset) { p.c.change(func() { p.part().high = high }) }

// Undecided holds the last stable offset; -1 lets it go.
func (p *Partition) Undecided(stable kafka.Offset) { p.c.change(func() { p.part().stable = stable }) }

// Deny answers fetches with an error; 0 ends it.
func (p *Partition) Deny(code kafka.ErrorCode) { p.c.change(func() { p.part().deny = code }) }

// Bytes is the log.
func (p *Partition) Bytes() []byte {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return slices.Concat(p.part().batches...)
}

// Lie lets f change every answer on its way; nil ends it.
func (c *Cluster) Lie(f func(kmsg.Response)) { c.change(func() { c.lie = f }) }

// Mangle passes what is answered for a partition through f; nil ends it.
func (c *Cluster) Mangle(f func(kafka.TopicPartition, kafka.Offset, []byte) []byte) {
	c.change(func() { c.mangle = f })
}

// Fetches is when fetches asked for the partition's data, sessions counted each time.
func (c *Cluster) Fetches(tp kafka.TopicPartition) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.fetches[tp])
}

// Requests is how many requests of a key came.
func (c *Cluster) Requests(key int16) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[key]
}

func (q *part) end() kafka.Offset {
	if n := len(q.batches); n > 0 {
		return nextOf(q.batches[n-1])
	}
	return q.start
}

func (q *part) highWatermark() kafka.Offset {
	if q.high >= 0 {
		return min(q.high, q.end())
	}
	return q.end()
}

func (q *part) lastStable() kafka.Offset {
	if q.stable >= 0 {
		return min(q.stable, q.highWatermark())
	}
	return q.highWatermark()
}

// epochEnd is KIP-101's answer.
func (q *part) epochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	for i := len(q.starts) - 1; i >= 0; i-- {
		if q.starts[i].Epoch > epoch {
			continue
		}
		if i+1 < len(q.starts) {
			return q.starts[i].Epoch, q.starts[i+1].Start
		}
		return q.starts[i].Epoch, q.end()
	}
	return -1, -1
}

// baseOf and nextOf read a set's first offset and the one after its last. Old formats say only where
// they begin, and count as one offset.
func baseOf(set []byte) kafka.Offset { return batch.Batch(set).BaseOffset() }

func nextOf(set []byte) kafka.Offset {
	if set[16] != 2 {
		return baseOf(set) + 1
	}
	return batch.Batch(set).NextOffset()
}
