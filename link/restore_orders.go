package link

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// plannedRestore is what a restore would do to a topic, as things are now.
type plannedRestore struct {
	source   string // the other side's topic
	sourceID kafka.TopicID
	cuts     []plan.Cut
	ends     []kafka.Offset
	groups   []GroupCut
	open     []OpenTransaction
}

// find finds the topic that an order means. A restore is for what the other side mirrored: an ordinary topic here, with a
// record or without.
func (o *ordering) find(img *meta.Image, name string) (topicMirror, error) {
	m, err := mirrorNamed(img, o.link, name)
	if err == nil {
		return m, nil
	}
	topic := img.Topics[img.TopicIDs[name]]
	if topic == nil || topic.Name != name {
		return m, err
	}
	if o.event != mirror.RestoreAsked {
		if orDefault(o.link.Configs, keyMode, modeDestination) == modeBidirectional && img.Mirrors[topic.ID] == nil {
			return m, fmt.Errorf("%w It is an ordinary topic here: where cluster %s mirrors it, give the order there.", err, o.link.RemoteClusterID)
		}
		return m, err
	}
	rec := img.Mirrors[topic.ID]
	if rec == nil {
		// An earlier restore that nothing came of took its record with it. Counted from the time on, no id is given twice.
		rec = &meta.Mirror{Topic: topic.ID, Link: o.link.ID, State: mirror.Stopped.String(), Turns: o.ls.env.Now().UnixMilli()}
		return topicMirror{rec: rec, topic: topic, state: mirror.Stopped}, nil
	}
	if other := newTopicMirror(rec, topic); other.state == mirror.Stopped {
		return other, nil // of another link, and over
	}
	return m, fmt.Errorf("Topic '%s' is a mirror of another cluster link.", name)
}

// restorable lists the topics that a pattern means in a restore: ordinary ones, whether they ever were mirrors or not. Those that the
// other side never mirrored are left out once it was asked.
func restorable(img *meta.Image, link kafka.TopicID, re *regexp.Regexp) []string {
	var names []string
	for id, topic := range img.Topics {
		rec := img.Mirrors[id]
		if rec != nil && rec.Link != link || kafka.IsInternal(topic.Name) || strings.HasPrefix(topic.Name, quarantinePrefix) ||
			!re.MatchString(topic.Name) {
			continue
		}
		if rec == nil || newTopicMirror(rec, topic).state == mirror.Stopped {
			names = append(names, topic.Name)
		}
	}
	slices.Sort(names)
	return names
}

// planRestores asks the other side what a restore would cut off, for each topic that it may be given to.
func (o *ordering) planRestores(ctx context.Context, img *meta.Image, names []string) {
	r := o.ls.runningOf(o.link.ID)
	if r == nil || o.event != mirror.RestoreAsked {
		return
	}
	var mu sync.Mutex // guards o.restores, o.strangers and o.refusal
	var g errgroup.Group
	g.SetLimit(asksAtOnce)
	for _, name := range names {
		m, err := o.find(img, name)
		if err != nil || o.allowed(m) != nil || kafka.IsInternal(name) {
			continue
		}
		g.Go(func() error {
			found, err := r.planRestore(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.refusal[m.topic.ID] = fmt.Errorf("Topic '%s' cannot be restored now: %s", name, peerWords(err))
				o.strangers[name] = faultOf(err) == peerRefused && kafka.CodeOf(err) == kafka.UnknownTopicOrPartition
				return nil
			}
			o.restores[m.topic.ID] = found
			return nil
		})
	}
	// The functions return no error: each refusal concerns its own topic.
	_ = g.Wait()
}

// planRestore finds the other side's topic and what would be cut off here.
func (r *running) planRestore(ctx context.Context, m topicMirror) (*plannedRestore, error) {
	pledged, source, err := r.findMirror(ctx, m)
	if err != nil {
		return nil, err
	}
	rec := *m.rec
	rec.SourceTopic, rec.SourceTopicID = source, pledged.Topic
	m.rec = &rec
	cuts, _, err := r.findCuts(ctx, m, pledged, nil)
	if err != nil {
		return nil, err
	}
	found := &plannedRestore{source: source, sourceID: pledged.Topic, cuts: cuts}
	groups := make([]kafka.Offset, len(cuts))
	for p, c := range cuts {
		groups[p] = c.Groups
		end := c.Tail
		if part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: int32(p)}); part != nil {
			end = max(end, part.Offsets().LogEnd)
		}
		found.ends = append(found.ends, end)
	}
	for name, list := range r.ls.env.Commits.Committed(m.topic.Name) {
		for _, c := range list {
			if p := c.TopicPartition.Partition; int(p) < len(groups) && c.Offset > groups[p] {
				found.groups = append(found.groups, GroupCut{Group: name, Partition: p, From: c.Offset, To: groups[p]})
			}
		}
	}
	slices.SortFunc(found.groups, func(a, b GroupCut) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	for _, open := range r.ls.holding(m.topic.Name) {
		found.open = append(found.open, OpenTransaction{Partition: -1, Producer: open.Producer, From: kafka.NoOffset, ID: open.TransactionalID})
	}
	return found, nil
}

