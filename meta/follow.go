package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// loadPage is how many records one read at start asks for.
const loadPage = 10_000

// drainMax bounds how many answers of the watch go into one image.
const drainMax = 256

// load reads everything at one revision.
func (m *Meta) load(ctx context.Context) (*Image, error) {
	d := newDraft(m.schema, emptyImage())
	from, revision := prefix, int64(0)
	for {
		resp, err := m.client.Get(ctx, from,
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithLimit(loadPage), clientv3.WithRev(revision))
		if err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			if err := d.apply(record{string(kv.Key), kv.Value, kv.ModRevision}); err != nil {
				return nil, err
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
	d.img.Revision = revision
	return &d.img, nil
}

// follow keeps the image at the store's newest revision until ctx ends.
func (m *Meta) follow(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		before := m.Image().Revision
		err := m.followOnce(ctx)
		if m.Image().Revision > before {
			attempt = 0
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errUnreadable):
			m.log.Error("metadata cannot be read any more", "err", err)
			m.fail(err)
			return
		case errors.Is(err, rpctypes.ErrCompacted):
			err = m.reload(ctx)
		}
		if err != nil {
			m.log.Warn("metadata watch broke; it is begun again", "err", err)
		}
		if m.pause(ctx, attempt) != nil {
			return
		}
	}
}

// errUnreadable marks records that this version does not understand.
var errUnreadable = errors.New("metadata cannot be read")

// followOnce watches from the image's revision on, until the watch ends.
func (m *Meta) followOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := ctx
	if m.embedded == nil {
		watched = clientv3.WithRequireLeader(ctx)
	}
	ch := m.client.Watch(watched, prefix, clientv3.WithPrefix(), clientv3.WithRev(m.Image().Revision+1))
	for resp := range ch {
		d := newDraft(m.schema, m.Image())
		if err := d.applyAnswer(resp); err != nil {
			return err
		}
		// What is already there goes into the same image: maps are cloned once for all.
		for range drainMax {
			select {
			case more, ok := <-ch:
				if !ok {
					m.publish(&d.img)
					return errWatchEnded
				}
				if err := d.applyAnswer(more); err != nil {
					return err
				}
				continue
			default:
			}
			break
		}
		m.publish(&d.img)
	}
	return errWatchEnded
}

var errWatchEnded = errors.New("watch ended")

func (d *draft) applyAnswer(resp clientv3.WatchResponse) error {
	if err := resp.Err(); err != nil {
		return err
	}
	for _, ev := range resp.Events {
		r := record{key: string(ev.Kv.Key), revision: ev.Kv.ModRevision}
		if ev.Type == mvccpb.PUT {
			r.value = ev.Kv.Value
		}
		if err := d.apply(r); err != nil {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
	}
	return nil
}

// reload reads everything again, after the history that the watch needed is gone.
func (m *Meta) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	img, err := m.load(ctx)
	if err != nil {
		return err
	}
	m.publish(img)
	return nil
}

// waiter waits for an image of its liking.
type waiter struct {
	likes func(*Image) bool
	done  chan struct{}
}

// publish makes img the newest image and wakes those who wait for it.
func (m *Meta) publish(img *Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if img.Revision <= m.image.Load().Revision {
		return
	}
	m.image.Store(img)
	for w := range m.waiters {
		if w.likes(img) {
			close(w.done)
			delete(m.waiters, w)
		}
	}
	for ch := range m.watchers {
		select {
		case ch <- struct{}{}:
		default: // it has not yet looked at the one before
		}
	}
}

// waitFor waits until an image is liked. likes is called under a lock and must be quick.
func (m *Meta) waitFor(ctx context.Context, likes func(*Image) bool) error {
	m.mu.Lock()
	if likes(m.image.Load()) {
		m.mu.Unlock()
		return nil
	}
	w := &waiter{likes: likes, done: make(chan struct{})}
	m.waiters[w] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.waiters, w)
	}()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.stopped:
		return m.Err()
	}
}

func (m *Meta) waitRevision(ctx context.Context, revision int64) error {
	if m.Image().Revision >= revision {
		return nil
	}
	return m.waitFor(ctx, func(img *Image) bool { return img.Revision >= revision })
}

// Watch calls fn, one call at a time and in order of revision, with each pair of
// successive images; some may be skipped. The first call comes at once with old == nil. It returns when ctx ends,
// or when the store has stopped.
func (m *Meta) Watch(ctx context.Context, fn func(old, new *Image)) {
	wake := make(chan struct{}, 1)
	m.mu.Lock()
	m.watchers[wake] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, wake)
	}()
	var old *Image
	for {
		if img := m.Image(); img != old && ctx.Err() == nil {
			fn(old, img)
			old = img
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		case <-m.stopped:
			return
		}
	}
}
