package link

import (
	"maps"
	"reflect"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// follow starts and ends links as the image says, and wakes those that it has news for. An image that is older than one
// before says nothing: the watch may be late, and would end a link that was just made.
func (ls *Links) follow(img *meta.Image) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed || ls.ctx == nil || ls.followed != nil && img.Revision < ls.followed.Revision {
		return
	}
	told, all := news(ls.followed, img)
	ls.followed = img
	for id, r := range ls.running {
		if img.Links[id] == nil {
			delete(ls.running, id)
			ctx := ls.ctx
			ls.wait.Go(func() {
				r.close()
				ls.sweepCopies(ctx, id)
			})
		}
	}
	before := maps.Clone(ls.running)
	for id, rec := range img.Links {
		if ls.running[id] == nil {
			ls.running[id] = newRunning(ls, rec)
		}
	}
	ls.memory.Store(max(ls.env.MemoryMax/int64(max(len(ls.running), 1)), linkMemoryLeast))
	for id, r := range ls.running {
		switch {
		case before[id] == nil:
			r.start(ls.ctx)
		case all || told[id]:
			r.wake()
		}
	}
}

// linkMemoryLeast is what a link may hold however many there are, in bytes.
const linkMemoryLeast = 4 << 20

// news is which links have something to look at in an image that they had not in the one before; all for every one. With a
// thousand links, each of which looks through all mirrors at every change, making them took minutes.
func news(old, img *meta.Image) (links map[kafka.TopicID]bool, all bool) {
	if old == nil || len(old.Links) != len(img.Links) { // each has its part of the memory
		return nil, true
	}
	links = map[kafka.TopicID]bool{}
	differing(old.Links, img.Links, func(id kafka.TopicID, _ *meta.Link) { links[id] = true })
	differing(old.Mirrors, img.Mirrors, func(_ kafka.TopicID, rec *meta.Mirror) { links[rec.Link] = true })
	of := func(topic kafka.TopicID) (mirrored bool) {
		for _, rec := range []*meta.Mirror{old.Mirrors[topic], img.Mirrors[topic]} {
			if rec != nil {
				links[rec.Link], mirrored = true, true
			}
		}
		return mirrored
	}
	differing(old.Topics, img.Topics, func(id kafka.TopicID, _ *meta.Topic) {
		if !of(id) {
			all = true // any of them may have waited for it, or for its end
		}
	})
	differing(old.Partitions, img.Partitions, func(id kafka.TopicID, states *meta.Partitions) {
		if !states.CopyOf.IsZero() {
			id = states.CopyOf
		}
		of(id)
	})
	return links, all
}

// differing calls f with every record that is not the same in both, old and new. Images share what did not change.
func differing[R any](old, img map[kafka.TopicID]*R, f func(kafka.TopicID, *R)) {
	if reflect.ValueOf(old).Pointer() == reflect.ValueOf(img).Pointer() {
		return
	}
	for id, rec := range img {
		if old[id] != rec {
			f(id, rec)
		}
	}
	for id, rec := range old {
		if img[id] != rec {
			f(id, rec)
		}
	}
}
