package group

import (
	"fmt"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// Random commits, transactions, clamps, deletions and refused writes, with crashes that lose what was not
// synced: what was acknowledged is there afterwards, and nothing that was not asked for.
func TestC95_AcknowledgedOffsetsSurviveCrashes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBroker(t, "t")
		defer func() { b.Close() }()
		m := &offsetsModel{r: r, b: b, t: t, sure: map[string]at{}, pending: map[int64]map[string]at{}}
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			m.step()
			m.check("")
		}
		b.restart(t)
		m.check(" after the last restart")
	})
}

// at is an offset and when it was committed: of two on one partition the later record counts, whichever
// transaction is decided first.
type at struct{ offset, order int64 }

// offsetsModel is what must be there. Every operation is awaited, so that it is exact.
type offsetsModel struct {
	r       *rapid.T
	b       *broker
	t       *testing.T
	sure    map[string]at           // by group and partition
	pending map[int64]map[string]at // of producers with an open transaction
	order   int64
}

func (m *offsetsModel) pick() (group string, p int32, key string, now at) {
	group = rapid.SampledFrom([]string{"g1", "g2", "g3"}).Draw(m.r, "group")
	p = int32(rapid.IntRange(0, 1).Draw(m.r, "partition"))
	m.order++
	return group, p, fmt.Sprint(group, p), at{rapid.Int64Range(0, 999).Draw(m.r, "offset"), m.order}
}

func (m *offsetsModel) step() {
	group, p, key, now := m.pick()
	switch rapid.IntRange(0, 8).Draw(m.r, "event") {
	case 0, 1:
		if code := m.b.commit(m.t, group, tp("t", p), now.offset, nil); code != kafka.None {
			m.r.Fatalf("commit: %v", code)
		}
		m.sure[key] = now
	case 2:
		id := int64(rapid.IntRange(70, 71).Draw(m.r, "producer"))
		if code := m.b.txnCommit(m.t, group, id, tp("t", p), now.offset); code != kafka.None {
			m.r.Fatalf("txn commit: %v", code)
		}
		if m.pending[id] == nil {
			m.pending[id] = map[string]at{}
		}
		m.pending[id][key] = now
	case 3:
		m.end(batch.Commit)
	case 4:
		m.end(batch.Abort)
	case 5:
		m.clamp()
	case 6: // refused, and nothing of it shows
		log := m.b.groupLog(group)
		log.fail = errCut
		if code := m.b.commit(m.t, group, tp("t", p), now.offset, nil); code == kafka.None {
			m.r.Fatal("acknowledged though it was not written")
		}
		log.fail = nil
	case 7:
		m.b.restart(m.t)
	case 8:
		rq := kmsg.NewPtrDeleteGroupsRequest()
		rq.Groups = []string{group}
		m.b.DeleteGroups(m.t.Context(), rq)
		for p := range 2 {
			key := fmt.Sprint(group, p)
			delete(m.sure, key)
			for _, held := range m.pending {
				delete(held, key)
			}
		}
	}
}

// end ends the transaction of one producer in all partitions of the offsets topic.
func (m *offsetsModel) end(marker batch.Marker) {
	id := int64(rapid.IntRange(70, 71).Draw(m.r, "producer"))
	for n := range int32(fakePartitions) {
		if err := m.b.WriteMarker(m.t.Context(), n, kafka.ProducerID(id), 0, marker, 0); err != nil {
			m.r.Fatal(err)
		}
	}
	for key, held := range m.pending[id] {
		if sure, ok := m.sure[key]; marker == batch.Commit && (!ok || sure.order < held.order) {
			m.sure[key] = held
		}
	}
	delete(m.pending, id)
}

func (m *offsetsModel) clamp() {
	end := rapid.Int64Range(0, 1000).Draw(m.r, "end")
	if _, err := m.b.Clamp(m.t.Context(), "t", []kafka.Offset{kafka.Offset(end), kafka.Offset(end)}); err != nil {
		m.r.Fatal(err)
	}
	for key, sure := range m.sure {
		m.sure[key] = at{min(sure.offset, end), sure.order}
	}
	for _, held := range m.pending {
		for key, one := range held {
			held[key] = at{min(one.offset, end), one.order}
		}
	}
}

func (m *offsetsModel) check(when string) {
	for _, group := range []string{"g1", "g2", "g3"} {
		for p := range int32(2) {
			want := int64(-1)
			if sure, ok := m.sure[fmt.Sprint(group, p)]; ok {
				want = sure.offset
			}
			if got := m.b.fetch(m.t, group, tp("t", p)).Offset; got != want {
				m.r.Fatalf("group %s, partition %d%s: offset %d, want %d", group, p, when, got, want)
			}
		}
	}
}

// Whatever stands on the offsets topic is read or refused, and never ends the broker.
func FuzzReplay(f *testing.F) {
	f.Add(offsetKey("g", tp("t", 1)), []byte{0, 3, 0, 0})
	f.Add(groupKey("g"), []byte{0, 3})
	for kind := int16(3); kind < 18; kind++ {
		f.Add(consumerKey(kind, "g", "m"), []byte{0, 0, 0, 0, 0, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		b := &broker{logs: map[int32]*fakeLog{}, topics: map[string]kafka.TopicID{}}
		c := newCoordinator(Config{}, b.env(), nil)
		id, ok := groupOf(key)
		if !ok {
			return
		}
		g := c.loading(c.shards[0], reading{}, id)
		if err := c.replay(g, record{key: key, value: value}, producer{}); err != nil {
			return
		}
		c.wake(g, g.armed)
		c.Close()
	})
}
