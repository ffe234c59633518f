package disk

import (
	"fmt"

	"github.com/hawserio/hawser/internal/descriptors"
	"github.com/hawserio/hawser/store"
)

const (
	// roomKept is left free on the volume, or an eighth of it if that is less. The
	// metadata beside the data needs it: etcd ends the process when it cannot write.
	roomKept = 64 << 20
	// namesKept is how many files more the volume must take: a segment and its indexes are three, and each is replaced by way of another.
	namesKept = 512
	// roomAsked is the most that is granted before the system is asked again.
	roomAsked = 4 << 20
)

var (
	_ store.Roomer = (*Store)(nil)
	_ store.Filer  = (*Store)(nil)
)

// OneMoreFile asks how many descriptors the process has left, and how many files the volume takes.
func (s *Store) OneMoreFile() error {
	if err := descriptors.OneMore(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNoRoom, err)
	}
	return s.namesLeft()
}

// namesLeft refuses where the volume is full of files, which it may be long before its space is used up.
func (s *Store) namesLeft() error {
	total, free, err := s.names(s.root)
	if err != nil || total == 0 { // a file system without such a limit, or unknown
		return nil //nolint:nilerr // the write itself will tell
	}
	if kept := min(namesKept, total/8); free < kept {
		return fmt.Errorf("%w: the volume of %s takes only %d more files (inodes), and the last %d are kept for metadata; "+
			"remove files or use a volume with more, and writes go on by themselves",
			store.ErrNoRoom, s.root, free, kept)
	}
	return nil
}

// Room grants n bytes out of what the volume had when it was last asked.
func (s *Store) Room(n int64) error {
	if s.room.Add(-n) >= 0 {
		return nil
	}
	total, free, err := s.space(s.root)
	if err != nil {
		return nil //nolint:nilerr // unknown: the write itself will tell
	}
	kept := min(roomKept, total/8)
	if free-kept < n {
		s.room.Store(0)
		return fmt.Errorf("%w: %d MiB of the volume of %s are free and the last %d MiB are kept for metadata; "+
			"free or add space, and writes go on by themselves",
			store.ErrNoRoom, free>>20, s.root, kept>>20)
	}
	if err := s.namesLeft(); err != nil {
		s.room.Store(0)
		return err
	}
	s.room.Store(min(free-kept-n, roomAsked))
	return nil
}
