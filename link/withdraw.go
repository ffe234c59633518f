package link

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// A pledge whose restore never ends: its cluster is gone. What it keeps from happening, and the order that takes it back.

// pledgedNames lists the topics of a link that are pledged to a restore, by name.
func pledgedNames(img *meta.Image, link kafka.TopicID) []string {
	var names []string
	for _, m := range mirrorsOf(img, link) {
		if m.rec.Pledge != nil {
			names = append(names, m.topic.Name)
		}
	}
	return names
}

// CheckDeletion says why a topic is not deleted: it is pledged to a restore, whose side would have nothing left to follow. It asks that
// side first whether the restore is over. Forbids is the same without asking, for the moment of the deletion itself.
func (ls *Links) CheckDeletion(ctx context.Context, id kafka.TopicID) error {
	img := ls.env.Metadata.Image()
	rec, topic := img.Mirrors[id], img.Topics[id]
	if rec == nil || rec.Pledge == nil || topic == nil {
		return nil
	}
	return Forbids(ls.checkPledges(ctx, img, rec.Link, []string{topic.Name}), id)
}

// Forbids says why a topic must not be deleted, as things are stored.
func Forbids(img *meta.Image, id kafka.TopicID) error {
	rec, topic := img.Mirrors[id], img.Topics[id]
	if rec == nil || rec.Pledge == nil || topic == nil {
		return nil
	}
	return kafka.Errorf(kafka.InvalidRequest, "%s", sideFacts(newTopicMirror(rec, topic)).Bound())
}

// WithdrawnPledge is a pledge that a forced failover takes back, or would take back.
type WithdrawnPledge struct {
	Restore string // the restore's id
	Cluster string // which restores its topic from this one
	Topic   string // that topic
	SinceMs int64  // Unix ms at which the pledge was given
	Says    string // what that cluster says of the restore now: link/plan.Word's name, SILENT where it does not answer
	Text    string // what follows
}

// withdrawal is what becomes of a restore whose pledge is taken back.
func withdrawal(p *meta.Pledge, word plan.Word, err error) *WithdrawnPledge {
	says := "says that the restore is " + word.String()
	if word == plan.Silent {
		says = fmt.Sprintf("does not answer (%v)", err)
	}
	return &WithdrawnPledge{
		Restore: p.ID, Cluster: p.Cluster, Topic: p.Name, SinceMs: p.SinceMs, Says: word.String(),
		Text: fmt.Sprintf("The pledge to the restore of topic '%s' of cluster %s is taken back; that cluster %s. This topic may be "+
			"restored, reversed and deleted again. "+
			"Should cluster %s come back, the restore gets no pledge: if it has cut nothing off yet, its topic stays read-only until it "+
			"is failed over or restored anew there; if it has, it goes on as a mirror of this topic.",
			p.Name, p.Cluster, says, p.Cluster),
	}
}

// withdraws reports whether the order takes back the pledge of an ordinary topic: all that a forced failover does to one.
func (o *ordering) withdraws(m topicMirror) bool {
	return o.event == mirror.FailoverForced && m.state == mirror.Stopped && m.rec.Pledge != nil
}

// askPledged asks the clusters of the restores whose pledges the order takes back, so that its answer says whether they are alive.
func (o *ordering) askPledged(ctx context.Context, img *meta.Image, names []string) {
	r := o.ls.runningOf(o.link.ID)
	if r == nil || o.event != mirror.FailoverForced {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	var mu sync.Mutex // guards o.withdrawn
	var g errgroup.Group
	g.SetLimit(asksAtOnce)
	for _, name := range names {
		m, err := mirrorNamed(img, o.link, name)
		if err != nil || !o.withdraws(m) {
			continue
		}
		g.Go(func() error {
			word, err := r.askRestore(ctx, m.rec.Pledge)
			mu.Lock()
			defer mu.Unlock()
			o.withdrawn[m.topic.ID] = withdrawal(m.rec.Pledge, word, err)
			return nil
		})
	}
	// The functions return no error: a silent cluster is an answer.
	_ = g.Wait()
}

// takeBack removes the pledge of a record and remembers it, so that the restore gets no other.
func takeBack(rec *meta.Mirror, nowMs int64) {
	taken := *rec.Pledge
	taken.SinceMs = nowMs
	rec.Pledge, rec.Withdrawn = nil, &taken
}

// bound is why a link is not deleted whose topics are pledged: the restores that follow them go over it.
func bound(link string, pledged []string) error {
	return &Error{
		Kind: InUse,
		Text: fmt.Sprintf("Cluster link '%s' cannot be deleted: %d of its topics are pledged to restores on the other cluster: %s.", link,
			len(pledged), some(pledged)),
		Hint: "Wait until those are done; if that cluster is gone for good, delete with force, which takes the pledges back.",
	}
}

// withdrawAll takes the pledges of all topics of a link back.
func (ls *Links) withdrawAll(ctx context.Context, link *meta.Link) error {
	img := ls.env.Metadata.Image()
	var ids []kafka.TopicID
	for _, name := range pledgedNames(img, link.ID) {
		ids = append(ids, img.TopicIDs[name])
	}
	now := ls.env.Now().UnixMilli()
	err := ls.updateMirrors(ctx, ids, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.Pledge == nil || rec.Link != link.ID {
			return false
		}
		takeBack(rec, now)
		return true
	})
	if err != nil {
		return internal("take the pledges back", err)
	}
	return nil
}
