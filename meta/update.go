package meta

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	maxChanges  = 60 // each may need two operations of etcd's 128
	maxAttempts = 10
)

// Update changes records. decide gets the newest image and returns the changes,
// all or none of which are written, and only if no record of the image that they replace
// has changed meanwhile (nor been made, where they create); else decide is called
// again with a newer image, ten times at most: then ErrConflict. An error of decide ends it and is returned as it is. No
// changes: nothing is written. When Update returns nil, Image has the changes.
// A topic's or link's name is taken at most once: a second PutTopic with the name of another id
// makes decide run again. More than 60 changes are refused: 128 operations are etcd's limit.
//
// Any other error leaves open whether the changes were made, unless it is ErrConflict or ErrReadOnly.
func (m *Meta) Update(ctx context.Context, decide func(*Image) ([]Change, error)) error {
	return m.write(ctx, func(img *Image) (*write, error) {
		changes, err := decide(img)
		if err != nil {
			return nil, err
		}
		if len(changes) > maxChanges {
			return nil, fmt.Errorf("change metadata: %d changes in one update, more than %d: split it", len(changes), maxChanges)
		}
		w, err := m.plan(img, changes)
		if err != nil {
			return nil, err
		}
		if w.ordinary && m.Space().ReadOnly {
			m.noteRefused()
			return nil, ErrReadOnly
		}
		return w, nil
	})
}

// write tries until one attempt finds the records as its image had them.
func (m *Meta) write(ctx context.Context, plan func(*Image) (*write, error)) error {
	var last error
	var unsure []*write // whose answers were lost: they may have been made
	lane := lane{m: m}
	defer lane.leave()
	for attempt := range maxAttempts {
		if err := lane.enter(ctx, attempt); err != nil {
			return err
		}
		img := m.Image()
		w, err := plan(img)
		if errors.Is(err, ErrConflict) {
			last = err
			if err := m.pause(ctx, attempt); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		rev, err := m.commit(ctx, w)
		switch {
		case err == nil:
			return m.waitRevision(ctx, rev)
		case errors.Is(err, ErrConflict):
			last = err
		case isUnsure(err) && ctx.Err() == nil:
			last = err
			unsure = append(unsure, w)
			if err := m.pause(ctx, attempt); err != nil {
				return err
			}
		default:
			return err
		}
		for _, w := range unsure {
			if rev, err := m.landed(ctx, w); err != nil || rev > 0 {
				return errors.Join(err, m.waitRevision(ctx, rev))
			}
		}
	}
	return fmt.Errorf("change metadata: gave up after %d attempts: %w", maxAttempts, last)
}

// lane lets those that have lost a race go one by one. While the one inside
// goes on losing, newcomers queue as well.
type lane struct {
	m      *Meta
	inside bool
}

func (l *lane) enter(ctx context.Context, attempt int) error {
	if l.inside && attempt >= 3 {
		l.m.crowded.Store(true)
	}
	if l.inside || attempt == 0 && !l.m.crowded.Load() {
		return nil
	}
	select {
	case l.m.lane <- struct{}{}:
		l.inside = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.m.stopped:
		return l.m.Err()
	}
}

func (l *lane) leave() {
	if l.inside {
		l.m.crowded.Store(false)
		<-l.m.lane
	}
}

// pause waits for a moment that grows with the attempts: 1 ms up to 0.5 s.
func (m *Meta) pause(ctx context.Context, attempt int) error {
	limit := time.Millisecond << min(attempt, 9)
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.stopped:
		return m.Err()
	}
}

// commit makes the write in one transaction and returns its revision, 0 if
// there was nothing to do. On ErrConflict Image shows what was in the way.
func (m *Meta) commit(ctx context.Context, w *write) (int64, error) {
	if err := m.Err(); err != nil {
		return 0, err
	}
	var compares []clientv3.Cmp
	var writes, looks []clientv3.Op
	for k, o := range w.ops {
		path := k.path()
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(path), "=", o.rev))
		looks = append(looks, clientv3.OpGet(path, clientv3.WithKeysOnly()))
		switch {
		case o.keep:
		case o.value == nil:
			writes = append(writes, clientv3.OpDelete(path))
		default:
			writes = append(writes, clientv3.OpPut(path, string(o.value)))
		}
	}
	if len(writes) == 0 {
		return 0, nil
	}
	resp, err := m.client.Txn(ctx).If(compares...).Then(writes...).Else(looks...).Commit()
	if err != nil {
		return 0, m.storeError(err)
	}
	if resp.Succeeded {
		m.noteWritten(ctx, w.size)
		return resp.Header.Revision, nil
	}
	found := make(map[recordKey]int64, len(w.ops))
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			if k, err := parseKey(string(kv.Key)); err == nil {
				found[k] = kv.ModRevision
			}
		}
	}
	if err := m.waitFor(ctx, func(now *Image) bool { return now.covers(w, found, resp.Header.Revision) }); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("records changed: %w", ErrConflict)
}

// covers reports whether the image is at least as new as what was found at revision, for all keys of w.
func (img *Image) covers(w *write, found map[recordKey]int64, revision int64) bool {
	if img.Revision >= revision {
		return true
	}
	for k := range w.ops {
		if rev := img.rev(k); rev != found[k] && rev <= revision {
			return false
		}
	}
	return true
}

// isUnsure reports errors that leave open whether a transaction was made.
func isUnsure(err error) bool {
	return !errors.Is(err, ErrConflict) && !errors.Is(err, ErrReadOnly) && !errors.Is(err, errRefused)
}

// errRefused marks what etcd refused without doing anything.
var errRefused = errors.New("metadata store refused")

// storeError says in our words what etcd answered.
func (m *Meta) storeError(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		m.noteNoSpace()
		return ErrReadOnly
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %w", errRefused, err)
	case m.Err() != nil:
		return m.Err()
	}
	return fmt.Errorf("write metadata: %w", err)
}

// landed finds out whether a write whose answer was lost was made: its revision, or 0.
// A write that arrives after this look finds its compare failed once another one was made.
func (m *Meta) landed(ctx context.Context, w *write) (int64, error) {
	var looks []clientv3.Op
	for k, o := range w.ops {
		if !o.keep {
			looks = append(looks, clientv3.OpGet(k.path()))
		}
	}
	resp, err := m.client.Txn(ctx).Then(looks...).Commit()
	if err != nil {
		return 0, m.storeError(err)
	}
	found := map[recordKey][]byte{}
	var rev int64
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			k, err := parseKey(string(kv.Key))
			if err != nil {
				return 0, err
			}
			found[k] = kv.Value
			rev = max(rev, kv.ModRevision)
		}
	}
	for k, o := range w.ops {
		if value, ok := found[k]; !o.keep && (ok != (o.value != nil) || !bytes.Equal(value, o.value)) {
			return 0, nil
		}
	}
	if rev == 0 { // deletes alone: the image must have seen them go
		rev = resp.Header.Revision
		return rev, m.waitFor(ctx, func(now *Image) bool {
			for k := range w.ops {
				if now.rev(k) != 0 && now.Revision < rev {
					return false
				}
			}
			return true
		})
	}
	return rev, nil
}
