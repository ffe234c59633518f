package link

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// The side that another one is restored from: it pledges its topic and shows its history.

// namedTopic finds the one topic that a question names.
func (ls *Links) namedTopic(q question) (*meta.Topic, error) {
	if len(q.Topics) != 1 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "%s names %d topics, want one.", q.Ask.Key.Name(), len(q.Topics))
	}
	topic := q.img.Topics[q.img.TopicIDs[q.Topics[0]]]
	if topic == nil || topic.Name != q.Topics[0] {
		return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "Cluster %s has no topic '%s'.", q.img.Cluster.ID, q.Topics[0])
	}
	return topic, nil
}

// pledgeFacts is a topic in link/plan's words, asked about over a link. kin is what was learnt of its kin beside what is stored.
func pledgeFacts(img *meta.Image, topic *meta.Topic, link kafka.TopicID, kin []meta.Kin) plan.PledgeFacts {
	rec := img.Mirrors[topic.ID]
	f := plan.PledgeFacts{SideFacts: plan.SideFacts{Topic: topic.Name, State: mirror.Stopped},
		Kin: planKin(withKin(kinOf(img, topic), kin...))}
	if rec != nil {
		f.SideFacts = sideFacts(newTopicMirror(rec, topic))
		if rec.Withdrawn != nil {
			f.Withdrawn = rec.Withdrawn.ID
		}
	}
	if origin := topic.Origin; rec == nil && origin != nil { // its link is gone
		if origin.Withdrawn != nil {
			f.Withdrawn = origin.Withdrawn.ID
		}
		l := img.Links[link]
		if f.Of = origin.Cluster; l != nil && l.RemoteClusterID == origin.Cluster {
			f.Recorded, f.SourceTopicID, f.SourceCluster = true, origin.Topic, origin.Cluster
		}
		return f
	}
	if rec == nil || rec.Link != link {
		if rec != nil && img.Links[rec.Link] != nil {
			f.Of = img.Links[rec.Link].RemoteClusterID
		}
		return f
	}
	f.Recorded, f.SourceTopicID = true, rec.SourceTopicID
	if l := img.Links[link]; l != nil {
		f.SourceCluster = l.RemoteClusterID
	}
	return f
}

// answerPledge gives a pledge: by compare and set on the mirror's record (rule T1).
func (ls *Links) answerPledge(ctx context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodePledgeRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	topic, err := ls.namedTopic(q)
	if err != nil {
		return nil, err
	}
	img := ls.awaitStops(ctx, q.Link, q.Topics)
	now, asking := ls.env.Now().UnixMilli(), meta.Kin{Cluster: q.Caller, Topic: rq.Topic}
	kin := ls.learnKin(ctx, img, topic, asking)
	err = ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		kept := img.Topics[topic.ID]
		if kept == nil {
			return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "Topic '%s' was deleted.", topic.Name)
		}
		facts := pledgeFacts(img, kept, q.Link, kin)
		if err := plan.MayPledge(facts, rq.Turn, rq.Topic, q.Caller); err != nil {
			return nil, err
		}
		rec := img.Mirrors[topic.ID]
		if rq.Validate || rec != nil && rec.Pledge != nil && rec.Pledge.ID == rq.Turn {
			return nil, nil
		}
		changes := []meta.Change{meta.KeepLink(q.Link)}
		if rec == nil {
			rec = recordOf(kept, q.Link, now)
		}
		if !facts.Direct(rq.Topic, q.Caller) && facts.Related(rq.Topic, q.Caller) {
			var err error
			if rec, err = rehomed(img, kept, rec, asking, rq.Name, q.Link, kin); err != nil {
				return nil, err
			}
		}
		next := *rec
		next.Pledge = &meta.Pledge{ID: rq.Turn, Topic: rq.Topic, Name: rq.Name, Cluster: q.Caller, SinceMs: now}
		return append(changes, meta.PutMirror(&next)), nil
	})
	if err != nil {
		return nil, err
	}
	img = ls.env.Metadata.Image()
	answer := peer.PledgeAnswer{Topic: topic.ID, Partitions: topic.Partitions}
	switch rec := img.Mirrors[topic.ID]; {
	case rec != nil:
		answer.StoppedMs = rec.StateMs
	case topic.Origin != nil:
		answer.StoppedMs = topic.Origin.StoppedMs
	}
	v := config.Topic.Values(topic.Configs)
	for _, policy := range v.List("cleanup.policy") {
		answer.Compacted = answer.Compacted || policy == "compact"
	}
	answer.DeleteRetentionMs = v.Int("delete.retention.ms")
	return answer.Encode(), nil
}

