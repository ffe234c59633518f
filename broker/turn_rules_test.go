package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
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

// Rule R1: the mirror was failed over in the middle. The source stays frozen until it is failed over, or restored: then it is never written to.
func TestR1_AnAbortedReversalEndsInARestore(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	a.refused("truncate-and-restore", "t", "not STOPPED")
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	b.must(b.put("t", 2, 4, "only B"))
	a.transition("t", "truncate and restore this topic")
	if dry := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]; dry.ErrorMessage != nil || dry.MessagesTruncated == nil || *dry.MessagesTruncated != 6 {
		t.Fatalf("the dry run says %+v", dry)
	}
	a.refuses("t")
	a.mustOrder("truncate-and-restore", "t")
	a.refuses("t")
	a.status("t", "ACTIVE")
	a.refuses("t")
	a.ends("t", 2, 9)
	same(t, a, b, "t", 2)
	if got := strings.Join(a.values(a.quarantined("t"), 1), " "); got != "5:late-0 6:late-1 7:late-2" {
		t.Errorf("the quarantine has %s", got)
	}
	b.alter("cluster.link.paused", "false")
	a.mustOrder("reverse-and-start-mirror", "t")
	a.status("t", "STOPPED")
	b.status("t", "ACTIVE")
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
	if have := a.values("t", 0); len(have) != 8 {
		t.Errorf("of a frozen topic %v can be read, want 8 records", have)
	}
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

// level waits until both sites end alike.
// A verb's dry run answers as the verb does, and changes nothing.
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
// Rule T5: what cannot be compared is copied again from the other side's start, and all that was here is kept in quarantine.
// Rule T1: a pledge to a restore that is over, though that was never said, does not bind for ever.
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

// again ends the site's broker and starts it on the same directory and port, after what is done to the directory meanwhile.
func (s *site) again(meanwhile ...func()) {
	s.t.Helper()
	s.kgo.Close()
	address := s.b.KafkaAddress()
	stop(s.t, s.b)
	for _, do := range meanwhile {
		do()
	}
	b, err := broker.Start(s.t.Context(), broker.Config{Dir: s.dir, Kafka: address, HTTP: "127.0.0.1:0", NodeID: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	s.b = b
	s.t.Cleanup(func() { stop(s.t, b) })
	s.connect()
}

func TestAReversalGoesOnAfterARestartOfBothSides(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	a.again()
	a.status("t", "PENDING_MIRROR")
	a.refuses("t")
	b.again()
	b.status("t", "PENDING_SYNCHRONIZE")
	b.refuses("t")
	b.alter("cluster.link.paused", "false")
	b.status("t", "STOPPED")
	a.status("t", "ACTIVE")
	b.must(b.put("t", 2, 1, "after"))
	a.ends("t", 2, 9)
	same(t, a, b, "t", 2)
}

// A restore that cannot go on is ended by failover, also once the tail is cut off: what is in the quarantine stays there.
// Rule R4: a freeze that arrives when its reversal is over, or never was, changes nothing.
func TestR4_ALateFreezeIsNotObeyed(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 1, "writable"))
	call, mirror := a.wire(b)
	for _, turn := range []string{plan.TurnID(mirror, 1), plan.TurnID(mirror, 2), plan.TurnID(kafka.NewTopicID(), 1), "nonsense"} {
		err := call(peer.Freeze, func(topic kafka.TopicID) []byte {
			return peer.FreezeRequest{Turn: turn, Topic: topic, Mirror: mirror, MirrorName: "t"}.Encode()
		})
		if kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("the freeze of %s is answered with %v", turn, err)
		}
	}
	a.must(a.put("t", 2, 1, "still writable"))
}