// findMirror finds the topic that mirrored this one: under the name of the record's other side, else with the prefix of the other half.
func (r *running) findMirror(ctx context.Context, m topicMirror) (peer.PledgeAnswer, string, error) {
	rq := peer.PledgeRequest{Turn: plan.TurnID(m.topic.ID, m.rec.Turns+1), Topic: m.topic.ID, Name: m.topic.Name, Validate: true}
	var names []string
	if m.rec.SourceTopic != "" && m.rec.Link == r.id {
		names = append(names, m.rec.SourceTopic)
	}
	src, err := r.source()
	if err != nil {
		return peer.PledgeAnswer{}, "", err
	}
	r.mu.Lock()
	rec := r.rec
	r.mu.Unlock()
	half, err := r.ls.hello(ctx, src, rec)
	if err != nil {
		return peer.PledgeAnswer{}, "", err
	}
	if half.Half == nil {
		return peer.PledgeAnswer{}, "", kafka.Errorf(kafka.ResourceNotFound, "The other cluster has no half of cluster link '%s'.", r.name)
	}
	names = append(names, half.Half.Prefix+m.topic.Name)
	var answer peer.PledgeAnswer
	for _, name := range slices.Compact(names) {
		if answer, err = ask(ctx, r, peer.Pledge, name, rq.Encode(), peer.DecodePledgeAnswer); err == nil {
			return answer, name, nil
		}
	}
	return answer, "", err
}

// showRestore puts what was planned into an outcome.
func (o *ordering) showRestore(id kafka.TopicID, out *Outcome) {
	found := o.restores[id]
	if found == nil {
		return
	}
	var sum int64
	for p, c := range found.cuts {
		records := int64(found.ends[p] - c.Tail)
		sum += records
		out.Parts = append(out.Parts, Truncation{Partition: int32(p), TruncatedTo: c.Tail, Records: records, FullCopy: c.Full(), Why: c.Why})
	}
	out.Truncated = &sum
	out.Groups, out.Open = found.groups, found.open
}

// storeRestores stores PENDING_SETUP_FOR_RESTORE for every topic, each in a transaction of its own: a topic that never was a mirror gets a
// record for it.
func (o *ordering) storeRestores(ctx context.Context, nowMs int64) error {
	for _, id := range o.ids {
		found := o.restores[id]
		if found == nil {
			continue
		}
		var told []event.Event
		err := o.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			old, rec, err := o.restoreRecord(img, id, found, nowMs)
			if told = told[:0]; err != nil || rec == nil {
				return nil, err
			}
			told = append(told, stateChanged(img, old, rec))
			return []meta.Change{meta.PutMirror(rec), meta.KeepLink(o.link.ID)}, nil
		})
		if err == nil {
			for _, e := range told {
				o.ls.env.Events.Emit(e)
			}
		}
		var given *Error
		switch {
		case errors.As(err, &given):
			out := o.outcomes[o.ls.nameOf(id)]
			if out == nil {
				continue
			}
			out.Code, out.Text = 400, given.Text
		case err != nil:
			return internal("store the order", err)
		}
	}
	o.ls.env.Logger.Info("order stored", "link", o.link.Name, "order", string(o.verb), "topics", len(o.ids),
		"first", strings.Join(o.firstNames(), ","))
	return nil
}

// restoreRecord is the record of a topic whose restore begins, and the one before; nil where it has begun already.
func (o *ordering) restoreRecord(img *meta.Image, id kafka.TopicID, found *plannedRestore, nowMs int64) (old, rec *meta.Mirror, err error) {
	topic := img.Topics[id]
	if topic == nil || img.Links[o.link.ID] == nil {
		return nil, nil, &Error{Kind: NotFound, Text: "The topic, or the link, was deleted."}
	}
	m, err := o.find(img, topic.Name)
	if err == nil {
		err = o.allowed(m)
	}
	if err != nil {
		return nil, nil, &Error{Kind: WrongState, Text: err.Error()}
	}
	next, _, err := mirror.Step(m.state, mirror.RestoreAsked)
	if err != nil {
		return nil, nil, &Error{Kind: WrongState, Text: err.Error()}
	}
	if next == m.state {
		return nil, nil, nil
	}
	now := *m.rec
	now.Link, now.SourceTopic, now.SourceTopicID = o.link.ID, found.source, found.sourceID
	now.State, now.StateMs, now.Paused, now.Error, now.ErrorText = next.String(), nowMs, false, "", ""
	now.Kin = withoutKin(kinOf(img, topic), o.link.RemoteClusterID, found.sourceID)
	remember(&now, m.rec)
	now.Turn = newTurn(&now, nowMs)
	now.Turn.Restore, now.Turn.Release, now.Turn.Plain = true, true, img.Mirrors[id] == nil
	if m.state == mirror.PendingMirror {
		now.Turn.From, now.Turn.Plain = m.rec.Turn.ID, m.rec.Turn.Plain
	}
	now.Turn.Paused = o.verb == TruncateAndRestorePaused
	return m.rec, &now, nil
}

func (ls *Links) nameOf(id kafka.TopicID) string {
	if topic := ls.env.Metadata.Image().Topics[id]; topic != nil {
		return topic.Name
	}
	return ""
}
