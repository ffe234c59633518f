package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/rest/api"
	rest "github.com/hawserio/hawser/rest/client"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// alter sets a config of the site's half of the link.
func (s *site) alter(name, value string) {
	s.t.Helper()
	s.must(s.rest.AlterLinkConfigs(within(s.t), "ab", []api.AlterConfig{{Name: name, Value: &value}}, rest.Do))
}

// halfTurned is a reversal in the middle: A is frozen with records that B has not got, because B's link is paused.
func halfTurned(t *testing.T, verb string) (a, b *site) {
	t.Helper()
	a, b = twoSites(t)
	a.create("t", 2)
	a.must(a.put("t", 2, 5, "both"))
	b.mirror("t")
	b.ends("t", 2, 5)
	b.alter("cluster.link.paused", "true")
	b.status("t", "LINK_PAUSED")
	a.must(a.put("t", 2, 3, "late"))
	b.mustOrder(verb, "t")
	b.status("t", "PENDING_SYNCHRONIZE")
	a.status("t", "PENDING_MIRROR")
	a.refuses("t")
	return a, b
}

// refuses wants producers to be refused.
func (s *site) refuses(topic string) {
	s.t.Helper()
	if err := s.put(topic, 1, 1, "refused"); !errors.Is(err, kerr.InvalidRequest) {
		s.t.Errorf("%s: a producer hears %v, want a refusal", s.name, err)
	}
}

// transition waits until a state-transition error has the text.
func (s *site) transition(topic, text string) {
	s.t.Helper()
	var last api.Mirror
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		last, err = s.rest.Mirror(within(s.t), "ab", topic)
		s.must(err)
		if last.MirrorStateTransitionErrors == nil {
			continue
		}
		for _, e := range *last.MirrorStateTransitionErrors {
			if strings.Contains(e.ErrorMessage, text) {
				return
			}
		}
	}
	s.t.Fatalf("%s: %s has no state-transition error with %q: %+v", s.name, topic, text, last.MirrorStateTransitionErrors)
}

// refused wants an order to be refused with words.
func (s *site) refused(verb, topic string, words ...string) {
	s.t.Helper()
	one := s.order(verb, rest.Do, topic)[0]
	if one.ErrorMessage == nil {
		s.t.Fatalf("%s: %s %s is not refused", s.name, verb, topic)
	}
	for _, w := range words {
		if !strings.Contains(*one.ErrorMessage, w) {
			s.t.Errorf("%s: %s %s is refused with %q, which lacks %q", s.name, verb, topic, *one.ErrorMessage, w)
		}
	}
}

func TestR1_FailoverOfTheMirrorIsNoCompletion(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	b.must(b.put("t", 2, 4, "only B"))
	a.transition("t", "was failed over")
	a.refuses("t")
	a.ends("t", 2, 8) // nothing of B's came
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 1, "only A"))
	// T4: A's frozen end is a stop point, above what both have; the lineage says where they part.
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 2, 9)
	same(t, a, b, "t", 2)
}

func TestR2_FailoverOfTheSourceEndsTheReversal(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 2, "goes on"))
	b.alter("cluster.link.paused", "false")
	b.status("t", "ACTIVE")
	b.ends("t", 2, 10)
	b.refuses("t")
	same(t, a, b, "t", 2)
	if m := b.status("t", "ACTIVE"); m.MirrorTopicError == "NO_ERROR" {
		t.Error("the mirror does not say why its reversal ended")
	}
	b.mustOrder("reverse-and-start-mirror", "t")
	b.status("t", "STOPPED")
	a.status("t", "ACTIVE")
}

func TestR4_PauseHoldsAReversalAndSaysSo(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-pause-mirror")
	b.mustOrder("pause", "t")
	b.alter("cluster.link.paused", "false")
	b.transition("t", "paused")
	a.transition("t", "has been read-only for")
	b.ends("t", 2, 5)
	b.mustOrder("resume", "t")
	b.status("t", "STOPPED")
	b.must(b.put("t", 2, 2, "after"))
	a.status("t", "PAUSED")
	a.ends("t", 2, 8)
	a.mustOrder("resume", "t")
	a.ends("t", 2, 10)
	same(t, a, b, "t", 2)
}

