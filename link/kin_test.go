package link

import (
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// chained makes c's topic "t" a mirror of b's, which is one of a topic of a third cluster. It answers that topic's kin.
func chained(t *testing.T) (b, c *rig, first meta.Kin) {
	t.Helper()
	b, c = newRig(t), newSerialRig(t)
	b.source.topic("t", 1)
	b.link("l")
	b.mirror("l", "t")
	own := b.meta.Image().TopicByName("t")
	c.source.topic("t", 1)
	c.source.change(func(s *fakeSource) {
		s.id, s.other = b.meta.Image().Cluster.ID, b.links
		topic := s.topics["t"]
		topic.ID = own.ID
		s.topics["t"] = topic
	})
	c.link("l")
	c.mirror("l", "t")
	return b, c, meta.Kin{Cluster: b.source.id, Topic: b.meta.Image().Mirrors[own.ID].SourceTopicID}
}

func (r *rig) change(topic string, change func(*meta.Mirror)) {
	r.t.Helper()
	rec := *r.record(topic)
	change(&rec)
	if err := r.meta.Update(r.t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutMirror(&rec)}, nil }); err != nil {
		r.t.Fatal(err)
	}
}

// Rule T10: whose copy a mirror of a mirror is, is remembered when it is made, or else asked when it matters. Then it pledges itself to the
// first topic as to its own source, over the link with that cluster.
func TestT10_AMirrorOfAMirrorPledgesItself(t *testing.T) {
	b, c, first := chained(t)
	if kin := c.record("t").Kin; !slices.Equal(kin, []meta.Kin{first}) {
		t.Errorf("c's mirror was made with the kin %v, want %v", kin, first)
	}
	c.change("t", func(rec *meta.Mirror) { rec.Kin = nil }) // one that was made by an older version
	direct, err := c.links.Create(t.Context(), CreateSpec{Name: "direct", RemoteClusterID: first.Cluster, Configs: fast(keyMode, peer.Bidirectional)})
	if err != nil {
		t.Fatal(err)
	}
	over, err := kafka.ParseTopicID(direct.ID)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(topic kafka.TopicID) error {
		rq := peer.PledgeRequest{Turn: plan.TurnID(topic, 1), Topic: topic, Name: "t"}
		_, err := c.links.Answer(t.Context(), "User:x", &peer.Request{Ask: peer.Ask{Key: peer.Pledge, Topics: []string{"t"}, Body: rq.Encode()}, Link: over, Caller: first.Cluster})
		return err
	}
	if err := ask(first.Topic); kafka.CodeOf(err) != kafka.InvalidRequest {
		t.Errorf("a mirror that follows pledges itself: %v", err)
	}
	c.obeyed("l", Failover, "t")
	c.state("t", mirror.Stopped)
	if err := ask(kafka.NewTopicID()); kafka.CodeOf(err) != kafka.UnknownTopicOrPartition {
		t.Errorf("it pledges itself to a topic that was made anew: %v", err)
	}
	c.change("t", func(rec *meta.Mirror) {
		rec.Turn = &meta.Turn{ID: plan.TurnID(rec.Topic, 1), Restore: true, Release: true}
	})
	if err := ask(first.Topic); kafka.CodeOf(err) != kafka.ReassignmentInProgress {
		t.Errorf("the other cluster has not been told yet that an earlier restore is done: %v", err)
	}
	c.change("t", func(rec *meta.Mirror) { rec.Turn = nil })
	for range 2 { // the question may come twice
		if err := ask(first.Topic); err != nil {
			t.Fatal(err)
		}
	}
	rec := c.record("t")
	middle := meta.Kin{Cluster: b.meta.Image().Cluster.ID, Topic: b.meta.Image().TopicIDs["t"]}
	if rec.Link != over || rec.SourceTopicID != first.Topic || rec.Pledge == nil || rec.State != mirror.Stopped.String() || !slices.Equal(rec.Kin, []meta.Kin{middle}) {
		t.Errorf("the record is %+v", rec)
	}
	// The kin outlive the record, which goes with its link.
	if err := c.links.Delete(t.Context(), "direct", true, false); err != nil {
		t.Fatal(err)
	}
	topic := c.meta.Image().TopicByName("t")
	if kin := kinOf(c.meta.Image(), topic); !slices.Equal(kin, []meta.Kin{first, middle}) {
		t.Errorf("without its link it has the kin %v, want %v and %v", kin, first, middle)
	}
}

func TestKinAreBounded(t *testing.T) {
	var list []meta.Kin
	for range 3 * meta.KinMax {
		one := meta.Kin{Cluster: "c", Topic: kafka.NewTopicID()}
		list = withKin(list, one, one, meta.Kin{Cluster: "c"}, meta.Kin{Topic: one.Topic})
	}
	if len(list) != meta.KinMax || len(list) > peer.KinMax {
		t.Errorf("%d are kept", len(list))
	}
}
