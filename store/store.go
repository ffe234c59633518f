// Package store is where segment bytes live: the interface that commitlog
// writes to, and its contract. disk keeps them in a directory; storetest has a
// crashable one in memory and one shaped like an object store, and the test
// that each of them passes. It knows no batches and no offsets.
//
// The contract, in short: bytes appended are readable at once and sure to be
// there after a crash only once Sync has returned; a name created or renamed
// is sure to be there once SyncDir has returned; nothing is ever rewritten in
// place, so that a reader which holds a File sees the same bytes until it
// closes it, whatever happens to the name meanwhile. An object store can keep
// all of that: a File's synced bytes are whole objects put one after another.
package store

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/hawserio/hawser/kafka"
)

// Errors that callers tell apart, matched with errors.Is.
var (
	ErrNotExist = errors.New("does not exist")
	ErrExist    = errors.New("exists already")
	// ErrFailed says that a Sync failed once. What the file holds on disk is then
	// unknown and stays so (fsync does not report twice): the writer must stop
	// this partition and recover it by opening it again.
	ErrFailed = errors.New("an earlier write or sync failed")
	// ErrNoRoom says that the volume is full up to what is kept free; nothing was written.
	ErrNoRoom = errors.New("no room for more records")
)

// Lacks reports whether a write failed for want of space, of files or of descriptors: it may succeed later, as it is.
func Lacks(err error) bool {
	for _, want := range []error{ErrNoRoom, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// Roomer is a Store that knows how much its volume still takes.
type Roomer interface {
	// Room says whether n more bytes of records may be written: ErrNoRoom when that
	// would leave less than what ending, freeing and failing over need (rule D8).
	// It may be asked before each append; the answer lags by a few MiB at most.
	Room(n int64) error
}

// Filer is a Store that knows how many more files this process may open.
type Filer interface {
	// OneMoreFile says whether a file that stays open may be opened: ErrNoRoom when that would leave fewer than what
	// syncs, new segments and failing over open. Asked before the first append to a log.
	OneMoreFile() error
}

// DirMaker is a Store that makes many directories at the price of one.
type DirMaker interface {
	// NewDir is Dir, but a directory that it makes may be lost in a crash until SyncNames has returned.
	NewDir(kafka.PartitionID) (Dir, error)
	SyncNames() error
}

// Store holds the directories of partitions and of topics that are set aside.
type Store interface {
	// Partitions lists every partition directory found, in no order.
	Partitions() ([]kafka.PartitionID, error)
	// Dir opens a partition's directory and makes it, durably, if it is not there.
	Dir(kafka.PartitionID) (Dir, error)
	// Remove deletes a partition's directory and all in it. Absent is no error. Open Files stay readable.
	Remove(kafka.PartitionID) error
	// SetAside moves a partition's directory out of the way, to be looked at by a
	// person, and says where it is now (protocol rule D7).
	SetAside(kafka.PartitionID) (where string, err error)
	// Close lets go of what the store holds; open Files are the callers'.
	Close() error
}

// Dir is one partition's directory: a flat list of names.
type Dir interface {
	// List is the names and sizes, sorted by name. Left-overs of WriteAtomic are not listed.
	List() ([]Info, error)
	// Create makes an empty file to append to; ErrExist if the name is taken.
	Create(name string) (File, error)
	// Open opens a file, for reading and, as the only writer, for appending; ErrNotExist.
	Open(name string) (File, error)
	// ReadFile is a small file's whole content; ErrNotExist.
	ReadFile(name string) ([]byte, error)
	// WriteAtomic replaces a small file's content; after it returned, old or new is
	// there after any crash, and new if it returned nil.
	WriteAtomic(name string, content []byte) error
	// CopyPrefix makes, durably, a new file of the first size bytes of another: how a
	// log is cut without rewriting what readers hold (protocol rule T9).
	CopyPrefix(from, to string, size int64) error
	// Cut shortens a file, durably. Whoever holds it open keeps the bytes it had,
	// as with CopyPrefix and Rename, which is what it does then.
	Cut(name string, size int64) error
	// WriteHint replaces a small file's content (HintMax bytes at most) without
	// waiting for anything: after a crash the file holds one of the contents that were
	// ever given to it, as a rule the last, or is missing. For what may be stale.
	WriteHint(name string, content []byte) error
	// Rename moves a file over another name, atomically; durable after SyncDir.
	Rename(from, to string) error
	// Remove deletes a name; durable after SyncDir; absent is no error. Open Files stay readable.
	Remove(name string) error
	// SyncDir makes creations, renames and removals durable, in one go.
	SyncDir() error
}

// HintMax bounds WriteHint, in bytes: one disk sector, so that a hint is never half old and half new.
const HintMax = 512

// Info is a file's name and size in bytes, unsynced bytes included.
type Info struct {
	Name string
	Size int64
}

// File is an append-only file. ReadAt may be called by many at once and beside
// Append; Append and Close by one at a time; Sync beside Append.
type File interface {
	io.ReaderAt
	io.Closer
	// Append writes at the end; p is the caller's again when it returns. After an
	// error the file may end in a part of p and takes no more: ErrFailed from then on.
	Append(p []byte) error
	// Sync makes durable all that was appended before the call.
	Sync() error
	// StartWriteback asks for the bytes to be on their way; a hint, never durable.
	StartWriteback(from, to int64)
	// Uncache lets go of the memory that holds synced bytes: who reads them waits for the disk again. A hint.
	Uncache(from, to int64)
	// Size is the end, in bytes, unsynced bytes included.
	Size() int64
	// OSFile is a handle on the same bytes for sendfile, or nil where there is none.
	// It belongs to the File: use it by ReadAt-like calls only, or dup it.
	OSFile() *os.File
}