func TestR4_AMirrorThatWasDeletedLeavesTheSourceToItsOperator(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	if _, err := kadm.NewClient(b.kgo).DeleteTopics(within(t), "t"); err != nil {
		t.Fatal(err)
	}
	a.transition("t", "does not know the reversal")
	a.refuses("t")
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 1, "on"))
	a.ends("t", 2, 9)
}

func TestR7_TheFrozenSourceStaysAsItIs(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	admin := kadm.NewClient(a.kgo)
	grown, err := admin.CreatePartitions(within(t), 1, "t")
	if err == nil {
		err = grown.Error()
	}
	if !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("partitions are added to a frozen topic: %v", err)
	}
	trim := kadm.Offsets{}
	trim.AddOffset("t", 0, 2, -1)
	cut, err := admin.DeleteRecords(within(t), trim)
	if err == nil {
		err = cut.Error()
	}
	if !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("records of a frozen topic are deleted: %v", err)
	}
	a.refused("reverse-and-start-mirror", "t")
	a.refused("truncate-and-restore", "t")
	a.refused("pause", "t")
	b.refused("truncate-and-restore", "t")
	b.alter("cluster.link.paused", "false")
	b.status("t", "STOPPED")
	a.status("t", "ACTIVE")
}

func TestR7_AMirrorOfAMirrorIsNotReversed(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	b.mirror("t")
	// A mirrors B's mirror under another name, and is asked to turn with it.
	set := func(name, value string) api.ConfigData { return api.ConfigData{Name: name, Value: &value} }
	if _, err := a.rest.CreateLink(within(t), rest.NewLink{Name: "chain", Body: api.CreateLinkRequest{RemoteClusterID: b.b.ClusterID(), Configs: []api.ConfigData{
		set("bootstrap.servers", b.b.KafkaAddress()), set("link.mode", "BIDIRECTIONAL"), set("cluster.link.prefix", "x_"),
	}}}); err != nil {
		t.Fatal(err)
	}
	_, err := a.rest.CreateMirror(within(t), "chain", api.CreateMirrorRequest{SourceTopicName: "t", MirrorTopicName: "x_t", Configs: []api.ConfigData{}})
	if err != nil {
		return // a loop back to the cluster of the topic is refused when it is made
	}
	done, err := a.rest.Order(within(t), "chain", "reverse-and-start-mirror", api.AlterMirrorsRequest{MirrorTopicNames: []string{"x_t"}}, rest.Do)
	a.must(err)
	if done[0].ErrorMessage == nil {
		t.Error("a mirror of a mirror was reversed")
	}
}

