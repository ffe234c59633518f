package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// askPeer asks the other cluster about the orders that it takes part in: whether it would let a topic be reversed, and
// whether a topic that was handed over may be failed over (rule R2). What it has against them is in refusal; transactions that it
// would abort are added to open.
func (o *ordering) askPeer(ctx context.Context, img *meta.Image, names []string, open map[kafka.TopicID][]OpenTransaction) {
	r := o.ls.runningOf(o.link.ID)
	if r == nil || o.event != mirror.ReverseAsked && o.event != mirror.FailoverAsked {
		return
	}
	var mu sync.Mutex // guards open, o.dead and o.refusal
	var g errgroup.Group
	g.SetLimit(asksAtOnce)
	for _, name := range names {
		m, err := mirrorNamed(img, o.link, name)
		if err != nil || o.allowed(m) != nil && m.state != mirror.HandedOver {
			continue
		}
		if o.event == mirror.FailoverAsked && m.state != mirror.HandedOver {
			continue
		}
		g.Go(func() error {
			found, dead, err := o.askAbout(ctx, r, m)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.refusal[m.topic.ID] = err
			}
			o.dead[m.topic.ID] = dead
			if len(found) > 0 {
				open[m.topic.ID] = found
			}
			return nil
		})
	}
	// The functions return no error: each refusal concerns its own topic.
	_ = g.Wait()
}

func (o *ordering) askAbout(ctx context.Context, r *running, m topicMirror) (open []OpenTransaction, dead bool, err error) {
	if o.event == mirror.ReverseAsked {
		open, err = r.checkReverse(ctx, m)
		return open, false, err
	}
	if o.dry {
		return nil, false, nil
	}
	asked, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	switch word, _, err := r.askReverse(asked, m, true); word {
	case plan.Dead:
		return nil, true, nil
	case plan.Silent:
		return nil, false, fmt.Errorf("Topic '%s' was handed over, and cluster %s does not say whether it is writable there: %w. "+
			"Force the failover if that cluster is gone.", m.topic.Name, o.link.RemoteClusterID, err)
	default:
		return nil, false, fmt.Errorf("Topic '%s' was handed over, and is or may be writable on cluster %s (it says %v). Force the "+
			"failover to write on both sides.", m.topic.Name, o.link.RemoteClusterID, word)
	}
}

// inService says which partition of a topic cannot be turned because it is out of service on this broker: its end is not known, and
// the topic would be read-only on both sides until somebody repairs it.
func (r *running) inService(topic *meta.Topic) error {
	for p := range topic.Partitions {
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: topic.ID, Partition: p})
		if part == nil {
			continue
		}
		if err := part.Err(); err != nil {
			return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' cannot be reversed now: partition %d is out of service on cluster %s: %v",
				topic.Name, p, r.ls.env.Metadata.Image().Cluster.ID, err)
		}
	}
	return nil
}

// checkReverse asks the source what it would say to a reversal.
func (r *running) checkReverse(ctx context.Context, m topicMirror) ([]OpenTransaction, error) {
	if err := r.inService(m.topic); err != nil {
		return nil, err
	}
	rq := peer.FreezeRequest{Turn: plan.TurnID(m.topic.ID, m.rec.Turns+1), Topic: m.rec.SourceTopicID, Mirror: m.topic.ID,
		MirrorName: m.topic.Name, Validate: true}
	answer, err := ask(ctx, r, peer.Freeze, m.rec.SourceTopic, rq.Encode(), peer.DecodeFreezeAnswer)
	if err != nil {
		return nil, fmt.Errorf("Topic '%s' cannot be reversed now: %s", m.topic.Name, peerWords(err))
	}
	if answer.Partitions != m.topic.Partitions {
		return nil, fmt.Errorf("Topic '%s' cannot be reversed now: the source topic has %d partitions, the mirror %d.", m.topic.Name,
			answer.Partitions, m.topic.Partitions)
	}
	var open []OpenTransaction
	for _, t := range answer.Open {
		open = append(open, OpenTransaction{Partition: -1, Producer: t.Producer, From: kafka.NoOffset, ID: t.TransactionalID})
	}
	return open, nil
}

// words is what the other cluster said, or why it said nothing, as a sentence.
func words(err error) string {
	var said *kafka.Error
	switch {
	case errors.Is(err, peer.ErrNotHawser):
		return "the source cluster is no hawser, and only two of them can change places. Use promote or failover."
	case errors.As(err, &said) && faultOf(err) == peerRefused:
		return said.Message
	}
	return "the source cluster cannot be asked: " + err.Error() + "."
}

// peerWords is words for a refusal of the other cluster: what it says of its topic must not be taken for what this one says of its own.
func peerWords(err error) string {
	if faultOf(err) != peerRefused {
		return words(err)
	}
	return "the other cluster says: " + words(err)
}

// orderWait bounds how long an order waits for what is left to be done of the turn before.
const orderWait = 5 * time.Second

// awaitTurns waits for a moment for topics whose restore is shown as done already while its pledge is given back, or whose partitions
// just change their roles: whoever has seen ACTIVE may reverse. An order that finds the other cluster out of reach is refused after that.
func (ls *Links) awaitTurns(ctx context.Context, link kafka.TopicID, names []string, event mirror.Event) {
	unfinished := func(img *meta.Image) bool {
		for _, name := range names {
			rec := img.Mirrors[img.TopicIDs[name]]
			if rec == nil || rec.Link != link || rec.Turn == nil || rec.State != mirror.Active.String() && rec.State != mirror.Stopped.String() {
				continue
			}
			if plan.MayTurn(name, event, frozenFor(img, rec), rec.Turn.Release) != nil {
				return true
			}
		}
		return false
	}
	r := ls.runningOf(link)
	if r == nil || !unfinished(ls.env.Metadata.Image()) {
		return
	}
	poke(r.turns)
	ctx, cancel := context.WithTimeout(ctx, orderWait)
	defer cancel()
	ls.env.Metadata.Watch(ctx, func(_, img *meta.Image) {
		if !unfinished(img) {
			cancel()
		}
	})
}

// awaitStops waits for a moment for topics that are shown as STOPPED already, while that is being stored (case C53): whoever has
// seen it may give the next order. It answers the image to judge by.
func (ls *Links) awaitStops(ctx context.Context, link kafka.TopicID, names []string) *meta.Image {
	stopping := func(img *meta.Image) bool {
		for _, name := range names {
			rec := img.Mirrors[img.TopicIDs[name]]
			if rec != nil && rec.Link == link && rec.State == mirror.Stopping.String() {
				return true
			}
		}
		return false
	}
	if img := ls.env.Metadata.Image(); !stopping(img) {
		return img
	}
	ctx, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	ls.env.Metadata.Watch(ctx, func(_, img *meta.Image) {
		if !stopping(img) {
			cancel()
		}
	})
	return ls.env.Metadata.Image()
}