// recordOf is the record of a mirror that was stopped over a link that is gone, made anew over another link to the same cluster.
func recordOf(topic *meta.Topic, link kafka.TopicID, nowMs int64) *meta.Mirror {
	o := topic.Origin
	return &meta.Mirror{
		Topic: topic.ID, Link: link, SourceTopic: o.Name, SourceTopicID: o.Topic, State: mirror.Stopped.String(), StateMs: o.StoppedMs,
		Turns: nowMs, TurnsStopped: nowMs, Withdrawn: o.Withdrawn, Kin: o.Kin, // counted from the time on, no turn's id is given twice
	}
}

// answerRelease ends a pledge; one that is not there is ended already.
func (ls *Links) answerRelease(ctx context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodePledgeRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	topic, err := ls.namedTopic(q)
	if err != nil {
		return nil, err
	}
	return nil, ls.dropPledge(ctx, topic.ID, rq.Turn)
}

// dropPledge removes the pledge to a restore.
func (ls *Links) dropPledge(ctx context.Context, id kafka.TopicID, turn string) error {
	err := ls.updateMirrors(ctx, []kafka.TopicID{id}, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.Pledge == nil || rec.Pledge.ID != turn {
			return false
		}
		rec.Pledge = nil
		return true
	})
	if err != nil {
		return fmt.Errorf("end a pledge: %w", err)
	}
	return nil
}

// checkPledges asks whether the restores are alive to which topics are pledged that an order names, and ends the pledges of those that
// are over: a side that gave its topic back unheard must not block this one for ever. It answers the image to judge by.
func (ls *Links) checkPledges(ctx context.Context, img *meta.Image, link kafka.TopicID, names []string) *meta.Image {
	r := ls.runningOf(link)
	if r == nil {
		return img
	}
	ctx, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(asksAtOnce)
	for _, name := range names {
		rec := img.Mirrors[img.TopicIDs[name]]
		if rec == nil || rec.Pledge == nil || rec.Link != link {
			continue
		}
		g.Go(func() error {
			word, _ := r.askRestore(ctx, rec.Pledge)
			if word == plan.Live || word == plan.Silent {
				return nil // it stands, as far as is known here
			}
			if err := ls.dropPledge(ctx, rec.Topic, rec.Pledge.ID); err != nil {
				ls.env.Logger.Warn("a pledge that is over stays for now", "topic", name, "restore", rec.Pledge.ID, "error", err)
			}
			return nil
		})
	}
	// The functions return no error: each pledge concerns its own topic.
	_ = g.Wait()
	return ls.env.Metadata.Image()
}

// askRestore asks the cluster that a topic is pledged to how its restore stands; err says why it is silent.
func (r *running) askRestore(ctx context.Context, pledge *meta.Pledge) (plan.Word, error) {
	rq := peer.ReverseRequest{Turn: pledge.ID, Topic: pledge.Topic}
	answer, err := ask(ctx, r, peer.DescribeReverse, pledge.Name, rq.Encode(), peer.DecodeReverseAnswer)
	if err != nil {
		return plan.Silent, err
	}
	return plan.ParseWord(answer.Word), nil
}

// lineageBytes bounds the histories in one answer.
const lineageBytes = 2 << 20

// answerLineage shows the histories of partitions, as many as fit.
func (ls *Links) answerLineage(_ context.Context, q question) ([]byte, error) {
	rq, err := peer.DecodeLineageRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	topic, err := ls.namedTopic(q)
	if err != nil {
		return nil, err
	}
	answer := peer.LineageAnswer{Partitions: topic.Partitions}
	size := 0
	for p := rq.First; p < topic.Partitions && size < lineageBytes; p++ {
		below := kafka.Offset(0)
		if i := int(p - rq.First); i < len(rq.Below) {
			below = rq.Below[i]
		}
		log, err := ls.wireLog(kafka.PartitionID{Topic: topic.ID, Partition: p}, below)
		if err != nil {
			return nil, err
		}
		answer.Logs = append(answer.Logs, log)
		size += log.Size()
	}
	return answer.Encode(), nil
}

// wireLog is the history of a partition of this cluster.
func (ls *Links) wireLog(id kafka.PartitionID, below kafka.Offset) (peer.Log, error) {
	h, err := ls.env.Partitions.History(id, below)
	if err != nil {
		return peer.Log{}, err
	}
	log := peer.Log{
		Start: h.Start, End: h.End, CleanedTo: h.CleanedTo, Stop: kafka.NoOffset, Epochs: h.Epochs,
		Born: len(h.Entry.Lineage) > 0 || h.Entry.Stop != nil || h.Entry.Role == meta.RoleMirror,
	}
	if h.Entry.Stop != nil {
		log.Stop = h.Entry.Stop.Offset
	}
	for _, e := range h.Entry.Lineage {
		log.Entries = append(log.Entries, peer.Minted{Start: e.Start, Epoch: e.Epoch, Cluster: e.Cluster})
	}
	for _, m := range h.Marks {
		log.Marks = append(log.Marks, peer.Mark{Base: m.Base, Next: m.Next, Epoch: m.Epoch, CRC: m.CRC})
	}
	return log, nil
}
