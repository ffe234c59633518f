package verify

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// made is a log's batch before it is built: what a cleaner works on.
type made struct {
	base, last kafka.Offset
	producer   kafka.ProducerID // NoProducerID for no transaction
	marker     batch.Marker
	control    bool
	records    []batch.Record
	aborted    bool // as the model knows, not the bytes
}

func (m made) bytes(t *testing.T) batch.Batch {
	t.Helper()
	spec := batch.Spec{BaseOffset: m.base, ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1, LastDelta: int32(m.last - m.base)}
	if m.producer != kafka.NoProducerID {
		spec.ProducerID, spec.ProducerEpoch, spec.Transactional = m.producer, 0, true
	}
	if m.control {
		return batch.BuildMarker(spec, m.marker, 1, 1000)
	}
	b, err := batch.Build(spec, m.records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// write makes a log of n batches over a few keys, plain and transactional, some aborted.
func write(rng *rand.Rand, n int) []made {
	var log []made
	var at kafka.Offset
	open := map[kafka.ProducerID][]int{}
	end := func(id kafka.ProducerID) {
		m := made{base: at, last: at, producer: id, control: true, marker: batch.Commit}
		if rng.IntN(3) == 0 {
			m.marker = batch.Abort
			for _, i := range open[id] {
				log[i].aborted = true
			}
		}
		delete(open, id)
		log, at = append(log, m), at+1
	}
	for i := range n {
		m := made{base: at, producer: kafka.NoProducerID}
		if rng.IntN(2) == 0 {
			m.producer = kafka.ProducerID(100 + rng.IntN(3))
			open[m.producer] = append(open[m.producer], len(log))
		}
		for range 1 + rng.IntN(4) {
			r := batch.Record{Offset: at, Timestamp: int64(1000 + i), Key: fmt.Appendf(nil, "k%d", rng.IntN(6)), Value: fmt.Appendf(nil, "v%d", at)}
			if rng.IntN(8) == 0 {
				r.Value = nil
			}
			m.records = append(m.records, r)
			at++
		}
		m.last = at - 1
		log = append(log, m)
		for _, id := range []kafka.ProducerID{100, 101, 102} {
			if len(open[id]) > 0 && rng.IntN(4) == 0 {
				end(id)
			}
		}
	}
	for _, id := range []kafka.ProducerID{100, 101, 102} {
		if len(open[id]) > 0 {
			end(id)
		}
	}
	return log
}

// clean is a cleaner that has worked up to an offset, with tombstones expired or not.
func clean(log []made, to kafka.Offset, expired bool) []made {
	newest := map[string]kafka.Offset{}
	for _, m := range log {
		if m.last >= to || m.aborted || m.control {
			continue
		}
		for _, r := range m.records {
			newest[string(r.Key)] = r.Offset
		}
	}
	var out []made
	for _, m := range log {
		if m.last >= to || m.control {
			out = append(out, m)
			continue
		}
		m.records = slices.Clone(m.records)
		m.records = slices.DeleteFunc(m.records, func(r batch.Record) bool {
			return m.aborted || r.Offset < newest[string(r.Key)] || expired && r.Value == nil
		})
		if len(m.records) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// compare feeds the comparison in bites of a few bytes, as a reader would.
func compare(t *testing.T, rng *rand.Rand, spec Spec, source, mirror []made) Result {
	t.Helper()
	sides := [2][]made{source, mirror}
	c := New(spec)
	for {
		s, from, done := c.Next()
		if done {
			return c.Result()
		}
		var read []byte
		some := 1 + rng.IntN(3)
		for _, m := range sides[s] {
			if m.last >= from && some > 0 {
				read = append(read, m.bytes(t)...)
				some--
			}
		}
		if len(read) > 200 && rng.IntN(2) == 0 {
			first, err := batch.SizeOf(read)
			if err != nil {
				t.Fatal(err)
			}
			read = read[:first+rng.IntN(len(read)-first+1)] // a part of a batch at the end
		}
		if err := c.Add(s, read); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSameLogIsTheSame(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		log := write(rng, 30)
		end := log[len(log)-1].last + 1
		r := compare(t, rng, Spec{To: end}, log, log)
		if r.Differences != 0 || r.Batches != int64(len(log)) {
			t.Fatalf("seed %d: %+v, want %d equal batches", seed, r, len(log))
		}
	}
}

func TestTwoCleanersAreExplained(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		log := write(rng, 40)
		end := log[len(log)-1].last + 1
		cut := func() kafka.Offset { return kafka.Offset(rng.IntN(int(end) + 1)) }
		mirrorTo := cut()
		source, mirror := clean(log, cut(), rng.IntN(2) == 0), clean(log, mirrorTo, rng.IntN(2) == 0)
		r := compare(t, rng, Spec{To: end, Compacted: true, MirrorCleaned: mirrorTo}, source, mirror)
		if r.Differences != 0 {
			t.Fatalf("seed %d: a false alarm: %v", seed, r.First)
		}
	}
}

// TestChangesAreFound changes, removes or adds one thing that no cleaner would.
func TestChangesAreFound(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		log := write(rng, 40)
		end := log[len(log)-1].last + 1
		compacted := seed%2 == 0
		source, mirror := log, slices.Clone(log)
		if compacted {
			source = clean(log, end/2, true)
			mirror = clean(log, end/3, false)
		}
		what := spoil(rng, mirror, source, compacted)
		if what == nil {
			continue
		}
		r := compare(t, rng, Spec{To: end, Compacted: compacted, MirrorCleaned: end / 3}, source, what)
		if r.Differences == 0 {
			t.Fatalf("seed %d: nothing was found", seed)
		}
	}
}

// spoil gives a changed copy; nil where the dice fell on what a cleaner may do.
func spoil(rng *rand.Rand, mirror, source []made, compacted bool) []made {
	out := slices.Clone(mirror)
	i := rng.IntN(len(out))
	m := out[i]
	switch rng.IntN(3) {
	case 0: // another value
		if m.control || len(m.records) == 0 {
			return nil
		}
		m.records = slices.Clone(m.records)
		r := &m.records[rng.IntN(len(m.records))]
		if !slices.ContainsFunc(source, func(s made) bool {
			return slices.ContainsFunc(s.records, func(x batch.Record) bool { return x.Offset == r.Offset })
		}) {
			return nil // the source has no such record to differ from
		}
		r.Value = []byte("spoiled")
		out[i] = m
	case 1: // a batch is gone
		if compacted {
			return nil
		}
		out = slices.Delete(out, i, i+1)
	case 2: // the newest record of a key is gone
		newest := map[string]kafka.Offset{}
		for _, b := range source {
			for _, r := range b.records {
				if !b.aborted {
					newest[string(r.Key)] = r.Offset
				}
			}
		}
		if m.control || m.aborted || len(m.records) == 0 {
			return nil
		}
		r := m.records[0]
		if newest[string(r.Key)] != r.Offset || r.Value == nil {
			return nil
		}
		m.records = m.records[1:]
		if len(m.records) == 0 {
			out = slices.Delete(out, i, i+1)
		} else {
			out[i] = m
		}
	}
	return out
}

func TestDamageOnDiskIsNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	log := write(rng, 5)
	c := New(Spec{To: log[len(log)-1].last + 1})
	var source []byte
	for _, m := range log {
		source = append(source, m.bytes(t)...)
	}
	mirror := bytes.Clone(source)
	mirror[batch.HeaderSize+2] ^= 1
	for s, read := range [][]byte{source, mirror} {
		if err := c.Add(Side(s), read); err != nil {
			t.Fatal(err)
		}
	}
	r := c.Result()
	if r.Differences != 1 || !strings.Contains(r.First[0].Why, "damaged where it is stored") {
		t.Errorf("%+v", r)
	}
}

// TestSupersededAboveTheEnd: the record by which the source's cleaner removed another one was written after the
// comparison began.
func TestSupersededAboveTheEnd(t *testing.T) {
	key := []byte("k")
	old := made{base: 0, last: 0, producer: kafka.NoProducerID, records: []batch.Record{{Key: key, Value: []byte("a")}}}
	late := made{base: 1, last: 1, producer: kafka.NoProducerID, records: []batch.Record{{Offset: 1, Key: key, Value: []byte("b")}}}
	c := New(Spec{To: 1, Compacted: true, MirrorCleaned: 0})
	add := func(s Side, list ...made) {
		var read []byte
		for _, m := range list {
			read = append(read, m.bytes(t)...)
		}
		if err := c.Add(s, read); err != nil {
			t.Fatal(err)
		}
	}
	add(Source, late)
	add(Mirror, old)
	if r := c.Result(); r.Differences != 1 || c.Waiting() != 1 {
		t.Fatalf("%+v, waiting %d: want one open question", r, c.Waiting())
	}
	c.Extend(2)
	for {
		s, _, done := c.Next()
		if done {
			break
		}
		add(s, late)
	}
	if r := c.Result(); r.Differences != 0 || r.Explained != 1 || r.To != 2 {
		t.Errorf("%+v: want it explained", r)
	}
}

func FuzzAdd(f *testing.F) {
	f.Add([]byte{}, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		c := New(Spec{To: 100, Compacted: true, MirrorCleaned: 100})
		for range 1000 {
			s, _, done := c.Next()
			if done {
				break
			}
			read := a
			if s == Mirror {
				read = b
			}
			if c.Add(s, read) != nil {
				break
			}
		}
		c.Result()
	})
}
