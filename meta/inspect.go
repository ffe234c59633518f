package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// DamagedError says which file of the embedded etcd is not what was written, and what can be done. etcd itself
// would panic, or start and lose what it is told from then on.
type DamagedError struct {
	Dir  string // the metadata's directory
	File string // the file, or the directory whose files do not fit
	Err  error
	More string // what else may help, a sentence
}

// Error is the whole text.
func (e *DamagedError) Error() string {
	text := fmt.Sprintf("the metadata is damaged: %s: %v. Nothing was changed. Put a copy of the directory %s back and start again. "+
		"Where there is none: move that directory away, keep it, and start once with --new-identity; that is a new cluster "+
		"without topics, links and users, and the partitions' files are set aside, not removed",
		e.File, e.Err, e.Dir)
	if e.More != "" {
		text += ". " + e.More
	}
	return text
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// dbWalkMax is the largest database, in bytes, of which every page is looked at before etcd opens it.
const dbWalkMax = 256 << 20

// files are those of an embedded etcd.
type files struct{ dir, wal, snap, db string }

func filesIn(dir string) files {
	member := filepath.Join(dir, "etcd", "member")
	return files{dir: dir, wal: filepath.Join(member, "wal"), snap: filepath.Join(member, "snap"), db: filepath.Join(member, "snap", "db")}
}

func (f files) damaged(file string, err error) error {
	d := &DamagedError{Dir: f.dir, File: file, Err: err}
	if file == f.db && f.rebuilds() {
		d.More = "Moving only this file away may help too: the log in " + f.wal +
			" reaches back to its first entry, and the file is made again from it"
	}
	return d
}

// rebuilds reports whether the log is all there is to know: it was never cut short behind a snapshot.
func (f files) rebuilds() bool {
	_, err := os.Stat(filepath.Join(f.wal, fmt.Sprintf("%016x-%016x.wal", 0, 0)))
	snaps, globErr := filepath.Glob(filepath.Join(f.snap, "*.snap"))
	return err == nil && globErr == nil && len(snaps) == 0
}

// inspect looks at an embedded etcd's files before it opens them. It returns a *DamagedError where they
// are not what was written; a log that a crash tore at its end is none, etcd cuts it.
func inspect(dir string) error {
	f := filesIn(dir)
	_, err := os.Stat(f.db)
	haveDB := err == nil
	logs, err := filepath.Glob(filepath.Join(f.wal, "*.wal"))
	if err != nil {
		return fmt.Errorf("list %s: %w", f.wal, err)
	}
	if len(logs) == 0 {
		if haveDB {
			return f.damaged(f.wal, errors.New("its log has no file, the database beside it is there"))
		}
		return nil // a new one
	}
	if haveDB {
		logs = append(logs, f.db)
	}
	if err := mayWrite(dir, logs); err != nil {
		return err
	}
	last, err := f.readLog()
	if err != nil {
		return err
	}
	if !haveDB {
		if f.rebuilds() {
			return nil // etcd makes it again
		}
		return f.damaged(f.db, fs.ErrNotExist)
	}
	applied, err := f.readDB()
	if err != nil {
		return err
	}
	if applied > last {
		return f.damaged(f.wal, fmt.Errorf("its log ends at entry %d, but the database holds entries up to %d: "+
			"what is written from now on would be taken for known and be lost", last, applied))
	}
	return nil
}

// mayWrite says what keeps this process from writing the files: that is no damage, and etcd would panic.
func mayWrite(dir string, files []string) error {
	for _, path := range files {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = file.Close()
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return fmt.Errorf("%w: the user that runs the broker must be able to write every file below %s: "+
				"if it ran as another user before, give the directory to this one (chown -R)", err, dir)
		}
	}
	return nil
}

