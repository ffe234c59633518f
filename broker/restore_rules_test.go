package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/rest/api"
	rest "github.com/hawserio/hawser/rest/client"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

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

// orderByAdmin gives an order as any AdminClient does.
func (s *site) orderByAdmin(topic, verb string) error {
	rs, err := kadm.NewClient(s.kgo).AlterTopicConfigs(within(s.t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "hawser.mirror.order", Value: &verb}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	return err
}

func TestAdminClientReversesAndRestores(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "x"))
	b.mirror("t")
	b.ends("t", 1, 2)
	order := func(s *site, verb string) error { return s.orderByAdmin("t", verb) }
	b.must(order(b, "failover"))
	b.status("t", "STOPPED")
	b.must(b.put("t", 1, 1, "kept"))
	a.must(a.put("t", 1, 1, "cut off"))
	a.must(order(a, "truncate-and-restore"))
	a.status("t", "ACTIVE")
	a.ends("t", 1, 3)
	// The other side is asked to give its pledge back only after ACTIVE is stored: the order waits for that.
	a.must(order(a, "reverse-and-start"))
	a.status("t", "STOPPED")
	b.status("t", "ACTIVE")
	same(t, a, b, "t", 1)
	if err := order(a, "reverse-and-start"); err == nil {
		t.Error("an ordinary topic was reversed")
	}
}

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

// Rule T1: A is lost for good after it has cut its tail off. B's topic is pledged to it, and can be neither deleted nor restored from a
// third, until an operator takes the pledge back by force; A, should it come back, is a mirror of B.
func TestT1_APledgeToALostClusterIsTakenBack(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	a.alter("cluster.link.paused", "true")
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "PENDING_RESTORE")
	a.transition("t", "paused")
	address, lost := a.b.KafkaAddress(), a.b.ClusterID()
	a.kgo.Close()
	stop(t, a.b)

	b.transition("t", "pledged")
	b.refused("failover", "t", "already stopped", "pledged", lost, "force")
	admin := kadm.NewClient(b.kgo)
	gone, err := admin.DeleteTopics(within(t), "t")
	if err != nil || !errors.Is(gone["t"].Err, kerr.InvalidRequest) || !strings.Contains(gone["t"].ErrMessage, lost) || !strings.Contains(gone["t"].ErrMessage, "force") {
		t.Errorf("deleting a pledged topic: %+v, %v", gone["t"], err)
	}
	if err := b.rest.DeleteTopic(within(t), "t"); err == nil || !strings.Contains(err.Error(), lost) {
		t.Errorf("deleting a pledged topic over REST: %v", err)
	}
	if err := b.rest.DeleteLink(within(t), "ab", rest.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "pledged") {
		t.Errorf("deleting its link: %v", err)
	}
	dry := b.order("failover?force=true", rest.ValidateOnly, "t")[0]
	if dry.ErrorMessage != nil || dry.PledgeWithdrawn == nil || dry.PledgeWithdrawn.ClusterID != lost || dry.PledgeWithdrawn.ClusterSays != "SILENT" {
		t.Fatalf("the dry run says %+v", dry)
	}
	b.transition("t", "pledged")
	b.must(b.orderByAdmin("t", "force-failover"))
	b.refused("failover?force=true", "t", "already stopped")
	b.must(b.put("t", 1, 1, "on"))

	a.b, err = broker.Start(t.Context(), broker.Config{Dir: a.dir, Kafka: address, HTTP: "127.0.0.1:0", NodeID: 1})
	a.must(err)
	t.Cleanup(func() { stop(t, a.b) })
	a.connect()
	a.refuses("t")
	a.alter("cluster.link.paused", "false")
	a.status("t", "ACTIVE")
	a.ends("t", 1, 10)
	a.refuses("t")
	same(t, a, b, "t", 1)
	if _, err := admin.DeleteTopic(within(t), "t"); err != nil {
		t.Errorf("deleting it: %v", err)
	}
}

