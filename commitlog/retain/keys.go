package retain

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/hawserio/hawser/kafka"
)

// entryBytes is what a key takes in memory, and fill how full the table may be, in parts of 16.
const (
	entryBytes = 24
	fill       = 12
	tableLeast = 1 << 10
)

// keyHash stands for a key: half a SHA-256, so that nobody can make two keys of one hash, which
// would take the older one's record away.
type keyHash [16]byte

type keyEntry struct {
	hash   keyHash
	offset kafka.Offset // one above the newest offset of the key; 0: no entry
}

// Keys remembers the newest offset of each key in bounded memory. Keys themselves are not kept.
type Keys struct {
	table []keyEntry // a power of two long; open addressing
	count int
	most  int // entries
}

// NewKeys makes a memory for as many keys as fit into so many bytes. It grows as it is used.
func NewKeys(bytes int64) *Keys {
	size := tableLeast
	for int64(size)*2*entryBytes <= bytes {
		size *= 2
	}
	return &Keys{table: make([]keyEntry, tableLeast), most: size * fill / 16}
}

// Room reports whether n more keys fit.
func (k *Keys) Room(n int) bool { return k.count+n <= k.most }

// Len is how many keys are remembered.
func (k *Keys) Len() int { return k.count }

// Put remembers that the key has a record at offset, if it is the newest. It takes the key also when there is no
// room: the caller looks first, and takes a batch that is too large by itself all the same.
func (k *Keys) Put(key []byte, offset kafka.Offset) {
	if (k.count+1)*16 > len(k.table)*fill {
		k.grow()
	}
	hash := hashOf(key)
	e := find(k.table, hash)
	if e.offset == 0 {
		e.hash = hash
		k.count++
	}
	e.offset = max(e.offset, offset+1)
}

// Newest is the newest offset remembered of a key, NoOffset for none.
func (k *Keys) Newest(key []byte) kafka.Offset {
	if e := find(k.table, hashOf(key)); e.offset > 0 {
		return e.offset - 1
	}
	return kafka.NoOffset
}

func hashOf(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:16])
}

// find is the hash's entry, or the free one where it belongs.
func find(table []keyEntry, hash keyHash) *keyEntry {
	mask := uint64(len(table) - 1)
	for i := binary.LittleEndian.Uint64(hash[:]) & mask; ; i = (i + 1) & mask {
		if e := &table[i]; e.offset == 0 || e.hash == hash {
			return e
		}
	}
}

func (k *Keys) grow() {
	table := make([]keyEntry, 2*len(k.table))
	for _, e := range k.table {
		if e.offset > 0 {
			*find(table, e.hash) = e
		}
	}
	k.table = table
}
