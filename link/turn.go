package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

const (
	// turnSoon and turnLater are how long a reversal or restore rests between looks: while only this cluster and its
	// peer are at work, and while an operator or the network is waited for.
	turnSoon  = 10 * time.Millisecond
	turnLater = 250 * time.Millisecond
	// askMax bounds one question to the peer, and forceMax one that a failover waits for.
	askMax   = 8 * time.Second
	forceMax = 2 * time.Second
	// asksAtOnce is how many questions a link has under way to its peer, and freezesAtOnce how many of them ask to freeze: of
	// many topics that turn together those that are read-only already go first.
	asksAtOnce    = 16
	freezesAtOnce = 8
)

// turnLoop looks after every topic of the link that is in a reversal or a restore: one goroutine for each, which ends when
// nothing is left to be done for it. What is to be done is read from what is stored, so a restart goes on by itself.
func (r *running) turnLoop(ctx context.Context) {
	for {
		for id, woken := range r.turnTopics() {
			r.wait.Go(func() { r.takeTurns(ctx, id, woken) })
		}
		select {
		case <-ctx.Done():
			return
		case <-r.turns:
		}
	}
}

// turnTopics lists the topics that have something to do and nobody at it, and claims them; the others' goroutines are woken.
func (r *running) turnTopics() map[kafka.TopicID]chan struct{} {
	img := r.ls.env.Metadata.Image()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := map[kafka.TopicID]chan struct{}{}
	for id, rec := range img.Mirrors {
		if rec.Link != r.id || !turnWork(img, rec) {
			continue
		}
		if woken := r.turning[id]; woken != nil {
			poke(woken)
			continue
		}
		r.turning[id] = make(chan struct{}, 1)
		list[id] = r.turning[id]
	}
	return list
}

// turnWork reports whether a record has something to do that the main loop does not.
func turnWork(img *meta.Image, rec *meta.Mirror) bool {
	if rec.Turn == nil || img.Topics[rec.Topic] == nil {
		return false
	}
	state, err := mirror.ParseState(rec.State)
	if err != nil {
		return false
	}
	switch state {
	case mirror.PendingSynchronize, mirror.PendingHandOver, mirror.PendingMirror, mirror.HandedOver, mirror.Reopening,
		mirror.PendingSetup, mirror.PendingRestore:
		return true
	case mirror.Stopping:
		return false // the main loop's; what it leaves is looked at then
	}
	return rec.Turn.Release || frozenFor(img, rec)
}

// frozenFor reports whether partitions are frozen still for the record's turn.
func frozenFor(img *meta.Image, rec *meta.Mirror) bool {
	states := img.Partitions[rec.Topic]
	return states != nil && slices.ContainsFunc(states.List, func(p meta.Partition) bool {
		return p.Role == meta.RoleFrozen && p.Frozen != nil && p.Frozen.Reversal == rec.Turn.ID
	})
}

// takeTurns does what there is to do for one topic until there is nothing left.
func (r *running) takeTurns(ctx context.Context, id kafka.TopicID, woken <-chan struct{}) {
	defer func() {
		r.mu.Lock()
		delete(r.turning, id)
		r.mu.Unlock()
		img := r.ls.env.Metadata.Image()
		if rec := img.Mirrors[id]; rec != nil && turnWork(img, rec) {
			poke(r.turns) // something came in between
		}
	}()
	for ctx.Err() == nil {
		img := r.ls.env.Metadata.Image()
		rec, topic := img.Mirrors[id], img.Topics[id]
		if rec == nil || topic == nil || rec.Link != r.id || !turnWork(img, rec) {
			return
		}
		pause := r.takeTurn(ctx, img, newTopicMirror(rec, topic))
		t := time.NewTimer(max(pause, time.Millisecond))
		select {
		case <-ctx.Done():
		case <-woken:
		case <-t.C:
		}
		t.Stop()
	}
}

