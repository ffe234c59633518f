package retain

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// Survivor is a record that a compacted partition still holds, as hashes.
type Survivor struct {
	Offset    kafka.Offset
	key, sum  keyHash
	keyless   bool
	tombstone bool
	void      bool
}

// Sum is a record's hash over timestamp, key, value and headers; its offset is left out.
func Sum(r batch.Record) [16]byte {
	h := sha256.New()
	field := func(b []byte) {
		size := int64(len(b))
		if b == nil {
			size = -1
		}
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
		h.Write(b)
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(r.Timestamp)))
	field(r.Key)
	field(r.Value)
	for _, header := range r.Headers {
		field(header.Key)
		field(header.Value)
	}
	return [16]byte(h.Sum(nil)[:16])
}

// NewSurvivor takes in a record. void says that it is a marker, or of an aborted transaction: one side may have removed
// it already.
func NewSurvivor(r batch.Record, void bool) Survivor {
	return Survivor{Offset: r.Offset, key: hashOf(r.Key), sum: Sum(r), keyless: r.Key == nil, tombstone: r.Value == nil, void: void}
}

// Side is one of two copies of a compacted partition.
type Side struct {
	Records    []Survivor   // rising
	Start, End kafka.Offset // log start and high watermark
	// CleanedTo is how far its cleaner may have been: below it a record may be missing. Where a source does not tell,
	// it is End.
	CleanedTo kafka.Offset
}

// Difference is what no cleaner explains.
type Difference struct {
	Offset kafka.Offset
	Why    string
}

// String is for reports.
func (d Difference) String() string { return fmt.Sprintf("offset %d: %s", d.Offset, d.Why) }

// Compare finds at most most differences between two copies in the range that both cover: a record that both keep must
// be the same; one that a single side keeps must be superseded at the other by a later one of its key, or
// be an expired tombstone, or have been superseded by such a one, and lie below the other's cleaner.
func Compare(source, mirror Side, most int) []Difference {
	from, to := max(source.Start, mirror.Start), min(source.End, mirror.End)
	var found []Difference
	newestSource, newestMirror := newestOf(source.Records), newestOf(mirror.Records)
	a, b := source.Records, mirror.Records
	for len(found) < most && (len(a) > 0 || len(b) > 0) {
		var why string
		var at Survivor
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Offset < b[0].Offset:
			at, a = a[0], a[1:]
			why = absent("mirror", at, mirror, newestMirror, newestSource)
		case len(a) == 0 || b[0].Offset < a[0].Offset:
			at, b = b[0], b[1:]
			why = absent("source", at, source, newestSource, newestMirror)
		default:
			at = a[0]
			if a[0].sum != b[0].sum {
				why = "source and mirror have different records"
			}
			a, b = a[1:], b[1:]
		}
		if why != "" && at.Offset >= from && at.Offset < to {
			found = append(found, Difference{at.Offset, why})
		}
	}
	return found
}

// newestOf is the last record of each key that counts.
func newestOf(records []Survivor) map[keyHash]Survivor {
	newest := make(map[keyHash]Survivor, len(records))
	for _, r := range records {
		if !r.void && !r.keyless {
			newest[r.key] = r
		}
	}
	return newest
}

// absent says what is wrong with a record's not being there, "" if its cleaner may have removed it. own and other are the newest
// records at the side where it is missing and at the one that has it.
func absent(name string, r Survivor, side Side, own, other map[keyHash]Survivor) string {
	if r.Offset >= side.CleanedTo {
		return "the " + name + " lacks a record above its cleaner"
	}
	if r.void || r.keyless || r.tombstone {
		return ""
	}
	if own[r.key].Offset > r.Offset {
		return ""
	}
	if last := other[r.key]; last.Offset > r.Offset && last.tombstone && last.Offset < side.CleanedTo {
		return "" // superseded by a tombstone that expired since
	}
	return "the " + name + " lacks a record and has no later one of its key"
}
