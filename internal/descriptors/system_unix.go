//go:build unix

package descriptors

import (
	"os"

	"golang.org/x/sys/unix"
)

func limit() int {
	var r unix.Rlimit
	// Go has raised the soft limit to the hard one at the start.
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}

// lowest is the lowest descriptor that is free.
func lowest() (int, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return fd, unix.Close(fd)
}