// Rules R5 and R6: a transaction that is open when the reversal begins is waited for, then aborted. A transactional producer's
// records are committed on both sides or on none.
func TestR5_R6_OpenTransactionsAreWaitedForThenAborted(t *testing.T) {
	t.Parallel()
	grace := "600"
	a, b := twoSites(t, api.ConfigData{Name: "reverse.transaction.grace.ms", Value: &grace})
	a.create("t", 1)
	b.mirror("t")
	begin := func(id string) *kgo.Client {
		c := client(t, a.b, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		a.must(c.BeginTransaction())
		a.must(c.ProduceSync(within(t), &kgo.Record{Topic: "t", Value: []byte(id)}).FirstErr())
		return c
	}
	ends, hangs := begin("ends"), begin("hangs")
	dry := b.order("reverse-and-start-mirror", rest.ValidateOnly, "t")[0]
	if len(dry.OpenTransactions) != 2 {
		t.Errorf("the dry run shows %+v, want two open transactions", dry.OpenTransactions)
	}
	b.mustOrder("reverse-and-start-mirror", "t")
	a.status("t", "PENDING_MIRROR")
	a.refuses("t")
	a.must(ends.EndTransaction(within(t), kgo.TryCommit))
	if m := b.status("t", "PENDING_SYNCHRONIZE"); m.MirrorStatus == "" {
		t.Error("no status")
	}
	b.status("t", "STOPPED")
	a.status("t", "ACTIVE")
	bounded, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := hangs.EndTransaction(bounded, kgo.TryCommit); err == nil {
		t.Error("a transaction that was aborted for the reversal was committed")
	}
	for _, s := range []*site{a, b} {
		c := client(t, s.b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		var values []string
		for len(values) == 0 {
			fs := c.PollFetches(within(t))
			s.must(fs.Err())
			fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		if fmt.Sprint(values) != "[ends]" {
			t.Errorf("%s: committed are %v, want only the transaction that ended in time", s.name, values)
		}
	}
}

func TestT1_RestoreOnBothSidesAtOnceEndsWithOneWritable(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	// Another round, so that each side has a record of the other and may be restored from it.
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 1, 9)
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 1, 2, "again A"))
	b.must(b.put("t", 1, 3, "again B"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.order("truncate-and-restore", rest.Do, "t")
	}()
	b.order("truncate-and-restore", rest.Do, "t")
	<-done
	var states [2]string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for i, s := range []*site{a, b} {
			m, err := s.rest.Mirror(within(t), "ab", "t")
			s.must(err)
			states[i] = m.MirrorStatus
		}
		if !strings.HasPrefix(states[0], "PENDING") && !strings.HasPrefix(states[1], "PENDING") {
			break
		}
	}
	switch states {
	case [2]string{"ACTIVE", "STOPPED"}, [2]string{"STOPPED", "ACTIVE"}, [2]string{"STOPPED", "STOPPED"}:
		t.Logf("A is %s, B is %s", states[0], states[1])
	default:
		t.Fatalf("A is %s, B is %s", states[0], states[1])
	}
	if states == [2]string{"STOPPED", "STOPPED"} {
		a.mustOrder("truncate-and-restore", "t")
		a.status("t", "ACTIVE")
	}
	if states[0] == "ACTIVE" || states == [2]string{"STOPPED", "STOPPED"} {
		b.must(b.put("t", 1, 1, "end"))
	} else {
		a.must(a.put("t", 1, 1, "end"))
	}
	level(t, a, b, "t")
	same(t, a, b, "t", 1)
}

// level waits until both sites end alike.
func level(t *testing.T, a, b *site, topic string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var ends [2]int64
		for i, s := range []*site{a, b} {
			list, err := kadm.NewClient(s.kgo).ListEndOffsets(within(t), topic)
			s.must(err)
			list.Each(func(o kadm.ListedOffset) { ends[i] += o.Offset })
		}
		if ends[0] == ends[1] {
			return
		}
	}
	t.Fatalf("%s does not become level", topic)
}

func TestT10_ATopicMadeAnewIsNotRestored(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	if _, err := kadm.NewClient(a.kgo).DeleteTopics(within(t), "t"); err != nil {
		t.Fatal(err)
	}
	a.connect() // a client that does not remember the old topic's id
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "new"))
	a.refused("truncate-and-restore", "t", "another topic")
	a.must(a.put("t", 1, 1, "still writable"))
	a.ends("t", 1, 3)
}

func TestRestoreIsRefusedWithWords(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	a.create("plain", 1)
	b.mirror("t")
	a.refused("truncate-and-restore", "t", "not STOPPED", "fail it over")
	a.refused("truncate-and-restore", "plain", "plain")
	a.refused("truncate-and-restore", "none", "none")
	b.refused("truncate-and-restore", "t")
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	b.refused("truncate-and-restore", "t", "never was a mirror")
	a.refused("reverse-and-start-mirror", "plain", "ordinary topic", b.b.ClusterID())
	b.must(b.put("t", 1, 1, "x"))
	a.must(a.put("t", 1, 1, "y"))
}

