//go:build !linux

package disk

import (
	"errors"
	"os"
)

// dataSync has no cheaper form here.
func dataSync(f *os.File) error { return f.Sync() }

// startWriteback has no equivalent here.
func startWriteback(*os.File, int64, int64) {}

// uncache has no equivalent here.
func uncache(*os.File, int64, int64) {}

// lockFile opens the file and relies on nobody else using it: the lock is for Linux, where we run.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
}

// volumeSpace is not known here.
func volumeSpace(string) (total, free int64, err error) { return 0, 0, errors.ErrUnsupported }

// openFilesMax is not known here.
func openFilesMax() int { return 256 }

// volumeNames is not known here.
func volumeNames(string) (total, free int64, err error) { return 0, 0, errors.ErrUnsupported }
