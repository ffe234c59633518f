package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// plain makes an ordinary topic of one partition.
func (r *rig) plain(name string) kafka.TopicID {
	r.t.Helper()
	id := kafka.NewTopicID()
	err := r.meta.Update(r.t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{
			meta.PutTopic(&meta.Topic{ID: id, Name: name, Partitions: 1}),
			meta.PutPartitions(&meta.Partitions{Topic: id, List: []meta.Partition{{Role: meta.RoleOpen}}}),
		}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.parts.open(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// disaster is a pair whose B was failed over: topic t of A was mirrored by B, and both are written to.
func disaster(t *testing.T) (a, b *rig) {
	t.Helper()
	a, b = newPair(t)
	id := a.plain("t")
	b.source.topic("t", 1)
	b.source.change(func(s *fakeSource) {
		topic := s.topics["t"]
		topic.ID = id
		s.topics["t"] = topic
	})
	for _, r := range []*rig{a, b} {
		if _, err := r.create("l", keyMode, peer.Bidirectional); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*rig{a, b} {
		r.described("l", "both see both", func(i Info) bool { return i.State == "ACTIVE" && i.RemoteState == "ACTIVE" })
	}
	b.mirror("l", "t")
	b.obeyed("l", Failover, "t")
	b.state("t", mirror.Stopped)
	return a, b
}

// pledge has topic t pledged to the first restore of a's.
func (r *rig) pledge(a *rig) {
	r.t.Helper()
	if err := r.pledgeTo(a, 1); err != nil {
		r.t.Fatal(err)
	}
}

// pledgeTo asks for the pledge of topic t to the nth restore of a's.
func (r *rig) pledgeTo(a *rig, n int64) error {
	img := a.meta.Image()
	id := img.TopicIDs["t"]
	rq := &peer.Request{
		Ask:  peer.Ask{Key: peer.Pledge, Topics: []string{"t"}, Body: peer.PledgeRequest{Turn: plan.TurnID(id, n), Topic: id, Name: "t"}.Encode()},
		Link: r.meta.Image().LinkIDs["l"], Caller: img.Cluster.ID,
	}
	_, err := r.links.Answer(r.t.Context(), "User:x", rq)
	return err
}

// gone makes the other cluster answer nothing any more.
func (r *rig) gone() { r.source.change(func(s *fakeSource) { s.err = errors.New("scripted silence") }) }

func (r *rig) record(topic string) *meta.Mirror {
	img := r.meta.Image()
	return img.Mirrors[img.TopicIDs[topic]]
}

// told wants a text to have all words.
func told(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q lacks %q", what, text, w)
		}
	}
}

// Rule T1: the cluster of a restore is gone before it has cut anything. Its pledge binds this side until an operator takes it back, which is
// said beforehand; then the restore that comes back gets none, stays as it is, and goes on only when it is ordered anew.
func TestT1_APledgeIsTakenBackByForce(t *testing.T) {
	for _, compared := range []bool{false, true} {
		t.Run(fmt.Sprintf("histories compared before: %v", compared), func(t *testing.T) { pledgeTakenBack(t, compared) })
	}
}

func pledgeTakenBack(t *testing.T, compared bool) {
	a, b := disaster(t)
	blocked := make(chan struct{})
	past := func() bool { rec := a.record("t"); return rec != nil && rec.State == mirror.PendingRestore.String() }
	a.source.change(func(s *fakeSource) {
		s.asked = func(key peer.Key) error {
			// Either the histories cannot be asked for, or what comes after they were compared.
			if compared && (key != peer.Pledge || !past()) || !compared && key != peer.Lineage {
				return nil
			}
			select {
			case <-blocked:
				return nil
			default:
				return errors.New("scripted silence")
			}
		}
	})
	// The dry run is made of the same questions; the order is stored in its stead.
	_, rec, _ := a.links.named("l")
	o := &ordering{ls: a.links, link: rec, verb: TruncateAndRestore, event: mirror.RestoreAsked, outcomes: map[string]*Outcome{"t": {}}, restores: map[kafka.TopicID]*plannedRestore{}}
	o.ids = []kafka.TopicID{a.meta.Image().TopicIDs["t"]}
	o.restores[o.ids[0]] = &plannedRestore{source: "t", sourceID: b.meta.Image().TopicIDs["t"]}
	if err := o.storeAll(t.Context(), a.links.runningOf(rec.ID)); err != nil {
		t.Fatal(err)
	}
	b.eventually("the pledge is given", func() bool { return b.record("t").Pledge != nil && past() == compared })
	id, own := b.record("t").Pledge.ID, a.meta.Image().Cluster.ID
	b.gone()

	again := b.order("l", Failover, "t")[0]
	if again.Already {
		t.Error("a pledged topic is taken for one where nothing is to do")
	}
	told(t, "failover of a pledged topic", again.Text, "already stopped", "pledged to the restore "+id, own, "force a failover")
	told(t, "deleting it", b.links.CheckDeletion(t.Context(), b.meta.Image().TopicIDs["t"]).Error(), "pledged", own, "force a failover")
	told(t, "deleting its link", b.links.Delete(t.Context(), "l", false, false).Error(), "pledged", ": t.", "with force")
	told(t, "restoring it", b.order("l", TruncateAndRestore, "t")[0].Text, "pledged", own, "force a failover")
	dry, err := b.links.Order(t.Context(), "l", ForceFailover, []string{"t"}, "", true)
	if err != nil || dry[0].Code != 0 || dry[0].Withdrawn == nil || dry[0].Withdrawn.Says != plan.Silent.String() || dry[0].Withdrawn.Restore != id || dry[0].Withdrawn.Cluster != own {
		t.Fatalf("the dry run: %+v, %v", dry, err)
	}
	told(t, "the dry run", dry[0].Withdrawn.Text, "'t' of cluster "+own, "does not answer", "stays read-only until it is failed over")
	if b.record("t").Pledge == nil {
		t.Fatal("the dry run took the pledge back")
	}
	b.obeyed("l", ForceFailover, "t")
	if rec := b.record("t"); rec.Pledge != nil || rec.Withdrawn == nil || rec.State != mirror.Stopped.String() {
		t.Fatalf("the record is %+v", rec)
	}
	told(t, "again", b.order("l", ForceFailover, "t")[0].Text, "already stopped")
	if err := b.links.CheckDeletion(t.Context(), b.meta.Image().TopicIDs["t"]); err != nil {
		t.Errorf("deleting it: %v", err)
	}

	// A is back. It has compared the histories, or does so now: it cuts nothing off.
	b.source.change(func(s *fakeSource) { s.err = nil })
	close(blocked)
	a.eventually("A is told", func() bool {
		info, _ := a.links.Mirror("l", "t")
		return len(info.TransitionErrors) == 1 && strings.Contains(info.TransitionErrors[0].Text, "took the pledge of topic 't' to this restore back")
	})
	if b.record("t").Pledge != nil {
		t.Error("the late restore got a pledge")
	}
	if role := a.part("t", 0).Offsets().Role; role != meta.RoleFrozen {
		t.Errorf("A's partition is %s, want it read-only", role)
	}
	a.obeyed("l", Failover, "t")
	a.eventually("A is an ordinary topic as before", func() bool { return a.record("t") == nil && a.part("t", 0).Offsets().Role == meta.RoleOpen })
	if stop := a.meta.Image().Partitions[a.meta.Image().TopicIDs["t"]].List[0].Stop; stop != nil {
		t.Errorf("T4: a log that was not cut got the stop point %d", stop.Offset)
	}
	// Ordered anew it is another restore, which may be pledged to.
	out, err := a.links.Order(t.Context(), "l", TruncateAndRestore, []string{"t"}, "", true)
	if err != nil || out[0].Code != 0 {
		t.Errorf("ordered anew: %+v, %v", out, err)
	}
}

// Rule T10: the other side's topic is another one than when the restore was ordered. Its pledge is none, and is given back.
func TestT10_APledgeOfATopicThatWasMadeAgainIsNone(t *testing.T) {
	a, b := disaster(t)
	_, rec, _ := a.links.named("l")
	o := &ordering{ls: a.links, link: rec, verb: TruncateAndRestore, event: mirror.RestoreAsked, outcomes: map[string]*Outcome{"t": {}}, restores: map[kafka.TopicID]*plannedRestore{}}
	o.ids = []kafka.TopicID{a.meta.Image().TopicIDs["t"]}
	o.restores[o.ids[0]] = &plannedRestore{source: "t", sourceID: kafka.NewTopicID()}
	if err := o.storeAll(t.Context(), a.links.runningOf(rec.ID)); err != nil {
		t.Fatal(err)
	}
	a.eventually("A is an ordinary topic as before", func() bool { return a.record("t") == nil && a.part("t", 0).Offsets().Role == meta.RoleOpen })
	b.eventually("the pledge is given back", func() bool { return b.record("t").Pledge == nil })
}

// A link whose topics are pledged is deleted only with force.
func TestT1_DeletingALinkWithForceTakesPledgesBack(t *testing.T) {
	a, b := disaster(t)
	b.pledge(a)
	b.gone()
	if err := b.links.Delete(t.Context(), "l", false, true); kindOf(err) != InUse {
		t.Errorf("the dry run of the deletion: %v", err)
	}
	if err := b.links.Delete(t.Context(), "l", true, false); err != nil {
		t.Fatal(err)
	}
	if b.record("t") != nil {
		t.Error("the record is still there")
	}
}

// One whose restore is over, unheard, is found out and stands in nobody's way.
func TestT1_APledgeThatIsOverHoldsNothingUp(t *testing.T) {
	a, b := disaster(t)
	b.pledge(a)
	if err := b.links.CheckDeletion(t.Context(), b.meta.Image().TopicIDs["t"]); err != nil {
		t.Errorf("deleting the topic: %v", err)
	}
	b.pledge(a)
	if err := b.links.Delete(t.Context(), "l", false, true); err != nil {
		t.Errorf("deleting the link: %v", err)
	}
}

// Nor does it keep the topic from being restored anew, and once that has the pledge, the one before gets none.
func TestT1_APledgeThatCameLateGivesWayToTheNextRestore(t *testing.T) {
	a, b := disaster(t)
	id := a.meta.Image().TopicIDs["t"]
	for _, n := range []int64{1, 1, 3} {
		if err := b.pledgeTo(a, n); err != nil || b.record("t").Pledge.ID != plan.TurnID(id, n) {
			t.Fatalf("the pledge to restore %d: %v, %+v", n, err, b.record("t").Pledge)
		}
	}
	if err := b.pledgeTo(a, 2); err == nil || b.record("t").Pledge.ID != plan.TurnID(id, 3) {
		t.Errorf("the pledge to restore 2 after that to restore 3: %v", err)
	}
}

// A reversal that is ordered as soon as a restore shows ACTIVE waits until the pledge was given back; it is refused only where it cannot be.
func TestAReversalWaitsForThePledgeOfTheRestoreBefore(t *testing.T) {
	a, b := disaster(t)
	img := a.meta.Image()
	id, turn := img.TopicIDs["t"], plan.TurnID(img.TopicIDs["t"], 1)
	b.pledge(a)
	asked, heard := make(chan struct{}, 100), make(chan struct{})
	a.source.change(func(s *fakeSource) {
		s.asked = func(key peer.Key) error {
			if key != peer.Release {
				return nil
			}
			select {
			case <-heard:
				return nil
			case asked <- struct{}{}:
			default:
			}
			return errors.New("scripted silence")
		}
	})
	restored := &meta.Mirror{
		Topic: id, Link: img.LinkIDs["l"], SourceTopic: "t", SourceTopicID: b.meta.Image().TopicIDs["t"], State: mirror.Active.String(), Turns: 1,
		Turn: &meta.Turn{ID: turn, Restore: true, Release: true},
	}
	if err := a.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutMirror(restored)}, nil }); err != nil {
		t.Fatal(err)
	}
	<-asked
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	out, err := a.links.Order(brief, "l", ReverseAndStart, []string{"t"}, "", true)
	if err != nil || out[0].Code != 400 || !strings.Contains(out[0].Text, "has not been told yet") {
		t.Errorf("while the pledge cannot be given back: %+v, %v", out, err)
	}
	done := make(chan Outcome)
	go func() {
		out, err := a.links.Order(t.Context(), "l", ReverseAndStart, []string{"t"}, "", true)
		if err != nil {
			t.Error(err)
			out = []Outcome{{}}
		}
		done <- out[0]
	}()
	<-asked
	close(heard)
	if out := <-done; out.Code != 0 {
		t.Errorf("once it is given back: %+v", out)
	}
}

