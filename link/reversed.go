package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// The source's side of a reversal: it is asked to freeze and to hand over, and asks itself what became of the reversal.

// freezeWait bounds how long an answer waits for the frozen ends: the mirror asks again. It is short, so that topics held up by
// transactions leave the questions under way to others.
const freezeWait = 200 * time.Millisecond

// frozenTopic finds the topic that a question is about, with its record, if it has one, and the link's running part.
func (ls *Links) frozenTopic(q question, id kafka.TopicID) (topicMirror, *running, error) {
	topic := q.img.Topics[id]
	if topic == nil || !names(q, topic.Name) {
		return topicMirror{}, nil, kafka.Errorf(kafka.UnknownTopicOrPartition,
			"Cluster %s has no topic with the id %s any more: it was deleted, or made again.", q.img.Cluster.ID, id)
	}
	r := ls.runningOf(q.Link)
	if r == nil {
		return topicMirror{}, nil, kafka.Errorf(kafka.NotEnoughReplicas, "Cluster link '%s' of cluster %s is being started.", q.link.Name,
			q.img.Cluster.ID)
	}
	if orDefault(q.link.Configs, keyMode, modeDestination) != modeBidirectional {
		return topicMirror{}, nil, kafka.Errorf(kafka.InvalidRequest, "Cluster link '%s' of cluster %s is not BIDIRECTIONAL.",
			q.link.Name, q.img.Cluster.ID)
	}
	if rec := q.img.Mirrors[id]; rec != nil {
		return newTopicMirror(rec, topic), r, nil
	}
	return topicMirror{topic: topic, state: mirror.Stopped}, r, nil
}

// sideFacts is a topic in link/plan's words.
func sideFacts(m topicMirror) plan.SideFacts {
	f := plan.SideFacts{Topic: m.topic.Name, State: m.state}
	if m.rec != nil && m.rec.Pledge != nil {
		f.Pledged, f.To = m.rec.Pledge.ID, m.rec.Pledge.Cluster
	}
	if m.rec != nil && m.rec.Turn != nil {
		f.Turn = m.rec.Turn.ID
	}
	return f
}

// answerFreeze begins to freeze a topic, if the mirror confirms that the reversal is alive, and states the ends once they are known.
func (ls *Links) answerFreeze(ctx context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodeFreezeRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	q.img = ls.awaitStops(ctx, q.Link, q.Topics)
	m, r, err := ls.frozenTopic(q, rq.Topic)
	if err != nil {
		return nil, err
	}
	if err := plan.MayFreeze(sideFacts(m), rq.Turn); err != nil {
		return nil, err
	}
	if kafka.IsInternal(m.topic.Name) {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is internal and cannot be reversed.", m.topic.Name)
	}
	if m.state == mirror.Stopped {
		if err := r.inService(m.topic); err != nil {
			return nil, err
		}
	}
	if rq.Validate {
		// The callback is tried as well: it shows what this side's link may not do, before anything is frozen.
		if _, err := r.callBack(ctx, rq); err != nil {
			return nil, err
		}
		if err := r.mayMirror(ctx, rq.MirrorName); err != nil {
			return nil, err
		}
		return r.freezeAnswer(m, rq.Turn).Encode(), nil
	}
	if m.state == mirror.Stopped {
		if err := r.confirm(ctx, rq); err != nil {
			return nil, err
		}
		if err := r.storeFrozen(ctx, rq); err != nil {
			return nil, err
		}
	}
	return r.awaitEnds(ctx, rq.Topic, rq.Turn)
}

// answerDescribeFreeze says how far a freeze is.
func (ls *Links) answerDescribeFreeze(_ context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodeFreezeRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	m, r, err := ls.frozenTopic(q, rq.Topic)
	if err != nil {
		return nil, err
	}
	return r.freezeAnswer(m, rq.Turn).Encode(), nil
}

