package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// The mirror's side of a reversal. It asks, the source's side answers (reversed.go); nothing is decided before the source
// has handed over (rule R2).

// synchronize asks the source to freeze, then waits until everything that it froze is here and synced.
func (r *running) synchronize(ctx context.Context, m topicMirror) (time.Duration, error) {
	if m.rec.Paused {
		r.noteTurn(m, plan.Problem{Code: string(mirror.InvalidRequest),
			Text: "the reversal is paused, and the source topic stays read-only meanwhile: resume it, or fail it over"})
		return turnLater, nil
	}
	if m.rec.Turn.Ends == nil {
		return r.askFreeze(ctx, m)
	}
	synced := r.syncedEnds(m)
	done, beyond, text := plan.Drained(m.rec.Turn.Ends, synced)
	switch {
	case beyond:
		return 0, r.giveUp(ctx, m, &errStep{string(mirror.IllegalState), "the mirror is not what the source froze", errors.New(text)})
	case !done:
		if problem, is := r.linkProblem(); is {
			r.noteTurn(m, problem)
			return turnLater, nil
		}
		r.noteTurn(m, plan.Problem{Code: string(mirror.LagNotZero), Text: text})
		return turnSoon, nil
	}
	switch p, err := r.otherTail(ctx, m); {
	case err != nil:
		return turnLater, &errStep{codeOfPeer(err), "compare the last batches with the source's", err}
	case p >= 0:
		r.noteTurn(m, plan.Problem{Code: string(mirror.LagNotZero),
			Text: fmt.Sprintf("partition %d ends where the source's does and holds other batches: they are cut, then mirrored anew", p)})
		return turnSoon, nil
	}
	_, err := r.stepTurn(ctx, m, mirror.Drained, nil)
	return 0, err
}

// otherTail is a partition whose last batches are not those that the source has frozen, -1 for none: equal ends alone do not say that a
// mirror has what the source has (rule R1). A fetch would find that too, but perhaps only after the hand-over.
func (r *running) otherTail(ctx context.Context, m topicMirror) (int32, error) {
	ends := m.rec.Turn.Ends
	theirs, err := r.peerLogs(ctx, m, len(ends), ends)
	if err != nil {
		return -1, err
	}
	for p, end := range ends {
		mine, err := r.localLog(m.topic.ID, int32(p), end)
		if err != nil {
			return -1, err
		}
		if plan.OtherTail(mine, theirs[p], end) {
			return int32(p), nil
		}
	}
	return -1, nil
}

// syncedEnds are the synced ends of a topic's partitions, up to the first that is not open here.
func (r *running) syncedEnds(m topicMirror) []kafka.Offset {
	var ends []kafka.Offset
	for p := range m.topic.Partitions {
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
		if part == nil {
			break
		}
		at := part.Offsets()
		if at.HighWatermark != at.LogEnd && at.LogEnd > at.HighWatermark {
			// Not synced yet; and if it were more than was frozen, that must show once it is.
			ends = append(ends, at.HighWatermark)
			continue
		}
		ends = append(ends, at.LogEnd)
	}
	return ends
}