// wire asks this site about its topic t as the other one would; mirror is the id of the other one's topic.
func (s *site) wire(from *site) (call func(key peer.Key, body func(topic kafka.TopicID) []byte) error, mirror kafka.TopicID) {
	s.t.Helper()
	topics, err := kadm.NewClient(s.kgo).ListTopics(within(s.t), "t")
	s.must(err)
	mirrors, err := kadm.NewClient(from.kgo).ListTopics(within(s.t), "t")
	from.must(err)
	info, err := s.rest.Link(within(s.t), "ab")
	s.must(err)
	id, err := kafka.ParseTopicID(info.ClusterLinkID)
	s.must(err)
	c, err := source.Dial(source.Config{Bootstrap: []string{s.b.KafkaAddress()}, ClientID: "test", RequestTimeout: 10 * time.Second, DialTimeout: 5 * time.Second, MaxReadBytes: 100 << 20, MetadataAge: time.Second})
	s.must(err)
	s.t.Cleanup(c.Close)
	rq := peer.Request{Link: id, Caller: from.b.ClusterID(), Callee: s.b.ClusterID()}
	return func(key peer.Key, body func(kafka.TopicID) []byte) error {
		asked := rq
		asked.Ask = peer.Ask{Key: key, Topics: []string{"t"}, Body: body(kafka.TopicID(topics["t"].ID))}
		_, err := c.Call(within(s.t), &asked)
		return err
	}, kafka.TopicID(mirrors["t"].ID)
}

// handedOver is a reversal whose source has handed over, and whose mirror has not heard of it.
func handedOver(t *testing.T) (a, b *site) {
	t.Helper()
	a, b = halfTurned(t, "reverse-and-start-mirror")
	call, mirror := a.wire(b)
	hand := func(end kafka.Offset) error {
		return call(peer.HandOver, func(topic kafka.TopicID) []byte {
			return peer.HandOverRequest{Turn: plan.TurnID(mirror, 1), Topic: topic, Ends: []kafka.Offset{end, 8}}.Encode()
		})
	}
	if err := hand(7); kafka.CodeOf(err) != kafka.InvalidRequest {
		t.Errorf("R1: handed over at other ends than were frozen: %v", err)
	}
	a.must(hand(8))
	a.must(hand(8)) // a message may come twice
	a.status("t", "PENDING_MIRROR")
	a.refuses("t")
	return a, b
}

// Rule R2: failover of a source that was handed over asks the mirror first, which ends the reversal if it still can.
func TestR2_FailoverAfterTheHandOverAsksTheMirror(t *testing.T) {
	t.Parallel()
	a, b := handedOver(t)
	a.mustOrder("failover", "t")
	for deadline := time.Now().Add(20 * time.Second); a.put("t", 2, 1, "again") != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not take records again")
		}
	}
	b.refuses("t")
	b.alter("cluster.link.paused", "false")
	b.status("t", "ACTIVE")
	level(t, a, b, "t")
	same(t, a, b, "t", 2)
}

func TestR2_FailoverAfterTheHandOverNeedsForceWithoutTheMirror(t *testing.T) {
	t.Parallel()
	a, b := handedOver(t)
	stop(t, b.b)
	a.refused("failover", "t", "handed over", "Force")
	a.refuses("t")
	a.mustOrder("failover?force=true", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 1, "alone"))
}

// A second mirror of the source goes on through the turn, as a mirror of a mirror, and follows the new source's records.
func TestASecondMirrorGoesOnThroughATurn(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	c := newSite(t, "C")
	c.follow(a)
	a.create("t", 2)
	a.must(a.put("t", 2, 3, "first"))
	b.mirror("t")
	c.mirror("t")
	b.ends("t", 2, 3)
	c.ends("t", 2, 3)
	b.mustOrder("reverse-and-start-mirror", "t")
	b.status("t", "STOPPED")
	b.must(b.put("t", 2, 4, "second"))
	a.status("t", "ACTIVE")
	c.ends("t", 2, 7)
	same(t, b, c, "t", 2)
	// The new source's tail is lost: it is failed over from, and restored; what follows the middle is cut with it.
	a.mustOrder("failover", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 2, 2, "lost"))
	c.ends("t", 2, 9)
	b.must(b.put("t", 2, 1, "kept"))
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 2, 8)
	c.ends("t", 2, 8)
	same(t, b, c, "t", 2)
}