func TestFailoverEndsARestore(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 2)
	a.alter("cluster.link.paused", "true")
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "PENDING_RESTORE")
	a.transition("t", "paused")
	a.refuses("t")
	b.refused("truncate-and-restore", "t")
	a.again()
	a.status("t", "PENDING_RESTORE")
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 1, "on its own"))
	if got := strings.Join(a.values("t", 0), " "); got != "0:both-0 1:both-1 2:both-2 3:both-3 4:both-4 5:on its own-0" {
		t.Errorf("the topic has %s", got)
	}
	if got := strings.Join(a.values(a.quarantined("t"), 1), " "); got != "5:only A-0 6:only A-1 7:only A-2" {
		t.Errorf("the quarantine has %s", got)
	}
	a.alter("cluster.link.paused", "false")
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 2, 9)
	same(t, a, b, "t", 2)
}

// Rule T2: the old source's cleaner used the tail, which goes, to remove what both had. Cutting alone would lose it for good.
func TestT2_WhatTheTailCompactedAwayComesBack(t *testing.T) {
	t.Parallel()
	a, b := newSiteWith(t, "A", map[string]string{"log.cleaner.backoff.ms": "50"}), newSite(t, "B")
	b.link(a, a.link(b, "", nil), nil)
	text := func(v string) *string { return &v }
	made, err := kadm.NewClient(a.kgo).CreateTopic(within(t), 1, 1, map[string]*string{
		"cleanup.policy": text("compact"), "segment.ms": text("20"), "min.cleanable.dirty.ratio": text("0.01"), "min.compaction.lag.ms": text("0"),
	}, "t")
	if err == nil {
		err = made.Err
	}
	a.must(err)
	write := func(s *site, key, value string) {
		t.Helper()
		r := &kgo.Record{Topic: "t", Key: []byte(key), Value: []byte(value + strings.Repeat(".", 60))}
		s.must(s.kgo.ProduceSync(within(t), r).FirstErr())
		time.Sleep(30 * time.Millisecond) // the next one begins a segment
	}
	keys := func(s *site) map[string]bool {
		found := map[string]bool{}
		for _, v := range s.values("t", 0) {
			_, value, _ := strings.Cut(v, ":")
			value, _, _ = strings.Cut(value, ".")
			found[value] = true
		}
		return found
	}
	write(a, "k", "k1")
	write(a, "other", "o1")
	b.mirror("t")
	b.ends("t", 1, 2)
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	write(a, "k", "k2")
	for i := range 4 {
		write(a, fmt.Sprint("filler", i), "f")
	}
	for deadline := time.Now().Add(20 * time.Second); keys(a)["k1"]; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cleaner does not remove the older value")
		}
	}
	write(b, "new", "b1")
	if dry := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]; dry.ErrorMessage != nil || !dry.PartitionLevelTruncationData[0].FullCopy {
		t.Errorf("the dry run says %+v, want a full copy", dry)
	}
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	level(t, a, b, "t")
	same(t, a, b, "t", 1)
	if got := keys(a); !got["k1"] || got["k2"] {
		t.Errorf("the topic has %v, want k1 and not k2", got)
	}
}

// A pattern means what the other side mirrored, whether there is a record of it here or not.
func TestRestoreByPattern(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	for _, topic := range []string{"t1", "t2", "only-here"} {
		a.create(topic, 1)
		a.must(a.put(topic, 1, 2, "x"))
	}
	b.mirror("t1")
	b.mirror("t2")
	b.ends("t1", 1, 2)
	b.ends("t2", 1, 2)
	b.mustOrder("failover", "t1", "t2")
	b.status("t1", "STOPPED")
	b.status("t2", "STOPPED")
	a.must(a.put("t2", 1, 1, "cut off"))
	done, err := a.rest.Order(within(t), "ab", "truncate-and-restore", api.AlterMirrorsRequest{MirrorTopicNamePattern: ".*"}, rest.Do)
	a.must(err)
	if len(done) != 2 || done[0].MirrorTopicName != "t1" || done[1].MirrorTopicName != "t2" || done[0].ErrorMessage != nil || *done[1].MessagesTruncated != 1 {
		t.Fatalf("the pattern restored %+v", done)
	}
	a.status("t1", "ACTIVE")
	a.status("t2", "ACTIVE")
	a.must(a.put("only-here", 1, 1, "y"))
	if _, err := a.rest.Mirror(within(t), "ab", "only-here"); err == nil {
		t.Error("a topic that nobody mirrored has a record")
	}
}

