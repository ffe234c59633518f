// Package verify compares two copies of a partition, batch by batch, and says where they part. It is fed with
// what was read of both and asks nobody: no clock, no I/O.
//
// Where neither side's cleaner has been, equal means the same bytes. On a compacted topic the two cleaners work at
// times of their own: a record that both keep must be the same, and one that a single side keeps must be
// superseded at the other by a later record of its key, or be of a kind that cleaners remove.
package verify

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// Side is one of the two copies.
type Side int

// The sides.
const (
	Source Side = iota
	Mirror
)

func (s Side) String() string { return [...]string{"source", "mirror"}[s] }

func (s Side) other() Side { return 1 - s }

const (
	// differencesMax bounds how many differences are told; they are all counted.
	differencesMax = 20
	// questionsMax bounds how many records may wait for a later one of their key.
	questionsMax = 1 << 20
	// recordsMax bounds the decompressed records of one batch, in bytes.
	recordsMax = 64 << 20
)

// Difference is a place where the copies part.
type Difference struct {
	Offset kafka.Offset `json:"offset"`
	Why    string       `json:"why"`
}

// Spec says what is compared.
type Spec struct {
	From, To  kafka.Offset // To is exclusive; it may grow by Extend
	Compacted bool         // cleaners may have been at work
	// MirrorCleaned is above what the mirror's cleaner ever used as a newer record: from there on the mirror lacks nothing.
	MirrorCleaned kafka.Offset
	Alone         Alone
}

// Alone is what is said of a record that a single side has.
type Alone int

// The values of Alone.
const (
	Judged  Alone = iota // a cleaner must have had a reason to remove it
	Counted              // it is counted: only what both sides have is compared
)

// Result is what was found so far.
type Result struct {
	From        kafka.Offset // the first offset compared
	To          kafka.Offset // exclusive
	Batches     int64        // the same bytes on both sides
	Bytes       int64        // of these batches
	Records     int64        // compared one by one, where cleaners have made the batches different
	Explained   int64        // records that one side's cleaner had reason to remove
	Alone       [2]int64     // records that only this side has, by side, where they are not judged
	Differences int64
	First       []Difference // the first of them, 20 at most
	Sum         []byte       // SHA-256 of the batches that are the same, in their order
}

// Comparison is a comparison under way: ask Next which side is wanted, Add what was read of it, until it is done.
type Comparison struct {
	spec   Spec
	sides  [2]side
	result Result
	sum    hash.Hash
	// waiting counts the open questions of both sides.
	waiting int
	// transactions whose end was not seen yet; only those on which something hangs.
	transactions map[kafka.ProducerID]transaction
}

// side is what is known of one copy.
type side struct {
	next    kafka.Offset // the first offset that was not read yet
	ended   bool         // nothing more is there below To
	batches []batch.Batch
	records []record               // of batches that were taken apart, not yet compared
	open    map[keyHash][]question // records that this side lacks, each to be superseded here; by key, rising
}

// New begins a comparison.
func New(spec Spec) *Comparison {
	c := &Comparison{spec: spec, sum: sha256.New(), transactions: map[kafka.ProducerID]transaction{}}
	c.result.From, c.result.To = spec.From, spec.To
	for i := range c.sides {
		c.sides[i] = side{next: spec.From, ended: spec.From >= spec.To, open: map[keyHash][]question{}}
	}
	return c
}

// Next says which side to read and from which offset on; done means that both were compared up to To.
func (c *Comparison) Next() (s Side, from kafka.Offset, done bool) {
	for s := range Mirror + 1 {
		if at := &c.sides[s]; !at.ended && len(at.batches) == 0 && len(at.records) == 0 {
			return s, at.next, false
		}
	}
	return 0, 0, true
}

// Add takes in whole batches read from the offset that Next gave; a part of one at the end is left out. It keeps the
// bytes. Nothing in them means that the side ends here. The error is for bytes that are no batches.
func (c *Comparison) Add(s Side, read batch.Batches) error {
	at := &c.sides[s]
	some, before := false, at.next
	for b, err := range read.All() {
		if errors.Is(err, batch.ErrShort) && some {
			break // cut short by the reader's limit
		}
		if err != nil {
			return fmt.Errorf("take a batch of the %s from offset %d apart: %w", s, at.next, err)
		}
		some = true
		if b.NextOffset() <= at.next {
			continue // asked for its middle, or passed by a jump
		}
		if b.BaseOffset() >= c.spec.To {
			at.ended = true
			break
		}
		at.batches = append(at.batches, b)
		at.next = b.NextOffset()
		if at.ended = at.next >= c.spec.To; at.ended {
			break
		}
	}
	if some && at.next == before && !at.ended {
		return fmt.Errorf("the %s answers a read from offset %d with earlier batches only", s, before)
	}
	at.ended = at.ended || !some
	return c.advance()
}

// Jump leaves out what lies below an offset, because a side has removed it meanwhile.
func (c *Comparison) Jump(to kafka.Offset) {
	for s := range c.sides {
		at := &c.sides[s]
		for len(at.batches) > 0 && at.batches[0].BaseOffset() < to {
			at.batches = at.batches[1:]
		}
		for len(at.records) > 0 && at.records[0].offset < to {
			at.records = at.records[1:]
		}
		at.next = max(at.next, to)
		at.ended = at.ended || at.next >= c.spec.To
	}
	c.result.From = max(c.result.From, to)
}

// Extend moves the end: what a cleaner removed below the old one may be superseded above it.
func (c *Comparison) Extend(to kafka.Offset) {
	if to <= c.spec.To {
		return
	}
	c.spec.To, c.result.To = to, to
	for s := range c.sides {
		c.sides[s].ended = false
	}
}

