package link

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// held is a log to be compared.
type held struct{ batches batch.Batches }

func (h held) Batches(from kafka.Offset) (batch.Batches, error) {
	if from > 0 {
		return nil, nil
	}
	return h.batches, nil
}

func (held) CleanedTo() kafka.Offset { return 0 }

func (p *fakeParts) OpenCopy(id kafka.PartitionID, copied kafka.TopicID, entry meta.Partition) error {
	at := kafka.PartitionID{Topic: copied, Partition: id.Partition}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list[at] == nil {
		p.list[at] = &fakePart{parts: p, id: at, at: partition.Offsets{Role: entry.Role, Generation: entry.Generation}, Verifiable: held{}}
	}
	return nil
}

// SwapCopy checks what must hold: the copy has what the mirror has.
func (p *fakeParts) SwapCopy(ctx context.Context, id kafka.PartitionID, copied kafka.TopicID) error {
	at := kafka.PartitionID{Topic: copied, Partition: id.Partition}
	c, m := p.get(at), p.get(id)
	if c == nil || c.Offsets().HighWatermark < m.Offsets().HighWatermark {
		p.rig.violate("partition %d of %s is swapped for a copy that lacks records", id.Partition, id.Topic)
	}
	p.mu.Lock()
	delete(p.list, at)
	p.mu.Unlock()
	return p.rig.meta.UpdatePartitions(ctx, []kafka.TopicID{id.Topic}, func(now *meta.Partitions) (*meta.Partitions, error) {
		if now.List[id.Partition].Role != meta.RoleMirror {
			return nil, partition.ErrStale
		}
		now.List[id.Partition].Home = copied
		return now, nil
	})
}

// DropCopy checks that nobody fetches the copy, and that no mirror waits for it.
func (p *fakeParts) DropCopy(_ context.Context, topic, copied kafka.TopicID, _ int32) error {
	img := p.rig.meta.Image()
	if rec := img.Mirrors[topic]; rec != nil && rec.Recopy != nil && rec.Recopy.ID == copied {
		p.rig.violate("a copy is dropped that its mirror waits for")
	}
	p.rig.mu.Lock()
	for _, pool := range p.rig.copies {
		if pool.fetches("keys (copy)") > 0 && !pool.isClosed() {
			p.rig.violations = append(p.rig.violations, "a copy is dropped while it is fetched")
		}
	}
	p.rig.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.list {
		if id.Topic == copied {
			delete(p.list, id)
		}
	}
	return nil
}