// confirm calls the mirror back: a freeze that comes late, of a reversal that is over, must not take effect (rule R4).
func (r *running) confirm(ctx context.Context, rq peer.FreezeRequest) error {
	word, err := r.callBack(ctx, rq)
	if err == nil && word != plan.Live {
		err = kafka.Errorf(kafka.InvalidRequest, "The reversal %s is not alive any more at the mirror's cluster: it says %s.", rq.Turn, word)
	}
	return err
}

// callBack asks the mirror's side about the reversal, over this side's own half of the link.
func (r *running) callBack(ctx context.Context, rq peer.FreezeRequest) (plan.Word, error) {
	back := peer.ReverseRequest{Turn: rq.Turn, Topic: rq.Mirror}
	answer, err := ask(ctx, r, peer.DescribeReverse, rq.MirrorName, back.Encode(), peer.DecodeReverseAnswer)
	if err != nil {
		code := kafka.NotEnoughReplicas // it may heal
		if refusedForGood(err) {
			code = kafka.InvalidRequest
		}
		return plan.Silent, kafka.Errorf(code, "Cluster %s cannot call the mirror's cluster back over cluster link '%s': %v",
			r.ls.env.Metadata.Image().Cluster.ID, r.name, err)
	}
	return plan.ParseWord(answer.Word), nil
}

// storeFrozen stores PENDING_MIRROR. A topic that never was a mirror gets a record for it.
func (r *running) storeFrozen(ctx context.Context, rq peer.FreezeRequest) error {
	now := r.ls.env.Now().UnixMilli()
	var told []event.Event
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		told = told[:0]
		topic, link := img.Topics[rq.Topic], img.Links[r.id]
		if topic == nil || link == nil {
			return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "The topic, or the link, was deleted.")
		}
		old := img.Mirrors[rq.Topic]
		m := topicMirror{rec: old, topic: topic, state: mirror.Stopped}
		if old != nil {
			m = newTopicMirror(old, topic)
		}
		if err := plan.MayFreeze(sideFacts(m), rq.Turn); err != nil {
			return nil, err
		}
		next, _, err := mirror.Step(m.state, mirror.FreezeAsked)
		if err != nil {
			return nil, kafka.Errorf(kafka.InvalidRequest, "Topic '%s': %v.", topic.Name, err)
		}
		if next == m.state {
			return nil, nil
		}
		rec := &meta.Mirror{Topic: rq.Topic, Turns: now} // as in a restore: see find
		if old != nil {
			copied := *old
			rec = &copied
		}
		rec.Link, rec.SourceTopic, rec.SourceTopicID = r.id, rq.MirrorName, rq.Mirror
		rec.State, rec.StateMs, rec.Paused, rec.Error, rec.ErrorText = next.String(), now, false, "", ""
		rec.Kin = withoutKin(kinOf(img, topic), link.RemoteClusterID, rq.Mirror)
		remember(rec, old)
		rec.LevelMs = now // it has all, and what the other side will delete comes later
		rec.Turn = &meta.Turn{ID: rq.Turn, Paused: rq.Paused, Plain: old == nil, SinceMs: now}
		told = append(told[:0], stateChanged(img, &meta.Mirror{State: m.state.String()}, rec))
		return []meta.Change{meta.PutMirror(rec), meta.KeepLink(r.id)}, nil
	})
	if err != nil {
		return err
	}
	for _, e := range told {
		r.ls.env.Events.Emit(e)
	}
	poke(r.turns)
	return nil
}

// freezeAnswer is how far the freeze is now.
func (r *running) freezeAnswer(m topicMirror, turn string) peer.FreezeAnswer {
	answer := peer.FreezeAnswer{Partitions: m.topic.Partitions}
	answer.Ends = frozenEnds(r.ls.env.Metadata.Image(), m.topic, turn)
	answer.Ready = answer.Ends != nil
	if answer.Ready {
		return answer
	}
	for _, open := range r.ls.holding(m.topic.Name) {
		answer.Open = append(answer.Open, peer.OpenTransaction{TransactionalID: open.TransactionalID, Producer: open.Producer})
	}
	answer.Text = "the partitions' ends are being written down"
	if n := len(answer.Open); n > 0 {
		answer.Text = fmt.Sprintf("%d open transactions hold it, the first is of '%s'", n, answer.Open[0].TransactionalID)
	}
	return answer
}

