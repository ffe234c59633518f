package wire

import (
	"encoding/binary"
	"fmt"
)

// produceFlexible is the first version of Produce with compact lists; produceByID the first that names topics by id.
const (
	produceTransactional = 3
	produceFlexible      = 9
	produceByID          = 13
)

// CheckProduce walks a Produce request's body, what ParseHeader left, without laying it out in memory. It
// returns an error that wraps ErrMalformed where the body is none, or where it names more than most topics and partitions together: such
// a request takes many times its bytes to lay out.
func CheckProduce(rest []byte, version int16, most int) error {
	w := walker{rest: rest, flexible: version >= produceFlexible}
	w.tags() // the header's
	if version >= produceTransactional {
		w.text()
	}
	w.skip(2 + 4) // acks and time-out
	named := 0
	for topics := w.count(); topics > 0 && !w.bad; topics-- {
		if version >= produceByID {
			w.skip(16)
		} else {
			w.text()
		}
		partitions := w.count()
		if named += 1 + partitions; named > most {
			return fmt.Errorf("%w: Produce names more than %d topics and partitions", ErrMalformed, most)
		}
		for ; partitions > 0 && !w.bad; partitions-- {
			w.skip(4)
			w.bytes()
			w.tags()
		}
		w.tags()
	}
	if w.bad {
		return fmt.Errorf("%w: Produce version %d", ErrMalformed, version)
	}
	return nil
}

// walker reads lengths and passes over what they belong to. After a fault it stays bad.
type walker struct {
	rest     []byte
	flexible bool
	bad      bool
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.rest) {
		w.rest, w.bad = nil, true
		return
	}
	w.rest = w.rest[n:]
}

func (w *walker) uvarint() int {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 || v > 1<<31 {
		w.rest, w.bad = nil, true
		return 0
	}
	w.rest = w.rest[n:]
	return int(v)
}

// length is a compact length, or one of size bytes; -1 for null.
func (w *walker) length(size int) int {
	if w.flexible {
		return w.uvarint() - 1
	}
	if len(w.rest) < size {
		w.rest, w.bad = nil, true
		return 0
	}
	at := w.rest
	w.rest = w.rest[size:]
	if size == 2 {
		return int(int16(binary.BigEndian.Uint16(at)))
	}
	return int(int32(binary.BigEndian.Uint32(at)))
}

// count is a list's; each of its elements takes a byte at least.
func (w *walker) count() int {
	n := max(w.length(4), 0)
	if n > len(w.rest) {
		w.rest, w.bad = nil, true
		return 0
	}
	return n
}

func (w *walker) text()  { w.skip(max(w.length(2), 0)) }
func (w *walker) bytes() { w.skip(max(w.length(4), 0)) }

func (w *walker) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
