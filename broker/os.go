package broker

import (
	"os"
	"strconv"
	"syscall"
)

// lockFile takes an exclusive lock that the process holds until the file is closed or it ends.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// volumeSpace reads the size of the volume that holds dir, in bytes; -1 where unknown.
func volumeSpace(dir string) func() (total, usable int64) {
	return func() (int64, int64) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err != nil {
			return -1, -1
		}
		return int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
