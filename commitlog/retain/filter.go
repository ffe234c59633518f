package retain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// Aborted is an aborted transaction.
type Aborted struct {
	Producer kafka.ProducerID
	First    kafka.Offset // of its first record, inclusive
	Last     kafka.Offset // of its marker, inclusive
}

// Last is a producer's last sign of life in the log.
type Last struct {
	Offset kafka.Offset // last offset of its last batch with a sequence, NoOffset for none
	Epoch  int16
}

// Facts are what a cleaning must know of its log.
type Facts struct {
	// Aborted are the aborted transactions of which records may be left, in any order. The marker of one
	// of them stays: readers are still told of the transaction, and need its end.
	Aborted []Aborted
	// Producers are those the log's producer state knows: their last batches stay, if need be empty.
	Producers         map[kafka.ProducerID]Last
	NowMs             int64
	DeleteRetentionMs int64
	KeyBytes          int64 // memory for keys
	PlainMax          int   // bytes of one batch's records, decompressed; a larger batch stays as it is
}

// Filter decides which records of a log stay. First it learns the keys of the dirty part, then it is shown
// every batch from the log's first on, in order, once.
type Filter struct {
	facts   Facts
	keys    *Keys
	from    kafka.Offset // keys were learned of [from, to)
	to      kafka.Offset
	aborted map[kafka.ProducerID][]Aborted    // by First
	markers map[kafka.Offset]bool             // of aborted
	seen    map[kafka.ProducerID]bool         // a batch of its open transaction came by
	open    map[kafka.ProducerID]kafka.Offset // of what was learned: a transaction without its marker; its end if it is known to be aborted
	scratch []batch.Record

	// Unreadable counts batches that stay as they are because their records cannot be read.
	Unreadable int
	// Removed and Kept count records.
	Removed, Kept int64
}