// askFreeze asks the source to freeze, again and again until it states its ends, which are stored once.
func (r *running) askFreeze(ctx context.Context, m topicMirror) (time.Duration, error) {
	rq := peer.FreezeRequest{Turn: m.rec.Turn.ID, Topic: m.rec.SourceTopicID, Mirror: m.topic.ID, MirrorName: m.topic.Name,
		Paused: m.rec.Turn.Paused}
	select {
	case r.freezing <- struct{}{}:
		defer func() { <-r.freezing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	answer, err := ask(ctx, r, peer.Freeze, m.rec.SourceTopic, rq.Encode(), peer.DecodeFreezeAnswer)
	switch {
	case err != nil && refusedForGood(err):
		return 0, r.giveUp(ctx, m, &errStep{codeOfPeer(err), "the source cluster refuses to reverse", err})
	case err != nil:
		return turnLater, &errStep{codeOfPeer(err), "ask the source to freeze", err}
	case !answer.Ready:
		r.noteTurn(m, plan.Problem{Code: string(mirror.LagNotZero), Text: "the source is being frozen: " + answer.Text})
		return turnSoon, nil
	}
	err = r.changeTurn(ctx, m, func(turn *meta.Turn) {
		if turn.Ends == nil {
			turn.Ends = answer.Ends
		}
	})
	return 0, err
}

// codeOfPeer is the reason's name for an error of the other cluster's private keys.
func codeOfPeer(err error) string {
	switch faultOf(err) {
	case peerNotHawser:
		return string(mirror.InvalidRequest)
	case peerRefused:
		switch kafka.CodeOf(err) {
		case kafka.ResourceNotFound:
			return string(mirror.RemoteLinkNotFound)
		case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
			return string(mirror.RemoteMirrorNotFound)
		case kafka.FencedStateEpoch:
			return string(mirror.PledgeWithdrawn)
		}
	}
	return codeOf(err)
}

// askHandOver moves the last metadata, then asks the source to hand over: the point of decision.
func (r *running) askHandOver(ctx context.Context, m topicMirror) (time.Duration, error) {
	if problems := r.lastMetadata(ctx, m); len(problems) > 0 {
		r.note(m.topic.ID, problems)
		return turnLater, nil
	}
	rq := peer.HandOverRequest{Turn: m.rec.Turn.ID, Topic: m.rec.SourceTopicID, Ends: m.rec.Turn.Ends}
	_, err := ask(ctx, r, peer.HandOver, m.rec.SourceTopic, rq.Encode(), nothing)
	switch {
	case err != nil && refusedForGood(err):
		return 0, r.giveUp(ctx, m, &errStep{codeOfPeer(err), "the source cluster does not hand over", err})
	case err != nil:
		return turnLater, &errStep{codeOfPeer(err), "ask the source to hand over", err}
	}
	// From here on the source takes no commits for the topic, so what is read now is the last of them (rule R8). It is not
	// waited for: without it groups read some records again.
	if problems := r.lastOffsets(ctx, m); len(problems) > 0 {
		r.ls.env.Logger.Warn("the last group offsets of a reversed topic were not copied: groups will read some records again",
			"link", r.name, "topic", m.topic.Name, "error", problems[0].Text)
	}
	_, err = r.stepTurn(ctx, m, mirror.HandOverGiven, func(rec *meta.Mirror) { rec.Turn.Handed = true })
	return 0, err
}

// lastMetadata takes over configs and group offsets once more and lists what stands in the way.
func (r *running) lastMetadata(ctx context.Context, m topicMirror) []plan.Problem {
	p := &promotion{m: m}
	if err := r.lastConfigs.do(ctx, p, r.checkConfigs); err != nil {
		return []plan.Problem{{Code: codeOf(err), Text: "configs of the source topic cannot be read: " + err.Error()}}
	}
	if problems := p.facts.ConfigProblems; len(problems) > 0 {
		return problems
	}
	return r.lastOffsets(ctx, m)
}

func (r *running) lastOffsets(ctx context.Context, m topicMirror) []plan.Problem {
	p := &promotion{m: m}
	if err := r.lastCommits.do(ctx, p, r.checkOffsets); err != nil {
		return []plan.Problem{{Code: codeOf(err), Text: "group offsets cannot be synced: " + err.Error()}}
	}
	return p.facts.OffsetProblems
}

// gathering asks the source about many topics in one go: who comes while others are being asked about waits, and is then asked
// about together with all who came meanwhile. What is asked for a topic is asked after it came.
type gathering struct {
	slot    chan struct{} // room for one: who asks
	mu      sync.Mutex    // guards waiting
	waiting []*gathered
}

type gathered struct {
	promotion *promotion
	done      bool // written and read by who holds the slot
}

func newGathering() *gathering { return &gathering{slot: make(chan struct{}, 1)} }

// do has ask called with p among others. Its error is ctx's, from before p's turn came.
func (g *gathering) do(ctx context.Context, p *promotion, ask func(context.Context, []*promotion)) error {
	mine := &gathered{promotion: p}
	g.mu.Lock()
	g.waiting = append(g.waiting, mine)
	g.mu.Unlock()
	select {
	case g.slot <- struct{}{}:
	case <-ctx.Done():
		g.mu.Lock()
		g.waiting = slices.DeleteFunc(g.waiting, func(one *gathered) bool { return one == mine })
		g.mu.Unlock()
		return ctx.Err()
	}
	defer func() { <-g.slot }()
	for !mine.done {
		g.mu.Lock()
		together := slices.Clone(g.waiting[:min(len(g.waiting), promotesTogether)])
		g.waiting = slices.Delete(g.waiting, 0, len(together))
		g.mu.Unlock()
		list := make([]*promotion, len(together))
		for i, one := range together {
			list[i], one.done = one.promotion, true
		}
		ask(ctx, list)
	}
	return nil
}

// answerReverse says how a reversal stands that this side ordered, and ends it if that is asked and not too late: a
// failover of the source that was handed over asks that (rule R2).
func (ls *Links) answerReverse(ctx context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodeReverseRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	rec, topic := q.img.Mirrors[rq.Topic], q.img.Topics[rq.Topic]
	if rec == nil || topic == nil || !names(q, topic.Name) {
		return peer.ReverseAnswer{Word: plan.Unheard.String()}.Encode(), nil
	}
	if c := completed(rec, q.Link, rq.Turn); c != nil {
		word := plan.SpeakOfCompleted(c.Paused, keepsStops(q.img, rq.Topic, c.Ends))
		return peer.ReverseAnswer{Word: word.String(), Ends: c.Ends}.Encode(), nil
	}
	if rec.Link != q.Link {
		return peer.ReverseAnswer{Word: plan.Unheard.String()}.Encode(), nil
	}
	r := ls.runningOf(rec.Link)
	if m := newTopicMirror(rec, topic); rq.End && r != nil && plan.Speak(turnFacts(m), rq.Turn) == plan.Live {
		if _, err := r.stepTurn(ctx, m, mirror.PeerDead, nil); err != nil {
			return nil, err
		}
		rec = ls.env.Metadata.Image().Mirrors[rq.Topic]
		if rec == nil {
			return peer.ReverseAnswer{Word: plan.Unheard.String()}.Encode(), nil
		}
	}
	m := newTopicMirror(rec, topic)
	word := plan.Speak(turnFacts(m), rq.Turn)
	if rec.Turn != nil && rec.Turn.Restore && rec.Turn.ID == rq.Turn {
		word = plan.SpeakOfRestore(m.state)
	}
	answer := peer.ReverseAnswer{Word: word.String(), Halted: rec.Paused}
	if word == plan.Completed || word == plan.CompletedPaused {
		answer.Ends = stopPoints(ls.env.Metadata.Image().Partitions[rq.Topic])
	}
	return answer.Encode(), nil
}

// names reports whether a question names the topic: its rights were checked for the topics that it names only.
func names(q question, topic string) bool {
	for _, name := range q.Topics {
		if name == topic {
			return true
		}
	}
	return false
}

func stopPoints(states *meta.Partitions) []kafka.Offset {
	if states == nil {
		return nil
	}
	ends := make([]kafka.Offset, len(states.List))
	for p, s := range states.List {
		if s.Stop == nil {
			return nil
		}
		ends[p] = s.Stop.Offset
	}
	return ends
}

// completed is the record's note of a reversal that was completed before the topic got into another turn; nil for none.
func completed(rec *meta.Mirror, link kafka.TopicID, turn string) *meta.Completed {
	for i, c := range rec.Completed {
		if c.ID == turn && c.Link == link {
			return &rec.Completed[i]
		}
	}
	return nil
}

// keepsStops reports whether each log has all that it had when it stopped at the ends: what was begun there by this
// cluster was not cut off since.
func keepsStops(img *meta.Image, topic kafka.TopicID, ends []kafka.Offset) bool {
	states := img.Partitions[topic]
	if states == nil || len(states.List) < len(ends) {
		return false
	}
	for p, end := range ends {
		if !slices.ContainsFunc(states.List[p].Lineage, func(l meta.Lineage) bool { return l.Start == end && l.Cluster == img.Cluster.ID }) {
			return false
		}
	}
	return true
}

// remember keeps a reversal in mind that was completed, in the record of the turn that begins: its old source may ask about it still.
// before is the record as it was, nil for none.
func remember(rec, before *meta.Mirror) {
	if before == nil || before.Turn == nil || before.State != mirror.Stopped.String() {
		return
	}
	t := before.Turn
	if t.Restore || !t.Handed || t.Over {
		return
	}
	list := slices.DeleteFunc(slices.Clone(before.Completed), func(c meta.Completed) bool { return c.Link == before.Link })
	list = append(list, meta.Completed{ID: t.ID, Link: before.Link, Paused: t.Paused, Ends: t.Ends})
	rec.Completed = list[max(0, len(list)-meta.CompletedMax):]
}

// turnFacts is a record in link/plan's words.
func turnFacts(m topicMirror) plan.TurnFacts {
	f := plan.TurnFacts{State: m.state, Topic: m.rec.Topic, Turns: m.rec.Turns, Stopped: m.rec.TurnsStopped, Recorded: true}
	if t := m.rec.Turn; t != nil && !t.Restore {
		f.ID, f.Over, f.Handed, f.Paused = t.ID, t.Over, t.Handed, t.Paused
	}
	return f
}

// newTurn is a reversal or restore that this side orders.
func newTurn(rec *meta.Mirror, nowMs int64) *meta.Turn {
	rec.Turns++
	return &meta.Turn{ID: plan.TurnID(rec.Topic, rec.Turns), SinceMs: nowMs}
}
