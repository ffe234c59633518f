package partition

import (
	"cmp"
	"slices"

	"github.com/hawserio/hawser/kafka"
)

// abortedTxn is an entry of the index of aborted transactions.
type abortedTxn struct {
	id    kafka.ProducerID
	first kafka.Offset // first record's, inclusive
	last  kafka.Offset // the marker's, inclusive
	// stable is where the oldest transaction that was open then begins, or the end of the marker:
	// whatever is aborted later begins at or above it, so that a search may end there.
	stable kafka.Offset
}

// abortedIndex is the aborted transactions of a log in the order of their ends.
type abortedIndex []abortedTxn

// add appends the transaction that ended; firstOpen is the oldest still open, NoOffset for none.
func (x *abortedIndex) add(d decided, firstOpen kafka.Offset) {
	stable := d.marker + 1
	if firstOpen != kafka.NoOffset {
		stable = firstOpen
	}
	*x = append(*x, abortedTxn{d.id, d.start, d.marker, stable})
}

// between lists those with a record in [from, upTo), by first offset, also those that began before from.
func (x abortedIndex) between(from, upTo kafka.Offset) []Aborted {
	i, _ := slices.BinarySearchFunc(x, from, func(a abortedTxn, from kafka.Offset) int { return cmp.Compare(a.last, from) })
	found := []Aborted{}
	for _, a := range x[i:] {
		if a.first < upTo {
			found = append(found, Aborted{Producer: a.id, FirstOffset: a.first})
		}
		if a.stable >= upTo {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return found
}

// dropBelow forgets those that ended below the log start.
func (x *abortedIndex) dropBelow(start kafka.Offset) {
	i, _ := slices.BinarySearchFunc(*x, start, func(a abortedTxn, start kafka.Offset) int { return cmp.Compare(a.last, start) })
	if i > 0 {
		*x = slices.Clone((*x)[i:])
	}
}