// takeTurn does the next step and says how long to rest then.
func (r *running) takeTurn(ctx context.Context, img *meta.Image, m topicMirror) time.Duration {
	var err error
	var pause time.Duration
	switch m.state {
	case mirror.PendingSynchronize:
		pause, err = r.synchronize(ctx, m)
	case mirror.PendingHandOver:
		pause, err = r.askHandOver(ctx, m)
	case mirror.PendingMirror:
		pause, err = r.beFrozen(ctx, img, m)
	case mirror.HandedOver:
		pause, err = r.hearMirror(ctx, img, m)
	case mirror.Reopening:
		err = r.reopen(ctx, m)
	case mirror.PendingSetup:
		pause, err = r.setUpRestore(ctx, m)
	case mirror.PendingRestore:
		pause, err = r.restore(ctx, img, m)
	default:
		err = r.finishTurn(ctx, img, m)
	}
	if err != nil && ctx.Err() == nil {
		r.noteTurn(m, problemOf(err))
		return max(pause, turnLater)
	}
	return pause
}

// errStep is an error that stands in the way of a turn, with its name.
type errStep struct {
	code string
	what string
	err  error
}

func (e *errStep) Error() string { return e.what + ": " + e.err.Error() }
func (e *errStep) Unwrap() error { return e.err }

func problemOf(err error) plan.Problem {
	var step *errStep
	if errors.As(err, &step) {
		return plan.Problem{Code: step.code, Text: step.Error()}
	}
	return plan.Problem{Code: codeOf(err), Text: err.Error()}
}

// noteTurn shows what a turn waits for among the state-transition errors; an empty problem clears it.
func (r *running) noteTurn(m topicMirror, p plan.Problem) {
	var list []plan.Problem
	if p.Code != "" {
		list = []plan.Problem{p}
	}
	r.mu.Lock()
	old := r.obstacle[m.topic.ID]
	r.mu.Unlock()
	if p.Code != "" && (len(old) == 0 || old[0] != p) {
		r.ls.env.Logger.Warn("a turn of source and mirror waits", "link", r.name, "topic", m.topic.Name, "turn", m.rec.Turn.ID,
			"state", m.rec.State, "code", p.Code, "text", p.Text)
	}
	r.note(m.topic.ID, list)
}

// stepTurn feeds an event to the topic's record if it is still in the state, and the turn, that m was read in; more changes the
// record besides. It reports whether that was so. The state is stored when it returns; nobody has acted on it yet.
func (r *running) stepTurn(ctx context.Context, m topicMirror, e mirror.Event, more func(*meta.Mirror)) (bool, error) {
	stepped := false
	now := r.ls.env.Now().UnixMilli()
	defer r.hurry()
	err := r.ls.updateMirrors(ctx, []kafka.TopicID{m.topic.ID}, func(_ *meta.Image, rec *meta.Mirror) bool {
		stepped = rec.State == m.rec.State && rec.Turn != nil && rec.Turn.ID == m.rec.Turn.ID
		if !stepped || !stepRecord(rec, m.state, e, now) {
			stepped = false
			return false
		}
		if more != nil {
			turn := *rec.Turn
			rec.Turn = &turn
			more(rec)
		}
		return true
	})
	if err != nil {
		return false, fmt.Errorf("store the turn: %w", err)
	}
	if stepped {
		r.note(m.topic.ID, nil)
	}
	return stepped, nil
}

// changeTurn changes a record that is still in the state and the turn that m was read in.
func (r *running) changeTurn(ctx context.Context, m topicMirror, change func(*meta.Turn)) error {
	err := r.ls.updateMirrors(ctx, []kafka.TopicID{m.topic.ID}, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.State != m.rec.State || rec.Turn == nil || rec.Turn.ID != m.rec.Turn.ID {
			return false
		}
		turn := *rec.Turn
		change(&turn)
		rec.Turn = &turn
		return true
	})
	if err != nil {
		return fmt.Errorf("store the turn: %w", err)
	}
	return nil
}

// stepRecord moves a record and does to it what is an effect on the record itself: KillReversal.
func stepRecord(rec *meta.Mirror, state mirror.State, e mirror.Event, nowMs int64) bool {
	next, effects, err := mirror.Step(state, e)
	if err != nil {
		return false
	}
	if next != state {
		rec.State, rec.StateMs = next.String(), nowMs
		rec.Paused = false
	}
	if slices.Contains(effects, mirror.KillReversal) && rec.Turn != nil {
		turn := *rec.Turn
		turn.Over = true
		rec.Turn = &turn
	}
	return next != state || len(effects) > 0
}