func TestRestorePausedBeginsPaused(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	a.mustOrder("truncate-and-restore?paused=true", "t")
	a.status("t", "PAUSED")
	a.refuses("t")
	a.mustOrder("resume", "t")
	a.ends("t", 1, 9)
	same(t, a, b, "t", 1)
}

// A verb's dry run answers as the verb does, and changes nothing.
func TestC56_DryRunsOfReverseAndRestoreChangeNothing(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "x"))
	b.mirror("t")
	b.ends("t", 1, 2)
	before := b.status("t", "ACTIVE")
	for _, verb := range []string{"reverse-and-start-mirror", "reverse-and-pause-mirror"} {
		if one := b.order(verb, rest.ValidateOnly, "t")[0]; one.ErrorMessage != nil || len(one.MirrorLags) != 1 {
			t.Errorf("%s: the dry run says %+v", verb, one)
		}
	}
	a.must(a.put("t", 1, 1, "goes on"))
	b.ends("t", 1, 3)
	if now := b.status("t", "ACTIVE"); now.StateTimeMs != before.StateTimeMs {
		t.Error("a dry run changed the mirror's record")
	}
	b.mustOrder("failover", "t")
	for b.order("failover", rest.Do, "t")[0].ErrorMessage == nil {
		time.Sleep(time.Millisecond) // it is shown as STOPPED before that is stored
	}
	stopped := b.status("t", "STOPPED")
	if one := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]; one.ErrorMessage != nil || one.MessagesTruncated == nil || *one.MessagesTruncated != 0 {
		t.Errorf("the dry run of the restore says %+v", one)
	}
	a.must(a.put("t", 1, 1, "writable"))
	if now := b.status("t", "STOPPED"); now.StateTimeMs != stopped.StateTimeMs {
		t.Error("a dry run changed the other side's record")
	}
}

func TestC57_ForcedDeletionEndsAHalfTurnedReversal(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	for _, s := range []*site{a, b} {
		err := s.rest.DeleteLink(within(t), "ab", rest.DeleteOptions{})
		if err == nil || !strings.Contains(err.Error(), "t") {
			t.Errorf("%s: a link with a topic in a reversal is deleted: %v", s.name, err)
		}
	}
	a.must(a.rest.DeleteLink(within(t), "ab", rest.DeleteOptions{Force: true}))
	a.must(a.put("t", 2, 1, "free"))
	b.must(b.rest.DeleteLink(within(t), "ab", rest.DeleteOptions{Force: true}))
	b.must(b.put("t", 2, 1, "free"))
}

func TestReverseUnderAPrefix(t *testing.T) {
	t.Parallel()
	a, b := newSite(t, "A"), newSite(t, "B")
	id := a.link(b, "", nil)
	prefix := "usa_"
	b.link(a, id, []api.ConfigData{{Name: "cluster.link.prefix", Value: &prefix}})
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "first"))
	if _, err := b.rest.CreateMirror(within(t), "ab", api.CreateMirrorRequest{SourceTopicName: "t", MirrorTopicName: "usa_t", Configs: []api.ConfigData{}}); err != nil {
		t.Fatal(err)
	}
	b.ends("usa_t", 1, 2)
	b.mustOrder("reverse-and-start-mirror", "usa_t")
	b.status("usa_t", "STOPPED")
	b.must(b.put("usa_t", 1, 3, "second"))
	a.status("t", "ACTIVE")
	a.ends("t", 1, 5)
	// And a restore of what the prefix was put before.
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 1, 1, "cut off"))
	b.must(b.put("usa_t", 1, 1, "kept"))
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 1, 6)
	if have, want := strings.Join(a.values("t", 0), " "), strings.Join(b.values("usa_t", 0), " "); have != want {
		t.Errorf("A has %s, B has %s", have, want)
	}
}