// Rule R1: what was cut off since a reversal was completed is seen in the lineage, and the note of it is one per link, and bounded.
func TestR1_CompletedReversalsAreRemembered(t *testing.T) {
	topic, img := kafka.NewTopicID(), &meta.Image{Cluster: meta.Cluster{ID: "own"}}
	own, theirs := meta.Lineage{Start: 8, Cluster: "own"}, meta.Lineage{Start: 8, Cluster: "other"}
	img.Partitions = map[kafka.TopicID]*meta.Partitions{topic: {List: []meta.Partition{{Lineage: []meta.Lineage{own}}, {Lineage: []meta.Lineage{theirs}}}}}
	for _, row := range []struct {
		ends []kafka.Offset
		want bool
	}{{[]kafka.Offset{8}, true}, {[]kafka.Offset{7}, false}, {[]kafka.Offset{8, 8}, false}, {[]kafka.Offset{8, 8, 8}, false}} {
		if got := keepsStops(img, topic, row.ends); got != row.want {
			t.Errorf("ends %v: %t, want %t", row.ends, got, row.want)
		}
	}
	var rec meta.Mirror
	for n := range int64(3 * meta.CompletedMax) {
		link := kafka.NewTopicID()
		for range 2 {
			before := meta.Mirror{Link: link, State: mirror.Stopped.String(), Turn: &meta.Turn{ID: plan.TurnID(topic, n+1), Handed: true}, Completed: rec.Completed}
			remember(&rec, &before)
		}
		if completed(&rec, link, plan.TurnID(topic, n+1)) == nil || completed(&rec, kafka.NewTopicID(), plan.TurnID(topic, n+1)) != nil {
			t.Fatal("the last one of a link is what its other cluster may ask about, and nobody else")
		}
	}
	if len(rec.Completed) != meta.CompletedMax {
		t.Errorf("%d are kept", len(rec.Completed))
	}
	kept := rec.Completed
	for _, turn := range []*meta.Turn{nil, {Handed: true, Over: true}, {Handed: true, Restore: true}, {}} {
		remember(&rec, &meta.Mirror{State: mirror.Stopped.String(), Turn: turn, Completed: kept})
	}
	if remember(&rec, nil); len(rec.Completed) != len(kept) || rec.Completed[0].ID != kept[0].ID {
		t.Error("what completed nothing was remembered")
	}
}