// ask asks the other cluster about one topic of its own and reads the answer.
func ask[A any](ctx context.Context, r *running, key peer.Key, topic string, body []byte, read func([]byte) (A, error)) (A, error) {
	var none A
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	raw, err := r.Call(ctx, peer.Ask{Key: key, Topics: []string{topic}, Body: body})
	if err != nil {
		return none, err
	}
	answer, err := read(raw)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", key.Name(), malformed(err))
	}
	return answer, nil
}

// nothing reads an answer that says nothing but yes.
func nothing([]byte) (struct{}, error) { return struct{}{}, nil }

// refusedForGood reports whether the peer said no and will not say anything else when asked again.
func refusedForGood(err error) bool {
	switch faultOf(err) {
	case peerNotHawser:
		return true
	case peerRefused:
		return plan.Final(kafka.CodeOf(err))
	}
	return false
}

// giveUp takes the topic back to what it was, with the peer's words kept as its error (rule R4).
func (r *running) giveUp(ctx context.Context, m topicMirror, why error) error {
	p := problemOf(why)
	r.ls.env.Logger.Warn("the other cluster refused", "link", r.name, "topic", m.topic.Name, "turn", m.rec.Turn.ID, "error", why)
	_, err := r.stepTurn(ctx, m, mirror.PeerRefused, func(rec *meta.Mirror) {
		rec.Error, rec.ErrorText = p.Code, p.Text
	})
	return err
}

// acting holds roles of partitions back from changing under a stop while a turn changes them: do runs only if the record is
// still in the state and the turn that m was read in.
func (r *running) acting(m topicMirror, do func() error) error {
	r.roles.RLock()
	defer r.roles.RUnlock()
	rec := r.ls.env.Metadata.Image().Mirrors[m.topic.ID]
	if rec == nil || rec.State != m.rec.State || rec.Turn == nil || rec.Turn.ID != m.rec.Turn.ID {
		return nil
	}
	return do()
}

// reopen opens a frozen topic for producers again: nothing came of the turn.
func (r *running) reopen(ctx context.Context, m topicMirror) error {
	err := r.acting(m, func() error {
		if err := r.takeOver(ctx, m); err != nil {
			return err
		}
		return r.ls.env.Partitions.Unfreeze(ctx, m.topic.ID, m.rec.Turn.ID)
	})
	if err != nil {
		return &errStep{string(mirror.InternalError), "open the topic for producers again", err}
	}
	if m.rec.Turn.Plain && !m.rec.Turn.Release {
		return r.forget(ctx, m)
	}
	_, err = r.stepTurn(ctx, m, mirror.Reopened, nil)
	return err
}

// forget removes the record of a topic that never was a mirror, once it is an ordinary topic again.
func (r *running) forget(ctx context.Context, m topicMirror) error {
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		rec := img.Mirrors[m.topic.ID]
		if rec == nil || rec.State != m.rec.State || rec.Turn == nil || rec.Turn.ID != m.rec.Turn.ID {
			return nil, nil
		}
		return []meta.Change{meta.DeleteMirror(m.topic.ID)}, nil
	})
	if err != nil {
		return fmt.Errorf("remove the record of the turn: %w", err)
	}
	r.note(m.topic.ID, nil)
	return nil
}

// finishTurn does what a turn that is over has left to do: a handed-over topic's partitions become mirrors, those of an ordinary
// one are opened, a pledge is given back. Each may have been kept from it by a crash.
func (r *running) finishTurn(ctx context.Context, img *meta.Image, m topicMirror) error {
	if frozenFor(img, m.rec) {
		err := r.acting(m, func() error {
			if m.state == mirror.Stopped {
				return r.ls.env.Partitions.Unfreeze(ctx, m.topic.ID, m.rec.Turn.ID)
			}
			return r.turnIntoMirror(ctx, img, m)
		})
		if err != nil {
			return &errStep{string(mirror.InternalError), "change the partitions' roles", err}
		}
		r.hurry()
	}
	if m.rec.Turn.Release {
		return r.release(ctx, m)
	}
	return nil
}