// frozenEnds are the ends that the partitions' owners stated for the turn (rule R3), nil until all have.
func frozenEnds(img *meta.Image, topic *meta.Topic, turn string) []kafka.Offset {
	states := img.Partitions[topic.ID]
	if states == nil || len(states.List) < int(topic.Partitions) {
		return nil
	}
	ends := make([]kafka.Offset, topic.Partitions)
	for p := range ends {
		s := states.List[p]
		if s.Role != meta.RoleFrozen || s.Frozen == nil || s.Frozen.Reversal != turn {
			return nil
		}
		ends[p] = s.Frozen.End
	}
	return ends
}

// awaitEnds waits for a while until the ends are stated.
func (r *running) awaitEnds(ctx context.Context, id kafka.TopicID, turn string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	r.ls.env.Metadata.Watch(ctx, func(_, img *meta.Image) {
		if topic := img.Topics[id]; topic == nil || frozenEnds(img, topic, turn) != nil {
			cancel()
		}
	})
	img := r.ls.env.Metadata.Image()
	topic := img.Topics[id]
	if topic == nil {
		return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "The topic was deleted.")
	}
	return r.freezeAnswer(topicMirror{topic: topic}, turn).Encode(), nil
}

// beFrozen carries a freeze out in the order of rule R5: new data and new transactions are refused already, as the
// record says PENDING_MIRROR; open transactions are waited for, then aborted; then the owners state the ends. After
// that it asks how the reversal stands.
func (r *running) beFrozen(ctx context.Context, img *meta.Image, m topicMirror) (time.Duration, error) {
	if frozenEnds(img, m.topic, m.rec.Turn.ID) != nil {
		return r.hearMirror(ctx, img, m)
	}
	if open := r.ls.holding(m.topic.Name); len(open) > 0 {
		age := r.ls.env.Now().UnixMilli() - m.rec.Turn.SinceMs
		if age >= 0 && age < r.settingsNow().turnGrace.Milliseconds() {
			return turnSoon, nil
		}
		bounded, cancel := context.WithTimeout(ctx, askMax)
		aborted, err := r.ls.env.Transactions.AbortOn(bounded, m.topic.Name)
		cancel()
		if err != nil {
			return turnLater, &errStep{string(mirror.InternalError), "abort open transactions", err}
		}
		r.ls.env.Logger.Warn("open transactions were aborted for a reversal", "link", r.name, "topic", m.topic.Name,
			"turn", m.rec.Turn.ID, "transactions", aborted)
	}
	err := r.acting(m, func() error {
		_, err := r.ls.env.Partitions.Freeze(ctx, m.topic.ID, m.rec.Turn.ID)
		return err
	})
	if err != nil {
		return turnLater, &errStep{string(mirror.InternalError), "state the frozen ends", err}
	}
	return 0, nil
}

// hearMirror asks the mirror how the reversal stands and does what follows (rules R1, R4).
func (r *running) hearMirror(ctx context.Context, img *meta.Image, m topicMirror) (time.Duration, error) {
	word, answer, asked := r.askReverse(ctx, m, false)
	ends := frozenEnds(img, m.topic, m.rec.Turn.ID)
	e, is, problem := plan.Hear(m.state, word, ends != nil && slices.Equal(ends, answer.Ends))
	if word == plan.Silent && asked != nil {
		problem = plan.Problem{Code: codeOfPeer(asked), Text: problem.Text + ": " + asked.Error()}
	}
	if is {
		_, err := r.stepTurn(ctx, m, e, nil)
		return 0, err
	}
	if word == plan.Live && answer.Halted {
		frozen := time.Duration(r.ls.env.Now().UnixMilli()-m.rec.Turn.SinceMs) * time.Millisecond
		problem = plan.Problem{Code: string(mirror.InvalidRequest),
			Text: fmt.Sprintf("the reversal is paused at the mirror's cluster; this topic has been read-only for %v", frozen.Round(time.Second))}
	}
	r.noteTurn(m, problem)
	if word == plan.Live && m.state == mirror.HandedOver {
		return turnSoon, nil
	}
	return turnLater, nil
}

