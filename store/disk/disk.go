// Package disk keeps partitions in a directory of the local file system, one
// directory each, named <topic id>-<partition>. broker makes one; commitlog and
// partition use it through package store. It knows no batches and no offsets.
//
// What is durable when: a file's bytes after fdatasync, a name after fsync of its
// directory, a replaced file after write, fsync, rename and fsync of the directory.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

const (
	// formatName is the file that says which layout the directory has.
	formatName    = "hawser-format"
	formatVersion = 1
	formatWords   = "hawser store format "
	lockName      = "lock"
	setAsideName  = "set-aside"
	// removedSuffix marks a directory whose removal was begun.
	removedSuffix = ".removed"
	tempSuffix    = ".tmp"
)

// Store is a directory of partitions. Its methods may be called by many at once.
type Store struct {
	root string
	lock *os.File

	room  atomic.Int64 // bytes that Room may grant unasked
	space func(dir string) (total, free int64, err error)
	names func(dir string) (total, free int64, err error) // how many files the volume may hold and still takes

	made        atomic.Int64 // directories made since Open
	namesMu     sync.Mutex
	namesSynced int64 // how many of them have durable names; guarded by namesMu

	mu sync.Mutex
	// nodes has a row for each path that is open: so Cut knows whether somebody would notice. Guarded by mu.
	nodes map[string]*node
	hints *hints
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.DirMaker = (*Store)(nil)
)

// Open opens the directory, making it if it is not there, and locks it against a
// second process. It refuses a directory that a newer version has written.
func Open(root string) (*Store, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(root, lockName))
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: is another hawser running on it?", err)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", root, err)
	}
	s := &Store{root: root, lock: lock, space: volumeSpace, names: volumeNames, nodes: map[string]*node{}, hints: newHints()}
	if err := s.checkFormat(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// A process that was killed may have left names that are not durable yet: they would be taken for such.
	if err := errors.Join(s.finishRemovals(), syncDir(root)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) checkFormat() error {
	path := filepath.Join(s.root, formatName)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return writeAtomic(path, fmt.Appendf(nil, "%s%d\n", formatWords, formatVersion))
	}
	if err != nil {
		return fmt.Errorf("read format of data directory: %w", err)
	}
	number, ok := bytes.CutPrefix(bytes.TrimSpace(content), []byte(formatWords))
	version, err := strconv.Atoi(string(number))
	if !ok || err != nil || version < 1 {
		return fmt.Errorf("read format of data directory: %s does not say which format it is. "+
			"If %s is a data directory of hawser, put a copy of the file back: it is one line, %q",
			path, s.root, fmt.Sprint(formatWords, formatVersion))
	}
	if version > formatVersion {
		return fmt.Errorf("data directory %s has format %d and this version of hawser reads up to %d: "+
			"start the newer version that wrote it", s.root, version, formatVersion)
	}
	return nil
}

// finishRemovals removes what a crash left of removed directories.
func (s *Store) finishRemovals() error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return fmt.Errorf("list data directory: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() && strings.HasSuffix(entry.Name(), removedSuffix) {
			if err := os.RemoveAll(filepath.Join(s.root, entry.Name())); err != nil {
				return fmt.Errorf("finish removal: %w", err)
			}
		}
	}
	return nil
}

// Partitions lists the partition directories.
func (s *Store) Partitions() ([]kafka.PartitionID, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	var ids []kafka.PartitionID
	for _, entry := range entries {
		if id, ok := parseName(entry.Name()); ok && entry.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// parseName reads a directory's name; the topic id may itself hold dashes.
func parseName(name string) (kafka.PartitionID, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return kafka.PartitionID{}, false
	}
	topic, err := kafka.ParseTopicID(name[:dash])
	if err != nil {
		return kafka.PartitionID{}, false
	}
	partition, err := strconv.ParseInt(name[dash+1:], 10, 32)
	id := kafka.PartitionID{Topic: topic, Partition: int32(partition)}
	return id, err == nil && partition >= 0 && id.String() == name
}

func (s *Store) path(id kafka.PartitionID) string { return filepath.Join(s.root, id.String()) }

// Dir opens a partition's directory and makes it if need be.
func (s *Store) Dir(id kafka.PartitionID) (store.Dir, error) {
	dir, err := s.dir(id)
	if err == nil {
		err = s.SyncNames()
	}
	if err != nil {
		return nil, fmt.Errorf("make partition directory: %w", err)
	}
	return dir, nil
}

// NewDir is Dir without a sync of its name, which SyncNames does for many.
func (s *Store) NewDir(id kafka.PartitionID) (store.Dir, error) {
	dir, err := s.dir(id)
	if err != nil {
		return nil, fmt.Errorf("make partition directory: %w", err)
	}
	return dir, nil
}

// SyncNames makes the names of partitions' directories durable. It costs nothing where no directory was made.
func (s *Store) SyncNames() error {
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	made := s.made.Load()
	if made == s.namesSynced {
		return nil
	}
	if err := syncDir(s.root); err != nil {
		return err
	}
	s.namesSynced = made
	return nil
}

func (s *Store) dir(id kafka.PartitionID) (*Dir, error) {
	path := s.path(id)
	err := os.Mkdir(path, 0o755)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err == nil {
		s.made.Add(1)
	}
	return &Dir{store: s, path: path}, nil
}

// Remove deletes a partition's directory. It is renamed first, so that a crash
// in the middle leaves nothing that looks like a partition with holes.
func (s *Store) Remove(id kafka.PartitionID) error {
	path := s.path(id)
	gone := path + removedSuffix
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove partition directory: %w", err)
	}
	files, err := s.forget(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Rename(path, gone)
	}
	if err = errors.Join(err, s.hints.partAll(files)); err != nil {
		return fmt.Errorf("remove partition directory: %w", err)
	}
	if err := syncDir(s.root); err != nil {
		return fmt.Errorf("remove partition directory: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove partition directory: %w", err)
	}
	return nil
}

// SetAside moves a partition's directory below set-aside/.
func (s *Store) SetAside(id kafka.PartitionID) (string, error) {
	aside := filepath.Join(s.root, setAsideName)
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return "", fmt.Errorf("set partition directory aside: %w", err)
	}
	where, err := freeName(filepath.Join(aside, id.String()))
	if err != nil {
		return "", fmt.Errorf("set partition directory aside: %w", err)
	}
	files, err := s.forget(s.path(id))
	if err == nil {
		err = os.Rename(s.path(id), where)
	}
	if err = errors.Join(err, s.hints.partAll(files)); err != nil {
		return "", fmt.Errorf("set partition directory aside: %w", notExist(err))
	}
	if err := errors.Join(syncDir(aside), syncDir(s.root)); err != nil {
		return "", fmt.Errorf("set partition directory aside: %w", err)
	}
	return where, nil
}

// freeName finds a name that is not taken.
func freeName(path string) (string, error) {
	for n := range 10_000 {
		candidate := path
		if n > 0 {
			candidate = fmt.Sprintf("%s.%d", path, n)
		}
		if _, err := os.Lstat(candidate); errors.Is(err, os.ErrNotExist) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s: %w ten thousand times over", path, store.ErrExist)
}

// forget parts the open files of a directory from their names, and lists the paths of all. It asks the directory: there may be
// tens of thousands of open files, and as many directories that go.
func (s *Store) forget(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		s.nameless(path)
		files = append(files, path)
	}
	return files, nil
}

// Close closes what hints are open and unlocks the directory.
func (s *Store) Close() error {
	if err := errors.Join(s.hints.close(), s.lock.Close()); err != nil {
		return fmt.Errorf("close data directory: %w", err)
	}
	return nil
}
