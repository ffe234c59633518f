package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
)

// Pages of bbolt's, in the byte order of the machine that wrote them:
//
//	0 id uint64   8 flags uint16   10 count uint16   12 overflow uint32 (pages more that belong to it)
//	16 count elements of 16 bytes; on a branch: 0 pos uint32   4 key size uint32   8 page id uint64;
//	on a leaf: 0 flags uint32   4 pos uint32   8 key size uint32   12 value size uint32
//
// A key begins pos bytes behind its element's begin.
const (
	pageHead    = 16
	pageElement = 16
	pageBranch  = 1
	pageLeaf    = 2
)

// pageTree looks at a database's pages as bbolt does when it looks for those that are free. bbolt panics at what it
// finds then, where nobody can catch it; and what it may find is more than a walk over the keys shows.
type pageTree struct {
	file     io.ReaderAt
	pageSize int64
	pages    uint64          // there are
	seen     map[uint64]bool // pages that something leads to
}

// checkBucket looks at the pages of a bucket and of all in it.
func (t *pageTree) checkBucket(b *bolt.Bucket) error {
	if root := uint64(b.Root()); root != 0 { // else it lies within a page of the bucket that it is in
		if _, err := t.check(root, nil, nil); err != nil {
			return err
		}
	}
	return b.ForEachBucket(func(k []byte) error {
		if inner := b.Bucket(k); inner != nil {
			return t.checkBucket(inner)
		}
		return nil
	})
}

// check looks at a page and all below it, whose keys must rise from least (inclusive; nil: no bound) to most (exclusive; nil: none), and is
// the last key there.
func (t *pageTree) check(id uint64, least, most []byte) (last []byte, err error) {
	page, err := t.read(id)
	if err != nil {
		return nil, err
	}
	last = least
	for i := range int(binary.NativeEndian.Uint16(page[10:])) {
		key, below, err := page.element(i)
		switch {
		case err != nil:
			return nil, fmt.Errorf("page %d: %w", id, err)
		case last != nil && bytes.Compare(key, last) < 0, i > 0 && bytes.Equal(key, last), most != nil && bytes.Compare(key, most) >= 0:
			return nil, fmt.Errorf("page %d: key %d is out of its order", id, i)
		}
		if last = key; !page.isBranch() {
			continue
		}
		next := most
		if after, _, err := page.element(i + 1); err == nil {
			next = after
		}
		if last, err = t.check(below, key, next); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// read reads a page, with those that belong to it, once.
func (t *pageTree) read(id uint64) (boltPage, error) {
	if id < 2 || id >= t.pages {
		return nil, fmt.Errorf("page %d: there are %d", id, t.pages)
	}
	page := make(boltPage, t.pageSize)
	if _, err := t.file.ReadAt(page, int64(id)*t.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	own, flags := binary.NativeEndian.Uint64(page), binary.NativeEndian.Uint16(page[8:])
	more := uint64(binary.NativeEndian.Uint32(page[12:]))
	switch {
	case own != id || flags != pageBranch && flags != pageLeaf:
		return nil, fmt.Errorf("page %d: it says that it is page %d and of kind %#x", id, own, flags)
	case more >= t.pages-id:
		return nil, fmt.Errorf("page %d: it takes %d pages more of %d", id, more, t.pages)
	}
	for n := id; n <= id+more; n++ {
		if t.seen[n] {
			return nil, fmt.Errorf("page %d: it is in use twice", n)
		}
		t.seen[n] = true
	}
	if more == 0 {
		return page, nil
	}
	page = make(boltPage, int64(more+1)*t.pageSize)
	if _, err := t.file.ReadAt(page, int64(id)*t.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return page, nil
}

// boltPage is a page's bytes.
type boltPage []byte

func (p boltPage) isBranch() bool { return binary.NativeEndian.Uint16(p[8:]) == pageBranch }

// element is a key of the page and, on a branch, the page below it.
func (p boltPage) element(i int) (key []byte, below uint64, err error) {
	if i >= int(binary.NativeEndian.Uint16(p[10:])) {
		return nil, 0, fmt.Errorf("it has no key %d", i)
	}
	at := int64(pageHead + i*pageElement)
	if at+pageElement > int64(len(p)) {
		return nil, 0, fmt.Errorf("key %d is behind its end", i)
	}
	e := p[at:]
	pos, size := int64(binary.NativeEndian.Uint32(e)), int64(binary.NativeEndian.Uint32(e[4:]))
	if p.isBranch() {
		below = binary.NativeEndian.Uint64(e[8:])
	} else {
		pos, size = size, int64(binary.NativeEndian.Uint32(e[8:]))
	}
	if at+pos+size > int64(len(p)) {
		return nil, 0, fmt.Errorf("key %d reaches over its end", i)
	}
	return e[pos : pos+size], below, nil
}