// Rule P6: a transaction that is open on the old source when it is restored is aborted there, not left hanging.
func TestP6_ARestoreAbortsTheOldSourcesTransactions(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	tx := client(t, a.b, kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	a.must(tx.BeginTransaction())
	a.must(tx.ProduceSync(within(t), &kgo.Record{Topic: "t", Value: []byte("open")}).FirstErr())
	if dry := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]; len(dry.OpenTransactions) != 1 || dry.OpenTransactions[0].TransactionalID != "tx" {
		t.Errorf("the dry run shows open transactions %+v", dry.OpenTransactions)
	}
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 1, 9)
	bounded, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := tx.EndTransaction(bounded, kgo.TryCommit); err == nil {
		t.Error("the transaction was committed after its records were cut off")
	}
	same(t, a, b, "t", 1)
	// The id is not stuck: it begins anew on another topic.
	a.create("other", 1)
	again := client(t, a.b, kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	a.must(again.BeginTransaction())
	a.must(again.ProduceSync(within(t), &kgo.Record{Topic: "other", Value: []byte("x")}).FirstErr())
	a.must(again.EndTransaction(within(t), kgo.TryCommit))
}

// unlink deletes this site's half by force.
func (s *site) unlink() {
	s.t.Helper()
	s.must(s.rest.DeleteLink(within(s.t), "ab", rest.DeleteOptions{Force: true}))
}

// TestT4_RestoreOverALinkThatWasMadeAgain deletes both halves by force, one mirror STOPPED and one that was not, and restores over a new link: where the
// histories part is known from the topics themselves.
func TestT4_RestoreOverALinkThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 2)
	a.create("u", 1)
	a.must(a.put("u", 1, 5, "both"))
	b.mirror("u")
	b.ends("u", 1, 5)
	b.unlink()
	a.unlink()
	a.must(a.put("u", 1, 2, "only A"))
	b.must(b.put("u", 1, 1, "only B"))
	b.again() // what is known is stored
	b.link(a, a.link(b, "", nil), nil)
	a.mustOrder("truncate-and-restore", "t", "u")
	for topic, want := range map[string]struct {
		partitions int32
		end        int64
	}{"t": {2, 9}, "u": {1, 6}} {
		a.status(topic, "ACTIVE")
		a.ends(topic, want.partitions, want.end)
		same(t, a, b, topic, want.partitions)
		b.status(topic, "STOPPED")
	}
	if got := a.values(a.quarantined("t"), 0); len(got) != 3 || !strings.Contains(got[0], "only A") {
		t.Errorf("the quarantine has %q", got)
	}

	// And the other way, over one more link: now A is what was a mirror.
	a.unlink()
	b.unlink()
	a.link(b, b.link(a, "", nil), nil)
	a.must(a.put("t", 2, 1, "later"))
	b.must(b.put("t", 2, 2, "cut off"))
	b.mustOrder("truncate-and-restore", "t")
	b.status("t", "ACTIVE")
	b.ends("t", 2, 10)
	same(t, a, b, "t", 2)
}

