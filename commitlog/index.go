package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// Sizes of index entries in bytes, Kafka's.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// offsetEntry says where a batch begins, under its last offset.
type offsetEntry struct {
	last     uint32 // relative to the segment's base
	position uint32
}

// timeEntry says that no batch up to the one that ends in last is later than ms.
type timeEntry struct {
	ms   int64
	last uint32 // relative to the segment's base: the first batch with this time
}

// index is a segment's entries, rising. It only grows, so that a reader may
// keep the slices it saw.
type index struct {
	offsets []offsetEntry
	times   []timeEntry
}

// indexSums tells whether index files hold what was written to them: how many
// entries, and the CRC-32C over them.
type indexSums struct {
	offsets, times       uint32
	offsetsCRC, timesCRC uint32
}

func encodeOffsets(out []byte, entries []offsetEntry) []byte {
	for _, e := range entries {
		out = binary.BigEndian.AppendUint32(out, e.last)
		out = binary.BigEndian.AppendUint32(out, e.position)
	}
	return out
}

func encodeTimes(out []byte, entries []timeEntry) []byte {
	for _, e := range entries {
		out = binary.BigEndian.AppendUint64(out, uint64(e.ms))
		out = binary.BigEndian.AppendUint32(out, e.last)
	}
	return out
}

// readIndex reads the entries that sums vouch for. Files may hold more: entries
// flushed after the state was noted.
func readIndex(dir store.Dir, base kafka.Offset, sums indexSums) (*index, error) {
	offsets, err := readEntries(dir, indexName(base), sums.offsets, offsetEntrySize, sums.offsetsCRC)
	if err != nil {
		return nil, err
	}
	times, err := readEntries(dir, timeName(base), sums.times, timeEntrySize, sums.timesCRC)
	if err != nil {
		return nil, err
	}
	x := &index{offsets: make([]offsetEntry, 0, sums.offsets), times: make([]timeEntry, 0, sums.times)}
	for ; len(offsets) > 0; offsets = offsets[offsetEntrySize:] {
		x.offsets = append(x.offsets, offsetEntry{binary.BigEndian.Uint32(offsets), binary.BigEndian.Uint32(offsets[4:])})
	}
	for ; len(times) > 0; times = times[timeEntrySize:] {
		x.times = append(x.times, timeEntry{int64(binary.BigEndian.Uint64(times)), binary.BigEndian.Uint32(times[8:])})
	}
	return x, nil
}

func readEntries(dir store.Dir, name string, count uint32, size int, crc uint32) ([]byte, error) {
	if count == 0 {
		return nil, nil
	}
	content, err := dir.ReadFile(name)
	if err != nil {
		return nil, err
	}
	want := int64(count) * int64(size)
	if int64(len(content)) < want {
		return nil, fmt.Errorf("%s has %d bytes, not %d", name, len(content), want)
	}
	content = content[:want]
	if crc32.Checksum(content, castagnoli) != crc {
		return nil, fmt.Errorf("%s fails its CRC", name)
	}
	return content, nil
}

// errShortIndex says that an index file lacks entries that were written to it.
var errShortIndex = errors.New("index file is shorter than it was")

// flushIndex brings the index files up to st, whose entries are given, and notes how
// far they go. durable ones are synced too.
func (l *Log) flushIndex(g *segment, st state, entries index, sure durability) error {
	g.mu.Lock()
	sums := g.flushed.sums
	g.mu.Unlock()
	sums, err := l.writeIndex(g.base, sums, entries, sure)
	if errors.Is(err, errShortIndex) { // somebody removed it: they may
		sums, err = l.writeIndex(g.base, indexSums{}, entries, sure)
	}
	if err != nil {
		return fmt.Errorf("write index of %s: %w", logName(g.base), err)
	}
	st.sums = sums
	g.mu.Lock()
	g.flushed = st
	g.mu.Unlock()
	return nil
}

// writeIndex appends what the files lack, which hold what sums say, and is the sums after.
func (l *Log) writeIndex(base kafka.Offset, sums indexSums, entries index, sure durability) (indexSums, error) {
	offsets := encodeOffsets(nil, entries.offsets[sums.offsets:])
	times := encodeTimes(nil, entries.times[sums.times:])
	if err := appendEntries(l.dir, indexName(base), int64(sums.offsets)*offsetEntrySize, offsets, sure); err != nil {
		return sums, err
	}
	if err := appendEntries(l.dir, timeName(base), int64(sums.times)*timeEntrySize, times, sure); err != nil {
		return sums, err
	}
	return indexSums{
		offsets: uint32(len(entries.offsets)), offsetsCRC: crc32.Update(sums.offsetsCRC, castagnoli, offsets),
		times: uint32(len(entries.times)), timesCRC: crc32.Update(sums.timesCRC, castagnoli, times),
	}, nil
}

// durability is how sure a write must be.
type durability uint8

const (
	someday durability = iota // the system may write it when it likes
	durable
)

// appendEntries writes entries at position at of an index file. What else is there
// (left over from before a crash or a cut) goes. A file is made with its first entry: where there are ten thousand small logs,
// most need none.
func appendEntries(dir store.Dir, name string, at int64, entries []byte, sure durability) error {
	if at == 0 && len(entries) == 0 {
		return nil
	}
	f, err := dir.Open(name)
	if err == nil && f.Size() > at {
		if err = f.Close(); err == nil {
			err = dir.Cut(name, at)
		}
		if err == nil {
			f, err = dir.Open(name)
		}
	}
	if errors.Is(err, store.ErrNotExist) {
		f, err = dir.Create(name)
	}
	if err != nil {
		return err
	}
	if f.Size() != at {
		return errors.Join(fmt.Errorf("%s has %d bytes, not %d: %w", name, f.Size(), at, errShortIndex), f.Close())
	}
	if len(entries) > 0 {
		err = f.Append(entries)
	}
	if err == nil && sure == durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// positionOf is where to begin looking for the batch that holds offset: a
// batch's begin, at most an index interval and one batch below it.
func (v *view) positionOf(offset kafka.Offset) int64 {
	entries := v.offsets
	i := sort.Search(len(entries), func(i int) bool { return v.base+kafka.Offset(entries[i].last) > offset })
	if i == 0 {
		return 0
	}
	return int64(entries[i-1].position)
}

// boundary is the last indexed batch begin that is at most position limit and
// whose batch ends below upTo; 0 if there is none.
func (v *view) boundary(limit int64, upTo kafka.Offset) int64 {
	entries := v.offsets
	i := sort.Search(len(entries), func(i int) bool {
		return int64(entries[i].position) > limit || v.base+kafka.Offset(entries[i].last) >= upTo
	})
	if i == 0 {
		return 0
	}
	return int64(entries[i-1].position)
}