func (p *fakePool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// marked is a mirror of a compacted topic of n partitions that may have missed deletions and ends at offset 10.
func marked(t *testing.T, n int32, more ...string) *rig {
	r := newRig(t)
	r.source.topic("keys", n, "cleanup.policy", "compact")
	r.link("l", more...)
	r.mirror("l", "keys")
	for p := range n {
		r.part("keys", p).Verifiable = held{}
		r.part("keys", p).grow(10)
	}
	r.mark()
	return r
}

func (r *rig) mark() {
	r.t.Helper()
	err := r.meta.Update(r.t.Context(), func(img *meta.Image) ([]meta.Change, error) {
		rec := *img.Mirrors[img.TopicIDs["keys"]]
		rec.Error, rec.ErrorText = string(mirror.DeletionsMissed), "it was away"
		return []meta.Change{meta.PutMirror(&rec)}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) recopy() *meta.Recopy {
	img := r.meta.Image()
	return img.Mirrors[img.TopicIDs["keys"]].Recopy
}

// copied waits until a partition's copy is fetched.
func (r *rig) copied(p int32) *fakePart {
	r.t.Helper()
	var part *fakePart
	r.eventually("the copy is fetched", func() bool {
		again := r.recopy()
		if again == nil {
			return false
		}
		part = r.parts.get(kafka.PartitionID{Topic: again.ID, Partition: p})
		r.mu.Lock()
		defer r.mu.Unlock()
		if part == nil || len(r.copies) == 0 {
			return false
		}
		pool := r.copies[len(r.copies)-1]
		pool.mu.Lock()
		defer pool.mu.Unlock()
		a, is := pool.assigned[kafka.TopicPartition{Topic: "keys (copy)", Partition: p}]
		return is && a.Target == fetcher.Target(part) && a.Source == kafka.TopicPartition{Topic: "keys", Partition: p}
	})
	return part
}

// copyPool fetches the copies.
func (r *rig) copyPool() *fakePool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies[len(r.copies)-1]
}

func (p *fakePool) looked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks
}

// noCopies wants nothing to be left of copies but what took its place.
func (r *rig) noCopies() {
	r.t.Helper()
	r.eventually("nothing is left of the copy", func() bool {
		img := r.meta.Image()
		return len(img.Partitions) == len(img.Topics)
	})
}

// TestT3_MirrorIsCopiedAgain has copies grow, be compared and take the mirror's place, over a restart; the mark is there until the last is in its place.
func TestT3_MirrorIsCopiedAgain(t *testing.T) {
	r := marked(t, 2)
	r.commits.set("g", "keys", 0, 7)
	c := r.copied(0)
	r.copied(1)
	c.grow(4)
	r.eventually("it says how far it is", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		again := m.Lags[0].Recopy
		return m.Status == "ACTIVE" && m.Err == string(mirror.DeletionsMissed) && strings.Contains(m.ErrText, "0 of 2 partitions are done") &&
			again != nil && *again == RecopyLag{RecopyCopying, 4, 10}
	})
	pool, name := r.copyPool(), kafka.TopicPartition{Topic: "keys (copy)"}
	pool.mu.Lock()
	pool.status[name] = fetcher.Status{SourceEnd: 12, Compared: true, LastContact: time.Now()}
	pool.mu.Unlock()
	c.grow(10)
	looks := pool.looked()
	r.eventually("it is looked at twice more", func() bool { return pool.looked() > looks+2 })
	if m, _ := r.links.Mirror("l", "keys"); m.Lags[0].Recopy == nil || m.Lags[0].Recopy.State != RecopyCopying {
		t.Errorf("a copy that is behind its source is %+v", m.Lags[0].Recopy)
	}
	pool.mu.Lock()
	delete(pool.status, name)
	pool.mu.Unlock()
	r.eventually("the first is in its place", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Lags[0].Recopy != nil && m.Lags[0].Recopy.State == RecopyDone && m.Err == string(mirror.DeletionsMissed)
	})
	id := r.recopy().ID
	r.obeyed("l", Pause, "keys")
	r.status("keys", "PAUSED")
	r.obeyed("l", Resume, "keys")
	if m, _ := r.links.Mirror("l", "keys"); m.Err != string(mirror.DeletionsMissed) {
		t.Errorf("pause and resume took the mark of a copy under way away: %s", m.Err)
	}
	r.restart()
	r.copied(1).grow(11)
	r.eventually("the mark is gone", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Status == "ACTIVE" && m.Err == "NO_ERROR" && m.Lags[1].Recopy == nil && r.recopy() == nil
	})
	r.noCopies()
	img := r.meta.Image()
	for p, state := range img.Partitions[img.TopicIDs["keys"]].List {
		if state.Home != id || state.Role != meta.RoleMirror {
			t.Errorf("partition %d is %+v", p, state)
		}
	}
	if at, _ := r.commits.get("g", "keys", 0); at != 7 {
		t.Errorf("the group stands at %d", at)
	}
}

// TestT2_CopyIsLevelOnceItIsComparedWithItsSource: one that goes beyond its source has what that lost since, and what superseded
// records that are gone everywhere may be above its end otherwise.
func TestT2_CopyIsLevelOnceItIsComparedWithItsSource(t *testing.T) {
	name := copyName("keys", 0)
	pool := &fakePool{status: map[kafka.TopicPartition]fetcher.Status{}}
	c := &recopying{pool: pool, compared: map[kafka.PartitionID]compared{}}
	one := pair{mirror: &fakePart{}, copy: &fakePart{at: partition.Offsets{HighWatermark: 9, LogEnd: 10}}}
	for _, s := range []struct {
		end      kafka.Offset
		compared bool
		level    bool
	}{{-1, false, false}, {12, true, false}, {10, false, false}, {10, true, true}, {9, true, false}} {
		pool.status[name] = fetcher.Status{SourceEnd: s.end, Compared: s.compared}
		if got := c.facts(topicMirror{topic: &meta.Topic{Name: "keys"}}, one).Level; got != s.level {
			t.Errorf("a copy that ends at 10, its source at %d, compared %v: level %v", s.end, s.compared, got)
		}
	}
}

