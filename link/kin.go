package link

import (
	"context"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// Which topics have one history. A mirror's log is its source's as far as it goes, and the source's may be that of a
// topic of a third cluster. Each of them may be restored from the mirror once that is STOPPED, also where the clusters
// between are gone (rules T6, T10).

// kinOf lists the topics whose history is that of a topic of this cluster: what it mirrors or mirrored, and what is remembered beside.
func kinOf(img *meta.Image, topic *meta.Topic) []meta.Kin {
	var list []meta.Kin
	if rec := img.Mirrors[topic.ID]; rec != nil {
		if link := img.Links[rec.Link]; link != nil {
			list = withKin(list, meta.Kin{Cluster: link.RemoteClusterID, Topic: rec.SourceTopicID})
		}
		return withKin(list, rec.Kin...)
	}
	if o := topic.Origin; o != nil { // its link is gone
		list = withKin(list, meta.Kin{Cluster: o.Cluster, Topic: o.Topic})
		list = withKin(list, o.Kin...)
	}
	return list
}

// withKin adds to a list what is not there yet, as long as there is room. What has no id, or no cluster, cannot be told from others.
func withKin(list []meta.Kin, more ...meta.Kin) []meta.Kin {
	for _, one := range more {
		if one.Cluster != "" && !one.Topic.IsZero() && len(list) < meta.KinMax && !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// withoutKin leaves one out.
func withoutKin(list []meta.Kin, cluster string, topic kafka.TopicID) []meta.Kin {
	return slices.DeleteFunc(list, func(one meta.Kin) bool { return one == meta.Kin{Cluster: cluster, Topic: topic} })
}

func planKin(list []meta.Kin) []plan.Kin {
	out := make([]plan.Kin, len(list))
	for i, one := range list {
		out[i] = plan.Kin(one)
	}
	return out
}

// answerKin lists the topics whose history is that of one of this cluster's.
func (ls *Links) answerKin(_ context.Context, q question) ([]byte, error) {
	topic, err := ls.namedTopic(q)
	if err != nil {
		return nil, err
	}
	answer := peer.KinAnswer{Topic: topic.ID}
	for _, one := range kinOf(q.img, topic) {
		answer.Kin = append(answer.Kin, peer.Kin(one))
	}
	return answer.Encode(), nil
}

// askKin asks which topics' history is that of a topic of the other cluster. One that does not say is no error: nothing
// more is known then than that topic itself.
func (r *running) askKin(ctx context.Context, topic string, id kafka.TopicID) []meta.Kin {
	if id.IsZero() || r.isForeign() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	body, err := r.Call(ctx, peer.Ask{Key: peer.DescribeKin, Topics: []string{topic}})
	var answer peer.KinAnswer
	if err == nil {
		answer, err = peer.DecodeKinAnswer(body)
	}
	if err != nil {
		if faultOf(err) != peerNotHawser {
			r.ls.env.Logger.Info("what a source topic was copied from is not known", "link", r.name, "topic", topic, "error", err)
		}
		return nil
	}
	if answer.Topic != id {
		return nil // made again since
	}
	var list []meta.Kin
	for _, one := range answer.Kin {
		list = withKin(list, meta.Kin(one))
	}
	return list
}

// isForeign reports whether the present source has said that it is no hawser: it is not asked what only one answers.
func (r *running) isForeign() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src != nil && r.foreign == r.src
}

// learnKin asks the source of a mirror for its kin, where what is stored does not say that a topic is of them: a mirror
// that was made before its source knew, or by an older version.
func (ls *Links) learnKin(ctx context.Context, img *meta.Image, topic *meta.Topic, wanted meta.Kin) []meta.Kin {
	rec := img.Mirrors[topic.ID]
	if rec == nil || slices.Contains(kinOf(img, topic), wanted) {
		return nil
	}
	r := ls.runningOf(rec.Link)
	if r == nil {
		return nil
	}
	return r.askKin(ctx, rec.SourceTopic, rec.SourceTopicID)
}

// rehomed is the record of a STOPPED mirror that becomes one of a topic of its kin, over another link: of what is to be
// restored from it. What it mirrored before stays among its kin.
func rehomed(img *meta.Image, topic *meta.Topic, rec *meta.Mirror, source meta.Kin, name string, link kafka.TopicID,
	kin []meta.Kin) (*meta.Mirror, error) {
	if rec.Turn != nil && (rec.Turn.Release || frozenFor(img, rec)) {
		return nil, kafka.Errorf(kafka.ReassignmentInProgress,
			"Topic '%s' has still to finish a reversal or restore with another cluster: try again in a moment, or once that cluster can "+
				"be reached.", topic.Name)
	}
	next := *rec
	remember(&next, rec)
	next.Link, next.SourceTopic, next.SourceTopicID, next.Turn = link, name, source.Topic, nil
	next.Kin = withoutKin(withKin(kinOf(img, topic), kin...), source.Cluster, source.Topic)
	return &next, nil
}
