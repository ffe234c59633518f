package partition

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// fullStore is a store that has no room while full is set.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) Room(int64) error {
	if s.full.Load() {
		return store.ErrNoRoom
	}
	return nil
}

// A full volume refuses records with words and goes on by itself once there is room.
func TestNoRoomRefusesRecordsAndKeepsThePartitionInService(t *testing.T) {
	for _, role := range []meta.Role{meta.RoleOpen, meta.RoleMirror} {
		st := &fullStore{Store: openDisk(t, t.TempDir())}
		b := newBedOver(t, role, 1, st)
		put := func(base kafka.Offset) error {
			m := made{base: base}
			if role == meta.RoleMirror {
				return b.mirror(0, m.build(t))
			}
			_, err := b.p(0).Append(context.Background(), join(m.build(t)), yes)
			return err
		}
		b.must(put(0))
		st.full.Store(true)
		err := put(1)
		wantCode(t, err, kafka.KafkaStorageError)
		if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), store.ErrNoRoom.Error()) {
			t.Errorf("role %v: %v", role, err)
		}
		if end := b.p(0).Offsets().LogEnd; end != 1 || b.p(0).Err() != nil {
			t.Fatalf("role %v: end %d, %v", role, end, b.p(0).Err())
		}
		st.full.Store(false)
		b.must(put(1))
		b.synced(0)
	}
}

// crowdedStore is a store of a process that may open no more files while crowded is set.
type crowdedStore struct {
	store.Store
	crowded atomic.Bool
}

func (s *crowdedStore) OneMoreFile() error {
	if s.crowded.Load() {
		return store.ErrNoRoom
	}
	return nil
}

// Where no more files may be open, a log that has its file open goes on, and one that needs one refuses and goes on later.
func TestNoDescriptorsRefuseTheFirstAppendOnly(t *testing.T) {
	st := &crowdedStore{Store: openDisk(t, t.TempDir())}
	b := newBedOver(t, meta.RoleOpen, 2, st)
	put := func(p int32, base kafka.Offset) error {
		_, err := b.p(p).Append(context.Background(), join(made{base: base}.build(t)), yes)
		return err
	}
	b.must(put(0, 0))
	st.crowded.Store(true)
	b.must(put(0, 1))
	err := put(1, 0)
	wantCode(t, err, kafka.KafkaStorageError)
	if !errors.Is(err, ErrNoRoom) || b.p(1).Err() != nil {
		t.Fatalf("%v, %v", err, b.p(1).Err())
	}
	st.crowded.Store(false)
	b.must(put(1, 0))
	b.synced(1)
}