// Waiting is how many records still wait for a later one of their key.
func (c *Comparison) Waiting() int { return c.waiting }

// Result is what was found. Records that still wait for a later one of their key are differences in it.
func (c *Comparison) Result() Result {
	r := c.result
	r.First = append([]Difference(nil), r.First...)
	r.Sum = c.sum.Sum(nil)
	for s := range c.sides {
		for key, list := range c.sides[s].open {
			if c.mayBeSuperseded(Side(s), key) {
				r.Explained += int64(len(list))
				continue
			}
			q := list[len(list)-1] // it would supersede those before it
			r.Explained += int64(len(list) - 1)
			r.Differences++
			if len(r.First) < differencesMax {
				r.First = append(r.First, Difference{q.offset, fmt.Sprintf("the %s lacks a record and has no later one of its key", Side(s))})
			}
		}
	}
	return r
}

// mayBeSuperseded reports whether a record of a transaction that is still open would be the later one.
func (c *Comparison) mayBeSuperseded(s Side, key keyHash) bool {
	for _, t := range c.transactions {
		for _, a := range t.later {
			if a.side == s && a.record.key == key {
				return true
			}
		}
	}
	return false
}

// At is how far both sides were compared, exclusive.
func (c *Comparison) At() kafka.Offset {
	at := c.spec.To
	for s := range c.sides {
		side := &c.sides[s]
		switch {
		case len(side.records) > 0:
			at = min(at, side.records[0].offset)
		case len(side.batches) > 0:
			at = min(at, side.batches[0].BaseOffset())
		case !side.ended:
			at = min(at, side.next)
		}
	}
	return max(at, c.result.From)
}

func (c *Comparison) differ(at kafka.Offset, format string, args ...any) {
	c.result.Differences++
	if len(c.result.First) < differencesMax {
		c.result.First = append(c.result.First, Difference{at, fmt.Sprintf(format, args...)})
	}
}

// advance compares as long as both sides have something, or have ended.
func (c *Comparison) advance() error {
	for {
		a, b := &c.sides[Source], &c.sides[Mirror]
		apart := len(a.records) > 0 || len(b.records) > 0
		switch {
		case apart:
			if more, err := c.records(); err != nil || !more {
				return err
			}
		case len(a.batches) == 0 && len(b.batches) == 0, a.wanting(), b.wanting():
			return nil
		case len(a.batches) > 0 && len(b.batches) > 0 && bytes.Equal(a.batches[0], b.batches[0]):
			if err := c.same(a.batches[0]); err != nil {
				return err
			}
			a.batches, b.batches = a.batches[1:], b.batches[1:]
		case c.spec.Compacted:
			if err := c.takeApart(); err != nil {
				return err
			}
		default:
			c.unlike()
		}
	}
}

// wanting reports whether the side has to be read before anything can be said.
func (s *side) wanting() bool { return len(s.batches) == 0 && len(s.records) == 0 && !s.ended }

// same counts a batch that both sides hold.
func (c *Comparison) same(b batch.Batch) error {
	if err := b.CheckCRC(); err != nil {
		c.differ(b.BaseOffset(), "source and mirror hold the same batch, and it is damaged: %v", err)
		return nil
	}
	c.result.Batches++
	c.result.Bytes += int64(len(b))
	c.sum.Write(b)
	if c.waiting == 0 && len(c.transactions) == 0 {
		return nil // nobody asks for its records
	}
	return each(b, func(r record) error {
		c.seen(Source, r)
		c.seen(Mirror, r)
		return nil
	})
}

// unlike tells how the two first batches differ and goes past the lower one.
func (c *Comparison) unlike() {
	a, b := &c.sides[Source], &c.sides[Mirror]
	lower := Source
	switch {
	case len(a.batches) == 0:
		lower = Mirror
	case len(b.batches) == 0:
	case a.batches[0].BaseOffset() == b.batches[0].BaseOffset():
		x, y := a.batches[0], b.batches[0]
		c.differ(x.BaseOffset(), "the batches differ: %s", how(x, y))
		a.batches, b.batches = a.batches[1:], b.batches[1:]
		return
	case b.batches[0].BaseOffset() < a.batches[0].BaseOffset():
		lower = Mirror
	}
	at := &c.sides[lower]
	c.differ(at.batches[0].BaseOffset(), "only the %s has a batch of offsets %d to %d", lower, at.batches[0].BaseOffset(),
		at.batches[0].LastOffset())
	at.batches = at.batches[1:]
}

// how names the first field in which two batches with the same base offset differ.
func how(source, mirror batch.Batch) string {
	switch {
	case source.LastOffset() != mirror.LastOffset():
		return fmt.Sprintf("the source's ends at offset %d, the mirror's at %d", source.LastOffset(), mirror.LastOffset())
	case source.LeaderEpoch() != mirror.LeaderEpoch():
		return fmt.Sprintf("the source's has leader epoch %d, the mirror's %d", source.LeaderEpoch(), mirror.LeaderEpoch())
	case source.CRC() != mirror.CRC():
		return fmt.Sprintf("the source's CRC is %08x, the mirror's %08x", source.CRC(), mirror.CRC())
	case mirror.CheckCRC() != nil:
		return "the mirror's bytes do not fit its CRC: it was damaged where it is stored"
	case source.CheckCRC() != nil:
		return "the source's bytes do not fit its CRC: it was damaged there or on the way"
	}
	return "their bytes differ"
}