// linkBoth links two more sites by a bidirectional link of that name.
func linkBoth(name string, a, b *site) {
	a.t.Helper()
	id := ""
	for _, side := range [][2]*site{{a, b}, {b, a}} {
		set := func(name, value string) api.ConfigData { return api.ConfigData{Name: name, Value: &value} }
		made, err := side[0].rest.CreateLink(within(a.t), rest.NewLink{Name: name, Body: api.CreateLinkRequest{RemoteClusterID: side[1].b.ClusterID(), ClusterLinkID: id, Configs: []api.ConfigData{
			set("bootstrap.servers", side[1].b.KafkaAddress()), set("link.mode", "BIDIRECTIONAL"), set("metadata.max.age.ms", "1000"),
		}}})
		side[0].must(err)
		id = made.ClusterLinkID
	}
}

// Rule R1: the mirror completed the reversal and got into another one, with a third cluster, before its old source has heard so. It still says
// so, and the old source follows it.
func TestR1_ACompletedReversalIsToldFromTheNextTurn(t *testing.T) {
	t.Parallel()
	a, b := halfTurned(t, "reverse-and-start-mirror")
	c := newSite(t, "C")
	linkBoth("bc", b, c)
	nowhere, there := "127.0.0.1:1", b.b.KafkaAddress()
	a.alter("bootstrap.servers", nowhere) // A cannot ask any more; it still answers
	b.alter("cluster.link.paused", "false")
	b.status("t", "STOPPED")
	b.must(b.put("t", 2, 2, "second"))
	if _, err := c.rest.CreateMirror(within(t), "bc", api.CreateMirrorRequest{SourceTopicName: "t", Configs: []api.ConfigData{}}); err != nil {
		t.Fatal(err)
	}
	c.ends("t", 2, 10)
	done, err := c.rest.Order(within(t), "bc", "reverse-and-start-mirror", api.AlterMirrorsRequest{MirrorTopicNames: []string{"t"}}, rest.Do)
	c.must(err)
	if done[0].ErrorMessage != nil {
		t.Fatal(*done[0].ErrorMessage)
	}
	for deadline := time.Now().Add(20 * time.Second); c.put("t", 2, 1, "third") != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("C does not take records")
		}
	}
	a.status("t", "PENDING_MIRROR")
	a.refuses("t")
	a.alter("bootstrap.servers", there)
	a.status("t", "ACTIVE")
	level(t, a, c, "t")
	same(t, a, c, "t", 2)
	b.refuses("t")
}

// Rule X3: what a failover could lose is known, and grows, though the broker was started again while the source is dead.
func TestX3_RPOIsKnownAfterARestartWithADeadSource(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 1)
	a.must(a.put("t", 1, 5, "x"))
	b.mirror("t")
	b.ends("t", 1, 5)
	caughtUp := func() int64 {
		m, err := b.rest.Mirror(within(t), "ab", "t")
		b.must(err)
		if len(m.MirrorLags) != 1 || m.MirrorLags[0].CaughtUpMs == nil {
			return 0
		}
		return *m.MirrorLags[0].CaughtUpMs
	}
	var before int64
	for deadline := time.Now().Add(20 * time.Second); before == 0; time.Sleep(5 * time.Millisecond) {
		if before = caughtUp(); time.Now().After(deadline) {
			t.Fatal("the mirror does not say when it was level")
		}
	}
	a.kgo.Close()
	stop(t, a.b)
	dead := time.Now().UnixMilli()
	b.again()
	if after := caughtUp(); after < before || after > dead {
		t.Errorf("after the restart it was level at %d, want %d at least, and not after its source died at %d", after, before, dead)
	}
}
