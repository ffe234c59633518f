package fetcher_test

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

// once is a lie that is told in one answer, the first that has a place for it after it is set.
type once struct {
	told atomic.Int32
	most int32
}

func (o *once) tell(change func() bool) {
	if o.told.Load() < o.most && change() {
		o.told.Add(1)
	}
}

func (o *once) await(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); o.told.Load() < o.most; {
		if time.Now().After(until) {
			t.Fatal("the lie was never told")
		}
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
	}
}

func partitionsOf(resp kmsg.Response, f func(*kmsg.MetadataResponseTopic, *kmsg.MetadataResponseTopicPartition) bool) bool {
	answer, is := resp.(*kmsg.MetadataResponse)
	if !is || len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return false
	}
	return f(&answer.Topics[0], &answer.Topics[0].Partitions[0])
}

func fetchedOf(resp kmsg.Response, f func(*kmsg.FetchResponseTopicPartition) bool) bool {
	answer, is := resp.(*kmsg.FetchResponse)
	if !is || len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return false
	}
	p := &answer.Topics[0].Partitions[0]
	p.RecordBatches = slices.Clone(p.RecordBatches)
	return f(p)
}

// One answer with one wrong word in it must neither end a mirror nor take anything from it.
func TestOneWrongAnswerIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		name   string
		hangUp bool // the answer is one that a new connection brings
		lie    func(kmsg.Response) bool
	}{
		{"topic id", true, func(resp kmsg.Response) bool {
			return partitionsOf(resp, func(topic *kmsg.MetadataResponseTopic, _ *kmsg.MetadataResponseTopicPartition) bool {
				topic.TopicID[3] ^= 16
				return true
			})
		}},
		{"leader epoch", true, func(resp kmsg.Response) bool {
			return partitionsOf(resp, func(_ *kmsg.MetadataResponseTopic, p *kmsg.MetadataResponseTopicPartition) bool {
				p.LeaderEpoch |= 1 << 20
				return true
			})
		}},
		{"log start", false, func(resp kmsg.Response) bool {
			return fetchedOf(resp, func(p *kmsg.FetchResponseTopicPartition) bool {
				p.LogStartOffset = p.HighWatermark
				return p.HighWatermark > 0
			})
		}},
		{"epoch of a batch", false, func(resp kmsg.Response) bool {
			return fetchedOf(resp, func(p *kmsg.FetchResponseTopicPartition) bool {
				if len(p.RecordBatches) < 16 {
					return false
				}
				binary.BigEndian.PutUint32(p.RecordBatches[12:], 1<<20)
				return true
			})
		}},
		{"magic of a batch", false, func(resp kmsg.Response) bool {
			return fetchedOf(resp, func(p *kmsg.FetchResponseTopicPartition) bool {
				if len(p.RecordBatches) < 17 {
					return false
				}
				p.RecordBatches[16] = 1
				return true
			})
		}},
		{"bytes of the last batch", true, func(resp kmsg.Response) bool {
			return fetchedOf(resp, func(p *kmsg.FetchResponseTopicPartition) bool {
				if len(p.RecordBatches) < 61 {
					return false
				}
				p.RecordBatches[19] ^= 1
				return true
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 2, nil)
			b.stub.Create("t", topicID, 1)
			b.stub.Partition(zero).Produce(10, "v")
			target := b.mirror(topicID, zero)[0]
			b.reach(target, 10)
			lie := &once{most: 1}
			b.stub.Lie(func(resp kmsg.Response) { lie.tell(func() bool { return c.lie(resp) }) })
			if c.hangUp {
				b.stub.Broker(1).HangUp()
			} else {
				b.stub.Partition(zero).Produce(10, "w")
			}
			lie.await(t)
			b.stub.Partition(zero).Produce(10, "x")
			end := kafka.Offset(30)
			if c.hangUp {
				end = 20
			}
			b.reach(target, end)
			b.same(target, zero)
			if o := target.Offsets(); o.LogStart != 0 {
				t.Errorf("the mirror begins at %d now", o.LogStart)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, e := range b.events {
				if e.Kind != "fault" || e.Fault != fetcher.SourceUnreachable && e.Fault != fetcher.CorruptBatch {
					t.Errorf("the mirror showed %+v", e)
				}
			}
		})
	}
}
