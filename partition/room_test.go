package partition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
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

// crammedStore is a store that makes no directory while crammed is set.
type crammedStore struct {
	store.Store
	crammed atomic.Bool
}

func (s *crammedStore) Dir(id kafka.PartitionID) (store.Dir, error) {
	if s.crammed.Load() {
		return nil, fmt.Errorf("make directory: %w", syscall.ENOSPC)
	}
	return s.Store.Dir(id)
}

// A partition that a full disk kept from being opened comes back when there is room; one whose write failed does not.
func TestAPartitionThatHadNoRoomToOpenComesBack(t *testing.T) {
	st := &crammedStore{Store: openDisk(t, t.TempDir())}
	b := newBedOver(t, meta.RoleOpen, 2, st)
	b.must(errOf(b.p(0).Append(context.Background(), join(made{}.build(t)), yes)))
	b.synced(0)
	st.crammed.Store(true)
	b.reopen()
	for n := range int32(2) {
		wantCode(t, b.p(n).Err(), kafka.KafkaStorageError)
	}
	again := func() {
		t.Helper()
		for _, id := range b.Lacking() {
			if id != b.topic.ID {
				t.Errorf("topic %s lacks room", id)
			}
		}
		b.must(b.Reopen(b.topic, b.stream.get(b.topic.ID), b.cfg))
	}
	again()
	wantCode(t, b.p(0).Err(), kafka.KafkaStorageError)
	st.crammed.Store(false)
	again()
	if list := b.Lacking(); len(list) > 0 {
		t.Errorf("topics %v still lack room", list)
	}
	if end := b.p(0).Offsets().LogEnd; end != 1 || b.p(0).Err() != nil {
		t.Fatalf("end %d, %v", end, b.p(0).Err())
	}
	b.must(errOf(b.p(0).Append(context.Background(), join(made{base: 1}.build(t)), yes)))

	b.p(1).fail(kafka.Errorf(kafka.KafkaStorageError, "a sync failed"))
	again()
	wantCode(t, b.p(1).Err(), kafka.KafkaStorageError)
}