// NewFilter makes a filter that will learn keys from offset from on (inclusive).
func NewFilter(facts Facts, from kafka.Offset) *Filter {
	f := &Filter{
		facts: facts, keys: NewKeys(facts.KeyBytes), from: from, to: from,
		aborted: map[kafka.ProducerID][]Aborted{}, markers: map[kafka.Offset]bool{}, seen: map[kafka.ProducerID]bool{},
		open: map[kafka.ProducerID]kafka.Offset{},
	}
	for _, a := range facts.Aborted {
		f.aborted[a.Producer] = append(f.aborted[a.Producer], a)
		f.markers[a.Last] = true
	}
	for _, list := range f.aborted {
		slices.SortFunc(list, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	}
	return f
}

// Learn takes in the keys of the next batch of the dirty part. It reports false, and takes in nothing, if
// they do not fit any more: the cleaning then ends below this batch.
func (f *Filter) Learn(b batch.Batch) bool {
	if !b.IsControl() && !f.isAborted(b) && b.Count() > 0 {
		if f.keys.Len() > 0 && !f.keys.Room(int(b.Count())) {
			return false
		}
		records, ok := f.records(b)
		if !ok {
			f.Unreadable++
		}
		for _, r := range records {
			if r.Key != nil && r.Offset >= f.from {
				f.keys.Put(r.Key, r.Offset)
			}
		}
	}
	switch {
	case b.IsControl():
		delete(f.open, b.ProducerID())
	case b.IsTransactional() && b.Count() > 0:
		f.open[b.ProducerID()] = kafka.NoOffset
		if a, is := f.abortedOf(b); is {
			f.open[b.ProducerID()] = a.Last
		}
	}
	f.to = b.NextOffset()
	return true
}

// Undecided are the producers whose transactions reach past To: what becomes of their records below it is decided above. With each comes
// the offset (inclusive) that its transaction was aborted at, by a marker or a jump; NoOffset for one whose marker is to be looked for. The
// map is the caller's.
func (f *Filter) Undecided() map[kafka.ProducerID]kafka.Offset { return maps.Clone(f.open) }

// To is the end, exclusive, of what was learned: nothing at or above it is touched, and no record at or
// above it was used as a newer value.
func (f *Filter) To() kafka.Offset { return f.to }

// records reads all of a batch's records; ok is false if they cannot be read.
func (f *Filter) records(b batch.Batch) (records []batch.Record, ok bool) {
	f.scratch = f.scratch[:0]
	for r, err := range b.Records(f.facts.PlainMax) {
		if err != nil {
			return nil, false
		}
		f.scratch = append(f.scratch, r)
	}
	return f.scratch, true
}

// isAborted reports whether the batch belongs to an aborted transaction.
func (f *Filter) isAborted(b batch.Batch) bool {
	_, is := f.abortedOf(b)
	return is
}

// abortedOf is the aborted transaction that the batch belongs to.
func (f *Filter) abortedOf(b batch.Batch) (a Aborted, is bool) {
	if !b.IsTransactional() || b.IsControl() {
		return a, false
	}
	list := f.aborted[b.ProducerID()]
	i, found := slices.BinarySearchFunc(list, b.BaseOffset(), func(a Aborted, at kafka.Offset) int { return cmp.Compare(a.First, at) })
	if !found {
		i--
	}
	// A batch that reaches past the end is of the transaction that a jump of the mirror cut in two: what is left of it is decided later.
	if i < 0 || b.LastOffset() > list[i].Last {
		return a, false
	}
	return list[i], true
}

// Place says where a batch stands.
type Place int

const (
	Inside Place = iota
	// EndsSegment is the last batch of what becomes one segment: it stays, if need be empty, so that
	// the segment ends where it did.
	EndsSegment
)

// Batch is what becomes of the next batch: itself, untouched; another with fewer records; or nil. The
// rules are Kafka's (LogCleaner, KIP-534). What is returned is valid until the next call.
func (f *Filter) Batch(b batch.Batch, place Place) (batch.Batch, error) {
	if b.BaseOffset() >= f.to {
		return b, nil
	}
	if b.IsControl() {
		return f.marker(b, place)
	}
	// An empty batch that only ends a segment needs no marker: it opens no transaction.
	if b.IsTransactional() && (b.Count() > 0 || f.isLastOfProducer(b)) {
		f.seen[b.ProducerID()] = true
	}
	if f.isAborted(b) {
		return f.emptied(b, place)
	}
	records, ok := f.records(b)
	if !ok {
		f.Unreadable++
		return b, nil
	}
	kept, tombstones := f.keep(b, records)
	switch horizon := b.DeleteHorizon(); {
	case len(kept) == 0:
		return f.emptied(b, place)
	case tombstones && horizon == batch.NoHorizon:
		f.count(b, len(kept))
		return b.Rebuild(kept, f.facts.NowMs+f.facts.DeleteRetentionMs)
	case len(kept) == int(b.Count()):
		f.count(b, len(kept))
		return b, nil
	default:
		f.count(b, len(kept))
		return b.Rebuild(kept, horizon)
	}
}

func (f *Filter) count(b batch.Batch, kept int) {
	f.Kept += int64(kept)
	f.Removed += int64(b.Count()) - int64(kept)
}

// keep is the records that stay, in the memory of records, and whether a tombstone is among them.
func (f *Filter) keep(b batch.Batch, records []batch.Record) (kept []batch.Record, tombstones bool) {
	expired := b.HasDeleteHorizon() && b.DeleteHorizon() <= f.facts.NowMs
	kept = records[:0]
	for _, r := range records {
		switch {
		case r.Key == nil: // Kafka's cleaner removes what has no key, too
			continue
		case f.keys.Newest(r.Key) > r.Offset:
			continue
		case r.Value == nil && (expired || plant.On("tombstones-early")):
			continue
		}
		tombstones = tombstones || r.Value == nil
		kept = append(kept, r)
	}
	return kept, tombstones
}

// marker decides about a control batch: it goes once no batch of its transaction is left and, after that, delete.retention.ms
// have passed.
func (f *Filter) marker(b batch.Batch, place Place) (batch.Batch, error) {
	open := f.seen[b.ProducerID()]
	delete(f.seen, b.ProducerID())
	switch {
	case b.Count() == 0:
		return f.emptied(b, place)
	case open || f.markers[b.BaseOffset()]:
		return b, nil
	case b.HasDeleteHorizon() && b.DeleteHorizon() <= f.facts.NowMs:
		return f.emptied(b, place)
	case b.HasDeleteHorizon():
		return b, nil
	}
	records, ok := f.records(b)
	if !ok || len(records) == 0 {
		f.Unreadable++
		return b, nil
	}
	return b.Rebuild(records, f.facts.NowMs+f.facts.DeleteRetentionMs)
}

// emptied is a batch that has lost its records: nil, unless it must stay for its producer's sake or as the end of a segment.
func (f *Filter) emptied(b batch.Batch, place Place) (batch.Batch, error) {
	f.count(b, 0)
	if place != EndsSegment && !f.isLastOfProducer(b) {
		return nil, nil
	}
	if b.Count() == 0 {
		return b, nil
	}
	return b.Rebuild(nil, batch.NoHorizon)
}

func (f *Filter) isLastOfProducer(b batch.Batch) bool {
	last, known := f.facts.Producers[b.ProducerID()]
	switch {
	case !known || b.ProducerID() < 0:
		return false
	case last.Offset != kafka.NoOffset:
		return b.LastOffset() == last.Offset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}