// Any AdminClient reverses and restores, by an incremental change of hawser.mirror.order.
func TestAdminClientReversesAndRestores(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "x"))
	b.mirror("t")
	b.ends("t", 1, 2)
	order := func(s *site, verb string) error {
		rs, err := kadm.NewClient(s.kgo).AlterTopicConfigs(within(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "hawser.mirror.order", Value: &verb}}, "t")
		if err == nil {
			err = rs[0].Err
		}
		return err
	}
	b.must(order(b, "failover"))
	b.status("t", "STOPPED")
	b.must(b.put("t", 1, 1, "kept"))
	a.must(a.put("t", 1, 1, "cut off"))
	a.must(order(a, "truncate-and-restore"))
	a.status("t", "ACTIVE")
	a.ends("t", 1, 3)
	a.must(order(a, "reverse-and-start"))
	a.status("t", "STOPPED")
	b.status("t", "ACTIVE")
	same(t, a, b, "t", 1)
	if err := order(a, "reverse-and-start"); err == nil {
		t.Error("an ordinary topic was reversed")
	}
}

// Rule T5: what cannot be compared is copied again from the other side's start, and all that was here is kept in quarantine.
func TestT5_NothingToCompareCopiesAllAgain(t *testing.T) {
	t.Parallel()
	for name, trim := range map[string]struct{ a, b int64 }{
		"the old source begins above the cut": {a: 7},
		"the new source begins above the cut": {b: 7},
		"both do":                             {a: 6, b: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := twoSites(t)
			split(t, a, b, 1)
			for s, to := range map[*site]int64{a: trim.a, b: trim.b} {
				if to == 0 {
					continue
				}
				offsets := kadm.Offsets{}
				offsets.AddOffset("t", 0, to, -1)
				cut, err := kadm.NewClient(s.kgo).DeleteRecords(within(t), offsets)
				if err == nil {
					err = cut.Error()
				}
				s.must(err)
			}
			dry := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]
			if dry.ErrorMessage != nil || len(dry.PartitionLevelTruncationData) != 1 || !dry.PartitionLevelTruncationData[0].FullCopy {
				t.Fatalf("the dry run says %+v, want a full copy", dry)
			}
			want := a.values("t", 0)
			a.mustOrder("truncate-and-restore", "t")
			a.status("t", "ACTIVE")
			level(t, a, b, "t")
			same(t, a, b, "t", 1)
			kept := a.values(a.quarantined("t"), 0)
			if !strings.HasSuffix(strings.Join(want, " "), strings.Join(kept, " ")) || len(kept) == 0 {
				t.Errorf("the quarantine has %v of %v", kept, want)
			}
		})
	}
}

// Rule T1: a pledge to a restore that is over, though that was never said, does not bind for ever.
func TestT1_AnUnreleasedPledgeIsAskedAbout(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	b.mustOrder("truncate-and-restore", "t")
	b.status("t", "ACTIVE")
	a.must(a.put("t", 1, 1, "more"))
	level(t, a, b, "t")
	same(t, a, b, "t", 1)
}

// Rule R8: what groups committed on the source before it was handed over is there after the turn.
func TestR8_GroupOffsetsComeAlong(t *testing.T) {
	t.Parallel()
	set := func(name, value string) api.ConfigData { return api.ConfigData{Name: name, Value: &value} }
	a, b := newSite(t, "A"), newSite(t, "B")
	id := a.link(b, "", nil)
	b.link(a, id, []api.ConfigData{set("consumer.offset.sync.enable", "true"), set("consumer.offset.group.filters", `{"groupFilters":[{"name":"g","patternType":"LITERAL","filterType":"INCLUDE"}]}`)})
	a.create("t", 1)
	a.must(a.put("t", 1, 9, "x"))
	b.mirror("t")
	b.ends("t", 1, 9)
	commitAt(t, a, "g", 4)
	b.mustOrder("reverse-and-start-mirror", "t")
	b.status("t", "STOPPED")
	if at := committedAt(t, b, "g"); at != 4 {
		t.Errorf("the group is at %d on the new source, want 4", at)
	}
	a.status("t", "ACTIVE")
}
