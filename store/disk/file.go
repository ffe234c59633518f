package disk

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/hawserio/hawser/store"
)

// File is an open file.
type File struct {
	f      *os.File
	store  *Store
	path   string // as it was opened, for errors
	node   *node
	size   atomic.Int64
	failed atomic.Bool // a write or sync failed: nothing more is taken
}

var _ store.File = (*File)(nil)

// ReadAt reads below Size.
func (f *File) ReadAt(p []byte, at int64) (int, error) { return f.f.ReadAt(p, at) }

// Append writes at the end, in one call to the system.
func (f *File) Append(p []byte) error {
	if f.failed.Load() {
		return fmt.Errorf("append to %s: %w", f.path, store.ErrFailed)
	}
	size := f.size.Load()
	if _, err := f.f.WriteAt(p, size); err != nil {
		f.failed.Store(true)
		return fmt.Errorf("append: %w", err)
	}
	f.size.Store(size + int64(len(p)))
	return nil
}

// Sync makes the bytes durable. A file whose sync failed once stays failed: the
// system drops the error with the first report, and perhaps the bytes.
func (f *File) Sync() error {
	if f.failed.Load() {
		return fmt.Errorf("sync %s: %w", f.path, store.ErrFailed)
	}
	if err := dataSync(f.f); err != nil {
		f.failed.Store(true)
		return fmt.Errorf("sync %s: %w: %w", f.path, store.ErrFailed, err)
	}
	return nil
}

// StartWriteback sets bytes on their way.
func (f *File) StartWriteback(from, to int64) { startWriteback(f.f, from, to) }

// Uncache drops bytes from the system's page cache; those that are not written yet stay.
func (f *File) Uncache(from, to int64) { uncache(f.f, from, to) }

// Size is the end of the file.
func (f *File) Size() int64 { return f.size.Load() }

// OSFile is the file itself.
func (f *File) OSFile() *os.File { return f.f }

// Close closes the file.
func (f *File) Close() error {
	f.store.letGo(f.node)
	if err := f.f.Close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}