// TestT3_CopiedAgainAFewAtATime wants no more copies at once than the bound says.
func TestT3_CopiedAgainAFewAtATime(t *testing.T) {
	r := marked(t, copiesMax+2)
	for p := range int32(copiesMax) {
		r.copied(p)
	}
	m, err := r.links.Mirror("l", "keys")
	if err != nil || m.Lags[copiesMax].Recopy == nil || m.Lags[copiesMax].Recopy.State != RecopyWaiting {
		t.Errorf("the next one is %+v (%v)", m.Lags[copiesMax].Recopy, err)
	}
	r.copied(1).grow(10)
	r.copied(copiesMax)
	if again := r.recopy(); r.parts.get(kafka.PartitionID{Topic: again.ID, Partition: copiesMax + 1}) != nil {
		t.Error("one too many is copied")
	}
}

// TestT3_NotCopiedAgain lists what keeps the mark: no room, an order not to, and a copy that is none.
func TestT3_NotCopiedAgain(t *testing.T) {
	stays := func(t *testing.T, r *rig, words string) {
		t.Helper()
		r.eventually("it says why", func() bool {
			m, _ := r.links.Mirror("l", "keys")
			return m.Err == string(mirror.DeletionsMissed) && m.Status == "ACTIVE" && strings.Contains(m.ErrText, words) && m.Lags[0].Recopy == nil
		})
		r.noCopies()
	}
	t.Run("no room", func(t *testing.T) {
		r := newRig(t)
		r.parts.full = kafka.Errorf(kafka.KafkaStorageError, "the disk is small")
		r.source.topic("keys", 1, "cleanup.policy", "compact")
		r.link("l")
		r.mirror("l", "keys")
		r.mark()
		stays(t, r, "there is no room for that: the disk is small")
	})
	t.Run("not allowed", func(t *testing.T) {
		r := marked(t, 1, keyRecopy, "false")
		stays(t, r, "it was away")
	})
	t.Run("forbidden meanwhile", func(t *testing.T) {
		r := marked(t, 1)
		r.copied(0)
		if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{Name: keyRecopy, Value: new("false")}}, false); err != nil {
			t.Fatal(err)
		}
		stays(t, r, "it was away")
	})
	t.Run("other records", func(t *testing.T) {
		r := marked(t, 1)
		c := r.copied(0)
		r.part("keys", 0).Verifiable = held{records(t, "one")}
		c.Verifiable = held{records(t, "another")}
		c.grow(10)
		stays(t, r, "1 records differ from the mirror's, the first at offset 0")
	})
}

func records(t *testing.T, value string) batch.Batches {
	b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{Key: []byte("k"), Value: []byte(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return batch.Batches(b)
}

// TestT3_StoppedWhileItIsCopiedAgain wants a failover not to wait, the copy to go and the mark to stay.
func TestT3_StoppedWhileItIsCopiedAgain(t *testing.T) {
	r := marked(t, 2)
	r.copied(0).grow(10)
	r.eventually("one is in its place", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Lags[0].Recopy != nil && m.Lags[0].Recopy.State == RecopyDone
	})
	begun := time.Now()
	r.obeyed("l", Failover, "keys")
	r.status("keys", "STOPPED")
	t.Logf("stopped after %v", time.Since(begun))
	// STOPPED is shown a moment before it is stored, and with it the words.
	r.eventually("it says that it was stopped while it was copied", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Err == string(mirror.DeletionsMissed) && strings.Contains(m.ErrText, "stopped while it was copied")
	})
	r.noCopies()
}

// TestT3_LinkDeletedWhileItIsCopiedAgain wants nothing of the copy to stay.
func TestT3_LinkDeletedWhileItIsCopiedAgain(t *testing.T) {
	r := marked(t, 1)
	r.copied(0)
	if err := r.links.Delete(t.Context(), "l", true, false); err != nil {
		t.Fatal(err)
	}
	r.noCopies()
}
