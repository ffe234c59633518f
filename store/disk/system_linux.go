package disk

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// dataSync is fdatasync: the bytes and the size, not the times.
func dataSync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = unix.Fdatasync(int(fd)); !errors.Is(syncErr, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, syncErr)
}

// startWriteback is sync_file_range without waiting. It is a hint: a file system
// that does not know it writes later.
func startWriteback(f *os.File, from, to int64) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.SyncFileRange(int(fd), from, to-from, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// uncache is posix_fadvise: the system keeps what it cannot let go of.
func uncache(f *os.File, from, to int64) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.Fadvise(int(fd), from, to-from, unix.FADV_DONTNEED)
	})
}

// lockFile locks a file for this process; the kernel lets go of it when the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// volumeSpace is the size of the volume that holds dir and what is left to this process, in bytes.
func volumeSpace(dir string) (total, free int64, err error) {
	var v unix.Statfs_t
	if err := unix.Statfs(dir, &v); err != nil {
		return 0, 0, err
	}
	return int64(v.Blocks) * v.Bsize, int64(v.Bavail) * v.Bsize, nil
}

// volumeNames is how many files the volume that holds dir may have, 0 for no limit, and how many more it takes.
func volumeNames(dir string) (total, free int64, err error) {
	var v unix.Statfs_t
	if err := unix.Statfs(dir, &v); err != nil {
		return 0, 0, err
	}
	return int64(min(v.Files, math.MaxInt64)), int64(min(v.Ffree, math.MaxInt64)), nil
}

// openFilesMax is how many files this process may have open.
func openFilesMax() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur, math.MaxInt32))
}
