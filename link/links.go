package link

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
)

// Links is all links of this cluster.
type Links struct {
	env    Env
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	ctx     context.Context
	running map[kafka.TopicID]*running // by link id; empty before Start
	// followed is the newest image that running was brought to; nil before Start.
	followed *meta.Image
	closed   bool

	memory    atomic.Int64 // bytes of source answers that each link may hold
	verifying verifications
}

// New makes the links over metadata; Start runs them.
func New(env Env) *Links {
	return &Links{env: env.filled(), running: map[kafka.TopicID]*running{}}
}

// Start begins mirroring and the tasks of every link, and finishes what a crash interrupted. It
// returns when all are under way; ctx bounds nothing after that.
func (ls *Links) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ls.mu.Lock()
	if ls.closed || ls.ctx != nil {
		ls.mu.Unlock()
		return nil
	}
	ls.ctx, ls.cancel = context.WithCancel(context.WithoutCancel(ctx))
	run := ls.ctx
	ls.mu.Unlock()

	ls.follow(ls.env.Metadata.Image())
	ls.wait.Go(func() {
		ls.env.Metadata.Watch(run, func(_, img *meta.Image) { ls.follow(img) })
	})
	return nil
}

// Close stops all of it and waits.
func (ls *Links) Close() {
	ls.mu.Lock()
	if ls.closed {
		ls.mu.Unlock()
		return
	}
	ls.closed = true
	if ls.cancel != nil {
		ls.cancel()
	}
	list := make([]*running, 0, len(ls.running))
	for _, r := range ls.running {
		list = append(list, r)
	}
	ls.mu.Unlock()
	for _, r := range list {
		r.close()
	}
	ls.wait.Wait()
}

// runningOf finds a link's running part; nil before Start.
func (ls *Links) runningOf(id kafka.TopicID) *running {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.running[id]
}

// named finds a link's record by name.
func (ls *Links) named(name string) (*meta.Image, *meta.Link, error) {
	img := ls.env.Metadata.Image()
	rec := img.Links[img.LinkIDs[name]]
	if rec == nil {
		return img, nil, noLink(name)
	}
	return img, rec, nil
}

// topicMirror is a mirror's record with its topic's.
type topicMirror struct {
	rec   *meta.Mirror
	topic *meta.Topic
	state mirror.State
}

// mirrorsOf lists a link's mirrors that have a topic, by name. A state that this version does not know
// counts as FAILED: it is neither fetched nor opened.
func mirrorsOf(img *meta.Image, id kafka.TopicID) []topicMirror {
	var list []topicMirror
	for _, rec := range img.Mirrors {
		topic := img.Topics[rec.Topic]
		if rec.Link != id || topic == nil {
			continue
		}
		list = append(list, newTopicMirror(rec, topic))
	}
	slices.SortFunc(list, func(a, b topicMirror) int {
		switch {
		case a.topic.Name < b.topic.Name:
			return -1
		case a.topic.Name > b.topic.Name:
			return 1
		}
		return 0
	})
	return list
}

func newTopicMirror(rec *meta.Mirror, topic *meta.Topic) topicMirror {
	state, err := mirror.ParseState(rec.State)
	if err != nil {
		state = mirror.Failed
	}
	return topicMirror{rec, topic, state}
}

// batchMax is how many records one metadata transaction may change.
const batchMax = 60

// updateMirrors changes mirror records in transactions of at most batchMax. change gets a copy and says
// whether to store it; it runs again when somebody else was quicker. Records that are gone are passed over. Each
// state that was stored is told once.
func (ls *Links) updateMirrors(ctx context.Context, ids []kafka.TopicID, change func(img *meta.Image, rec *meta.Mirror) bool) error {
	for chunk := range slices.Chunk(ids, batchMax) {
		var told []event.Event
		err := ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			var changes []meta.Change
			told = told[:0]
			for _, id := range chunk {
				old := img.Mirrors[id]
				if old == nil {
					continue
				}
				rec := *old
				if !change(img, &rec) {
					continue
				}
				changes = append(changes, meta.PutMirror(&rec))
				if rec.State != old.State {
					told = append(told, stateChanged(img, old, &rec))
				}
			}
			return changes, nil
		})
		if err != nil {
			return err
		}
		for _, e := range told {
			ls.env.Events.Emit(e)
		}
	}
	return nil
}

func stateChanged(img *meta.Image, from, to *meta.Mirror) event.MirrorStateChanged {
	e := event.MirrorStateChanged{From: from.State, To: to.State, Code: to.Error, Text: to.ErrorText}
	if link := img.Links[to.Link]; link != nil {
		e.Link = link.Name
	}
	if topic := img.Topics[to.Topic]; topic != nil {
		e.Topic = topic.Name
	}
	return e
}

// TopicDeleted tells that a topic is gone, so that its mirror goes too: each link looks for mirrors without a
// topic, as it does after a crash, drops the fetching and removes the record.
func (ls *Links) TopicDeleted() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, r := range ls.running {
		r.wake()
	}
}
