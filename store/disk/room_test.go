package disk

import (
	"errors"
	"strings"
	"testing"

	"github.com/hawserio/hawser/store"
)

func TestRoomKeepsSpaceForTheMetadataAndComesBack(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	total, free := int64(64<<20), int64(18<<20) // an eighth, 8 MiB, is kept
	s.space = func(string) (int64, int64, error) { return total, free, nil }
	var granted int64
	for range 1000 {
		if err = s.Room(1 << 20); err != nil {
			break
		}
		granted += 1 << 20
		free -= 1 << 20
	}
	if !errors.Is(err, store.ErrNoRoom) || granted < 8<<20 || free < 8<<20-roomAsked {
		t.Fatalf("granted %d, left %d: %v", granted, free, err)
	}
	if err := s.Room(1); !errors.Is(err, store.ErrNoRoom) {
		t.Fatalf("a byte more: %v", err)
	}
	free = 18 << 20
	if err := s.Room(1 << 20); err != nil {
		t.Fatalf("after space was freed: %v", err)
	}
	s.room.Store(0)
	s.space = func(string) (int64, int64, error) { return 0, 0, errors.New("not known") }
	if err := s.Room(1 << 20); err != nil {
		t.Fatalf("where the space is not known: %v", err)
	}
}

func TestRoomEndsBeforeTheVolumeIsFullOfFiles(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	total, free := int64(100_000), int64(10_000)
	s.space = func(string) (int64, int64, error) { return 1 << 40, 1 << 39, nil }
	s.names = func(string) (int64, int64, error) { return total, free, nil }
	if err := errors.Join(s.Room(1<<20), s.OneMoreFile()); err != nil {
		t.Fatal(err)
	}
	free = namesKept - 1
	s.room.Store(0)
	for _, err := range []error{s.Room(1 << 20), s.OneMoreFile()} {
		if !errors.Is(err, store.ErrNoRoom) || !strings.Contains(err.Error(), "inodes") {
			t.Errorf("with %d files left: %v", free, err)
		}
	}
	total, free = 0, 0 // btrfs
	if err := errors.Join(s.Room(1<<20), s.OneMoreFile()); err != nil {
		t.Errorf("where there is no limit: %v", err)
	}
}