// readLog checks the whole log and returns the number of its last entry.
func (f files) readLog() (last uint64, err error) {
	at := f.wal
	defer func() {
		if p := recover(); p != nil {
			last, err = 0, f.damaged(at, fmt.Errorf("it cannot be read: %v", p))
		}
	}()
	lg := zap.NewNop()
	known, err := wal.ValidSnapshotEntries(lg, f.wal)
	if err != nil {
		return 0, f.damaged(f.logFile(err), err)
	}
	from := &walpb.Snapshot{}
	switch saved, err := snap.New(lg, f.snap).LoadNewestAvailable(known); {
	case err == nil:
		from.Index, from.Term = saved.Metadata.Index, saved.Metadata.Term
		last = saved.Metadata.GetIndex()
	case !errors.Is(err, snap.ErrNoSnapshot):
		return 0, f.damaged(f.snap, err)
	}
	w, err := wal.OpenForRead(lg, f.wal, from)
	if err != nil {
		return 0, f.damaged(f.logFile(err), err)
	}
	defer func() { _ = w.Close() }() // it was only read
	_, state, entries, err := w.ReadAll()
	if err != nil {
		return 0, f.damaged(f.logFile(err), err)
	}
	if n := len(entries); n > 0 {
		last = entries[n-1].GetIndex()
	}
	if commit := state.GetCommit(); commit > last {
		return 0, f.damaged(at, fmt.Errorf("its log ends at entry %d, but entries up to %d were committed", last, commit))
	}
	return last, nil
}

// logFile is the file of the log that an error names, or the log's directory.
func (f files) logFile(err error) string {
	logs, globErr := filepath.Glob(filepath.Join(f.wal, "*.wal"))
	if globErr != nil {
		return f.wal
	}
	for _, name := range logs {
		if strings.Contains(err.Error(), filepath.Base(name)) || len(logs) == 1 {
			return name
		}
	}
	return f.wal
}

// readDB walks the database and returns the number of the last entry that it holds.
func (f files) readDB() (applied uint64, err error) {
	// A page beyond a file's end faults. That is an answer here, and no reason to die.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			applied, err = 0, f.damaged(f.db, fmt.Errorf("it cannot be read: %v", p))
		}
	}()
	info, err := os.Stat(f.db)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", f.db, err)
	}
	if info.Size() == 0 {
		if f.rebuilds() {
			return 0, nil // never written: etcd begins it and takes the rest from the log
		}
		return 0, f.damaged(f.db, errors.New("it is empty"))
	}
	db, err := bolt.Open(f.db, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return 0, fmt.Errorf("open %s: another process has it open: %w", f.db, err)
	}
	if err != nil {
		return 0, f.damaged(f.db, err)
	}
	defer func() { _ = db.Close() }() // it was only read
	err = db.View(func(tx *bolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size())
		}
		if b := tx.Bucket([]byte("meta")); b != nil {
			if v := b.Get([]byte("consistent_index")); len(v) == 8 {
				applied = binary.BigEndian.Uint64(v)
			}
		}
		if info.Size() > dbWalkMax {
			return nil
		}
		if err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return walk(b) }); err != nil {
			return err
		}
		return f.checkPages(tx)
	})
	if err != nil {
		return 0, f.damaged(f.db, err)
	}
	return applied, nil
}

// checkPages looks at what etcd's opening of the database does, and would panic at.
func (f files) checkPages(tx *bolt.Tx) error {
	file, err := os.Open(f.db)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	size := int64(tx.DB().Info().PageSize)
	t := pageTree{file: file, pageSize: size, pages: uint64(tx.Size() / size), seen: map[uint64]bool{}}
	return t.checkBucket(tx.Cursor().Bucket())
}

// walk reads every page of a bucket.
func walk(b *bolt.Bucket) error {
	sum := byte(0)
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			if inner := b.Bucket(k); inner != nil {
				return walk(inner)
			}
		}
		for _, part := range [2][]byte{k, v} { // a value may reach over pages that are not there
			for i := 0; i < len(part); i += 512 {
				sum += part[i]
			}
		}
		return nil
	})
}