// askReverse asks the mirror's side about the turn that this topic is in; err says why it is silent.
func (r *running) askReverse(ctx context.Context, m topicMirror, end bool) (plan.Word, peer.ReverseAnswer, error) {
	rq := peer.ReverseRequest{Turn: m.rec.Turn.ID, Topic: m.rec.SourceTopicID, End: end}
	answer, err := ask(ctx, r, peer.DescribeReverse, m.rec.SourceTopic, rq.Encode(), peer.DecodeReverseAnswer)
	if err != nil {
		return plan.Silent, peer.ReverseAnswer{}, err
	}
	return plan.ParseWord(answer.Word), answer, nil
}

// answerHandOver gives the source's role away: the point of decision (rule R2).
func (ls *Links) answerHandOver(ctx context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodeHandOverRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	m, r, err := ls.frozenTopic(q, rq.Topic)
	if err != nil {
		return nil, err
	}
	if err := plan.MayHandOver(sideFacts(m), rq.Turn); err != nil {
		return nil, err
	}
	ends := frozenEnds(q.img, m.topic, rq.Turn)
	switch {
	case m.state == mirror.HandedOver:
		return nil, nil
	case ends == nil:
		return nil, kafka.Errorf(kafka.ReassignmentInProgress, "Topic '%s' is not frozen yet.", m.topic.Name)
	case !slices.Equal(ends, rq.Ends):
		return nil, kafka.Errorf(kafka.InvalidRequest, "Topic '%s' was frozen at other ends than the mirror has reached.", m.topic.Name)
	}
	stepped, err := r.stepTurn(ctx, m, mirror.HandOverAsked, nil)
	if err != nil {
		return nil, err
	}
	if !stepped {
		// Somebody was quicker: an operator's failover, or this very question.
		q.img = ls.env.Metadata.Image()
		now, _, err := ls.frozenTopic(q, rq.Topic)
		if err != nil {
			return nil, err
		}
		if err := plan.MayHandOver(sideFacts(now), rq.Turn); err != nil {
			return nil, err
		}
		if now.state != mirror.HandedOver {
			return nil, kafka.Errorf(kafka.ReassignmentInProgress, "Topic '%s' changed meanwhile.", m.topic.Name)
		}
	}
	poke(r.turns)
	return nil, nil
}

// turnIntoMirror makes the frozen partitions mirrors at their ends, which the new source stopped at as well.
func (r *running) turnIntoMirror(ctx context.Context, img *meta.Image, m topicMirror) error {
	states, link := img.Partitions[m.topic.ID], img.Links[r.id]
	if states == nil || link == nil {
		return nil
	}
	ends := make([]kafka.Offset, len(states.List))
	for p, s := range states.List {
		if s.Frozen != nil {
			ends[p] = s.Frozen.End
		}
	}
	return r.ls.env.Partitions.FrozenBecomeMirror(ctx, m.topic.ID, m.rec.Turn.ID, link.RemoteClusterID, ends)
}

// holding lists the transactions of this cluster that hold a topic.
func (ls *Links) holding(topic string) []OpenHere {
	if ls.env.Transactions == nil {
		return nil
	}
	var list []OpenHere
	for _, open := range ls.env.Transactions.Holding(topic) {
		list = append(list, OpenHere{TransactionalID: open.TransactionalID, Producer: open.Producer})
	}
	return list
}

// OpenHere is a transaction of this cluster's own coordinator.
type OpenHere struct {
	TransactionalID string
	Producer        kafka.ProducerID
}