// Rules T6, T10: of a chain A, B, C the middle is gone, and the end was failed over. A is restored from it, as from its own mirror: that C's topic is a
// copy of A's is known from B, which said so when C's mirror was made.
func TestT6_T10_ASourceIsRestoredFromTheMirrorOfItsMirror(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	c := newSite(t, "C")
	c.follow(b)
	linkBoth("ac", a, c)
	a.create("t", 2)
	a.must(a.put("t", 2, 5, "all"))
	b.mirror("t")
	b.ends("t", 2, 5)
	c.mirror("t")
	c.ends("t", 2, 5)
	restore := func(mode rest.Mode) api.AlteredMirror {
		t.Helper()
		done, err := a.rest.Order(within(t), "ac", "truncate-and-restore", api.AlterMirrorsRequest{MirrorTopicNames: []string{"t"}}, mode)
		a.must(err)
		return done[0]
	}
	if one := restore(rest.Do); one.ErrorMessage == nil || !strings.Contains(*one.ErrorMessage, "not STOPPED") {
		t.Errorf("a restore from a mirror that follows: %+v", one)
	}
	b.must(b.b.Close(context.Background()))
	c.mustOrder("failover", "t")
	c.status("t", "STOPPED")
	c.must(c.put("t", 2, 4, "only C"))
	a.must(a.put("t", 2, 3, "only A"))
	dry := restore(rest.ValidateOnly)
	if dry.ErrorMessage != nil || dry.MessagesTruncated == nil || *dry.MessagesTruncated != 6 {
		t.Errorf("the dry run says %+v", dry)
	}
	for _, part := range dry.PartitionLevelTruncationData {
		if part.OffsetTruncatedTo != 5 || part.FullCopy {
			t.Errorf("what both have stays: %+v", part)
		}
	}
	if got, err := c.rest.Mirror(within(t), "ab", "t"); err != nil || got.MirrorStatus != "STOPPED" {
		t.Errorf("a dry run left C's record at %+v, %v", got, err)
	}
	if one := restore(rest.Do); one.ErrorMessage != nil {
		t.Fatal(*one.ErrorMessage)
	}
	a.ends("t", 2, 9)
	same(t, a, c, "t", 2)
	if got := a.values(a.quarantined("t"), 0); len(got) != 3 || !strings.Contains(got[0], "only A") {
		t.Errorf("the quarantine has %q", got)
	}
	// C's topic is that of the link with A from now on, and the two change places like any others.
	a.stored("t", func(m *meta.Mirror) bool { return m.State == mirror.Active.String() })
	c.stored("t", func(m *meta.Mirror) bool { return m.Pledge == nil })
	done, err := a.rest.Order(within(t), "ac", "reverse-and-start-mirror", api.AlterMirrorsRequest{MirrorTopicNames: []string{"t"}}, rest.Do)
	a.must(err)
	if done[0].ErrorMessage != nil {
		t.Fatal(*done[0].ErrorMessage)
	}
	a.stored("t", func(m *meta.Mirror) bool { return m.State == mirror.Stopped.String() })
	a.must(a.put("t", 2, 1, "back"))
	level(t, a, c, "t")
	same(t, a, c, "t", 2)
}

// TestT4_NoRestoreWhereTheOriginIsAnother wants a new link to restore nothing that was not mirrored from this very topic.
func TestT4_NoRestoreWhereTheOriginIsAnother(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 1)
	a.unlink()
	b.unlink()
	if _, err := kadm.NewClient(a.kgo).DeleteTopics(within(t), "t"); err != nil {
		t.Fatal(err)
	}
	a.connect() // a client that does not remember the old topic's id
	a.create("t", 1)
	a.must(a.put("t", 1, 2, "new"))
	b.link(a, a.link(b, "", nil), nil)
	a.refused("truncate-and-restore", "t", "another topic")
	b.unlink()
	c := newSite(t, "C")
	c.create("t", 1)
	c.must(c.put("t", 1, 1, "C's own"))
	b.link(c, c.link(b, "", nil), nil)
	c.refused("truncate-and-restore", "t", "mirrored a topic of cluster "+a.b.ClusterID())
	for _, s := range []*site{a, b, c} {
		s.must(s.put("t", 1, 1, "still writable"))
	}
}
