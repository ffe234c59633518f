package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func always(kafka.TopicPartition) bool { return true }

func synced(at kafka.TopicPartition, o kafka.Offset) []Synced {
	return []Synced{{TopicPartition: at, Offset: o}}
}

func TestC21_GroupOffsetAboveMirrorEndIsClamped(t *testing.T) {
	b := newBroker(t, "t")
	b.setEnd(tp("t", 0), 90)
	for group, offset := range map[string]kafka.Offset{"a": 80, "b": 95} {
		if n, err := b.CommitSynced(t.Context(), group, synced(tp("t", 0), offset), always); n != 1 || err != nil {
			t.Fatalf("commit synced: %d, %v", n, err)
		}
	}
	b.wantOffset(t, "a", tp("t", 0), 80)
	b.wantOffset(t, "b", tp("t", 0), 90)
	b.setEnd(tp("t", 0), 100)
	b.wantOffset(t, "b", tp("t", 0), 90) // the clamped value was stored, not shown only
	b.restart(t)
	b.wantOffset(t, "b", tp("t", 0), 90)
}

func TestC21_OffsetFetchNeverAnswersAboveTheHighWatermarkOfAMirror(t *testing.T) {
	b := newBroker(t, "t", "mirrored")
	b.mirror = "mirrored"
	for topic, want := range map[string]struct {
		offset int64
		epoch  int32
	}{"mirrored": {100, -1}, "t": {500, 3}} { // Kafka gives back what was committed, whatever there is to read
		b.commit(t, "g", tp(topic, 0), 500, nil)
		b.setEnd(tp(topic, 0), 100)
		if got := b.fetch(t, "g", tp(topic, 0)); got.Offset != want.offset || got.LeaderEpoch != want.epoch {
			t.Errorf("%s: got offset %d epoch %d, want %d and %d", topic, got.Offset, got.LeaderEpoch, want.offset, want.epoch)
		}
	}
}

func TestC21_ClampLowersAtTheStopPointAndSurvivesARestart(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "low", tp("t", 0), 80, nil)
	b.commit(t, "high", tp("t", 0), 95, nil)
	b.commit(t, "high", tp("t", 1), 95, nil)
	lowered, err := b.Clamp(t.Context(), "t", []kafka.Offset{90, 100})
	if lowered != 1 || err != nil {
		t.Fatalf("clamp: %d, %v", lowered, err)
	}
	b.restart(t)
	b.wantOffset(t, "low", tp("t", 0), 80)
	b.wantOffset(t, "high", tp("t", 0), 90)
	b.wantOffset(t, "high", tp("t", 1), 95)
}

func TestC22_OffsetZeroIsARealCommit(t *testing.T) {
	b := newBroker(t, "t")
	if n, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 0), always); n != 1 || err != nil {
		t.Fatalf("commit synced: %d, %v", n, err)
	}
	b.wantOffset(t, "g", tp("t", 0), 0)
	b.wantOffset(t, "g", tp("t", 1), -1)
}

func TestC23_GroupInUseIsNotRewound(t *testing.T) {
	b := newBroker(t, "t")
	m := b.member(t, "g")
	m.commit(t, tp("t", 0), 100)
	_, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 60), always)
	if !errors.Is(err, kafka.NonEmptyGroup) {
		t.Fatalf("commit synced: %v, want NON_EMPTY_GROUP", err)
	}
	b.wantOffset(t, "g", tp("t", 0), 100)
	if code := m.heartbeat(t); code != kafka.None {
		t.Errorf("heartbeat: %v", code)
	}
}

func TestC24_ResetToAnOlderOffsetComesOver(t *testing.T) {
	b := newBroker(t, "t")
	for _, o := range []kafka.Offset{100, 10, 700} {
		if n, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), o), always); n != 1 || err != nil {
			t.Fatalf("commit synced %d: %d, %v", o, n, err)
		}
		b.wantOffset(t, "g", tp("t", 0), int64(o))
	}
	if n, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 700), always); n != 0 || err != nil {
		t.Errorf("an equal value was written again: %d, %v", n, err)
	}
}

func TestC25_CommitMetadataTextSurvives(t *testing.T) {
	b := newBroker(t, "t")
	texts := []string{"", "x", "é☃", "a\u0000b", strings.Repeat("m", 4000)}
	for i, text := range texts {
		group := "m" + string(rune('0'+i))
		list := []Synced{{tp("t", 0), kafka.Offset(i), text}}
		if _, err := b.CommitSynced(t.Context(), group, list, always); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		for i, text := range texts {
			got := b.fetch(t, "m"+string(rune('0'+i)), tp("t", 0))
			if got.Offset != int64(i) || got.Metadata == nil || *got.Metadata != text {
				t.Errorf("metadata %q came back as offset %d, %v", text, got.Offset, got.Metadata)
			}
		}
	}
	check()
	b.restart(t)
	check()
	if code := b.commit(t, "null", tp("t", 0), 7, nil); code != kafka.None {
		t.Fatalf("commit of null metadata: %v", code)
	}
	for version := int16(1); version <= 9; version++ {
		rq := kmsg.NewPtrOffsetFetchRequest()
		rq.Version, rq.Group = version, "null"
		rq.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		rq.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "null", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
		resp := b.OffsetFetch(t.Context(), someone, rq)
		var got *string
		if version < 8 {
			got = resp.Topics[0].Partitions[0].Metadata
		} else {
			got = resp.Groups[0].Topics[0].Partitions[0].Metadata
		}
		if got == nil || *got != "" {
			t.Errorf("v%d: null metadata reads back as %v, want ''", version, got)
		}
	}
}

func TestC28_OnlyLiveMirrorsOfTheLinkAreWritten(t *testing.T) {
	b := newBroker(t, "t1", "t2")
	b.commit(t, "g", tp("t2", 0), 5, nil)
	list := append(synced(tp("t1", 0), 50), append(synced(tp("t2", 0), 60), synced(tp("t3", 0), 70)...)...)
	n, err := b.CommitSynced(t.Context(), "g", list, func(at kafka.TopicPartition) bool { return at.Topic != "t2" })
	if n != 1 || err != nil {
		t.Fatalf("commit synced: %d, %v", n, err)
	}
	b.wantOffset(t, "g", tp("t1", 0), 50)
	b.wantOffset(t, "g", tp("t2", 0), 5)
	b.wantOffset(t, "g", tp("t3", 0), -1)
}

func TestC30_GroupsWithoutMembersCanBeTakenOver(t *testing.T) {
	b := newBroker(t, "t")
	if _, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 42), always); err != nil {
		t.Fatal(err)
	}
	m := b.member(t, "g")
	b.wantOffset(t, "g", tp("t", 0), 42)
	m.commit(t, tp("t", 0), 43)
	b.wantOffset(t, "g", tp("t", 0), 43)
}

func TestC85_OffsetCommitRules(t *testing.T) {
	b := newBroker(t, "t")
	long := strings.Repeat("x", 4097)
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation = 8, "g", -1
	for _, at := range []kafka.TopicPartition{tp("t", 0), tp("t", 9), tp("unknown", 0), tp("t", 1)} {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = at.Partition, 5
		if at == tp("t", 1) {
			part.Metadata = &long
		}
		rq.Topics = append(rq.Topics, kmsg.OffsetCommitRequestTopic{Topic: at.Topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}})
	}
	want := []kafka.ErrorCode{kafka.None, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition, kafka.OffsetMetadataTooLarge}
	for i, topic := range b.OffsetCommit(t.Context(), someone, rq).Topics {
		if got := kafka.ErrorCode(topic.Partitions[0].ErrorCode); got != want[i] {
			t.Errorf("%s: %v, want %v", rq.Topics[i].Topic, got, want[i])
		}
	}
	b.wantOffset(t, "g", tp("t", 0), 5)
	b.wantOffset(t, "g", tp("t", 1), -1)
	for _, c := range []struct {
		version, generation int16
		want                kafka.ErrorCode
	}{{8, 3, kafka.IllegalGeneration}, {9, 3, kafka.GroupIDNotFound}} {
		rq := kmsg.NewPtrOffsetCommitRequest()
		rq.Version, rq.Group, rq.Generation, rq.MemberID = c.version, "nobody", int32(c.generation), "m"
		rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0}}}}
		if got := kafka.ErrorCode(b.OffsetCommit(t.Context(), someone, rq).Topics[0].Partitions[0].ErrorCode); got != c.want {
			t.Errorf("v%d: %v, want %v", c.version, got, c.want)
		}
	}
}

func TestC90_CommitsOnADeletedTopicVanish(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "g", tp("t", 0), 7, nil)
	b.deleteTopic("t")
	b.wantOffset(t, "g", tp("t", 0), -1)
	b.makeTopic("t")
	b.wantOffset(t, "g", tp("t", 0), -1) // by the id alone, before anything was cleaned up
	b.TopicDeleted(t.Context(), "t")
	b.restart(t)
	b.wantOffset(t, "g", tp("t", 0), -1)
	if groups := b.all(); len(groups) != 0 {
		t.Errorf("%d groups are left that hold nothing", len(groups))
	}
}

func TestC92_NothingExpiresWhileRebalancing(t *testing.T) {
	b := newBroker(t, "t")
	b.cfg.OffsetsRetention = time.Minute
	b.restart(t)
	m := b.member(t, "g")
	m.commit(t, tp("t", 0), 9)
	b.rejoin(t, m) // PreparingRebalance: a second member has not come back
	b.expire(time.Now().Add(2 * time.Minute))
	b.wantOffset(t, "g", tp("t", 0), 9)
}

func TestExpiryFollowsTheGroup(t *testing.T) {
	b := newBroker(t, "t", "other")
	b.commit(t, "simple", tp("t", 0), 1, nil)
	m := b.member(t, "g")
	m.commit(t, tp("t", 0), 2)
	m.commit(t, tp("other", 0), 3)
	b.expire(time.Now().Add(b.cfg.OffsetsRetention + time.Minute))
	b.wantOffset(t, "simple", tp("t", 0), -1)
	b.wantOffset(t, "g", tp("t", 0), 2)      // subscribed
	b.wantOffset(t, "g", tp("other", 0), -1) // not subscribed
	m.leave(t)
	b.expire(time.Now().Add(b.cfg.OffsetsRetention - time.Minute))
	b.wantOffset(t, "g", tp("t", 0), 2)
	b.expire(time.Now().Add(b.cfg.OffsetsRetention + time.Minute))
	b.wantOffset(t, "g", tp("t", 0), -1)
	b.restart(t)
	if groups := b.all(); len(groups) != 0 {
		t.Errorf("%d groups are left after everything expired", len(groups))
	}
}

func TestCommitIsAnsweredOnlyOnceItIsSynced(t *testing.T) {
	b := newBroker(t, "t")
	log := b.groupLog("g")
	log.hold = true
	done := make(chan kafka.ErrorCode, 1)
	go func() { done <- b.commit(t, "g", tp("t", 0), 5, nil) }()
	log.mu.Lock()
	for log.next == 0 {
		log.changed.Wait()
	}
	log.mu.Unlock()
	select {
	case code := <-done:
		t.Fatalf("answered %v before the sync", code)
	default:
	}
	log.release()
	if code := <-done; code != kafka.None {
		t.Fatalf("commit: %v", code)
	}
}

func TestUnsyncedCommitIsNotShown(t *testing.T) {
	b := newBroker(t, "t")
	log := b.groupLog("g")
	log.hold = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation = 8, "g", -1
	rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 5}}}}
	if code := b.OffsetCommit(ctx, someone, rq).Topics[0].Partitions[0].ErrorCode; code == 0 {
		t.Fatal("a commit that was not synced was acknowledged")
	}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 5, "g"
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	if resp := b.OffsetFetch(ctx, someone, fetch); resp.ErrorCode == 0 {
		t.Errorf("shown before the sync: %+v", resp.Topics)
	}
}

func TestFailedAppendChangesNothing(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "g", tp("t", 0), 5, nil)
	b.groupLog("g").fail = errCut
	if code := b.commit(t, "g", tp("t", 0), 6, nil); code != kafka.CoordinatorNotAvailable {
		t.Errorf("commit: %v, want COORDINATOR_NOT_AVAILABLE", code)
	}
	b.wantOffset(t, "g", tp("t", 0), 5)
}

func (b *broker) txnCommit(t *testing.T, group string, id int64, at kafka.TopicPartition, offset int64) kafka.ErrorCode {
	t.Helper()
	rq := kmsg.NewPtrTxnOffsetCommitRequest()
	rq.Version, rq.Group, rq.ProducerID, rq.Generation = 3, group, id, -1
	rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: at.Topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: at.Partition, Offset: offset}}}}
	return kafka.ErrorCode(b.TxnOffsetCommit(t.Context(), rq).Topics[0].Partitions[0].ErrorCode)
}

func (b *broker) mark(t *testing.T, group string, id int64, m batch.Marker) {
	t.Helper()
	if err := b.WriteMarker(t.Context(), kafka.PartitionFor(group, fakePartitions), kafka.ProducerID(id), 0, m, 0); err != nil {
		t.Fatal(err)
	}
}

func TestC95_PendingOffsetsCountAfterTheMarker(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBroker(t, "t")
		again := func() {
			if restart {
				b.restart(t)
			}
		}
		b.commit(t, "g", tp("t", 0), 1, nil)
		if code := b.txnCommit(t, "g", 77, tp("t", 0), 10); code != kafka.None {
			t.Fatalf("txn offset commit: %v", code)
		}
		again()
		b.wantOffset(t, "g", tp("t", 0), 1)
		if got := b.fetchStable(t, "g", tp("t", 0), true); kafka.ErrorCode(got.ErrorCode) != kafka.UnstableOffsetCommit {
			t.Errorf("require_stable answers %v, want UNSTABLE_OFFSET_COMMIT", kafka.ErrorCode(got.ErrorCode))
		}
		b.mark(t, "g", 77, batch.Commit)
		again()
		b.wantOffset(t, "g", tp("t", 0), 10)
		b.txnCommit(t, "g", 77, tp("t", 0), 20)
		b.mark(t, "g", 77, batch.Abort)
		again()
		b.wantOffset(t, "g", tp("t", 0), 10)
		// A commit outside the transaction that came later stays.
		b.txnCommit(t, "g", 77, tp("t", 0), 30)
		b.commit(t, "g", tp("t", 0), 25, nil)
		b.mark(t, "g", 77, batch.Commit)
		again()
		b.wantOffset(t, "g", tp("t", 0), 25)
	}
}

func TestT8_ClampHoldsForPendingTransactionalOffsets(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBroker(t, "t")
		b.txnCommit(t, "g", 77, tp("t", 0), 140)
		if n, err := b.Clamp(t.Context(), "t", []kafka.Offset{100}); n != 1 || err != nil {
			t.Fatalf("clamp: %d, %v", n, err)
		}
		if restart {
			b.restart(t)
		}
		b.mark(t, "g", 77, batch.Commit)
		b.wantOffset(t, "g", tp("t", 0), 100)
	}
}

func TestPartitionForIsJavas(t *testing.T) {
	// Values of Java's Math.abs("…".hashCode()) % 50.
	for name, want := range map[string]int32{"": 0, "a": 97 % 50, "ab": 3105 % 50, "console-consumer-1": javaHash("console-consumer-1") % 50,
		"polygenelubricants": 0 /* hash is -2^31, Kafka's abs makes it 0 */} {
		if got := kafka.PartitionFor(name, 50); got != want {
			t.Errorf("PartitionFor(%q) = %d, want %d", name, got, want)
		}
	}
}

func javaHash(s string) int32 {
	var h int32
	for i := range len(s) {
		h = h*31 + int32(s[i])
	}
	return max(h, -h)
}

func TestPartitionThatCannotBeReadTakesOnlyItsGroupsOut(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "g", tp("t", 0), 5, nil)
	other := "g"
	for i := 0; kafka.PartitionFor(other, fakePartitions) == kafka.PartitionFor("g", fakePartitions); i++ {
		other = fmt.Sprint("other", i)
	}
	b.commit(t, other, tp("t", 0), 6, nil)
	bad := encodeBatch([]record{{key: offsetKey("g", tp("t", 1)), value: []byte{0, 9}}}, producer{}, time.Now())
	if _, err := b.groupLog("g").add(bad); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	b.wantOffset(t, other, tp("t", 0), 6)
	if code := b.commit(t, "g", tp("t", 0), 7, nil); code != kafka.CoordinatorNotAvailable {
		t.Errorf("commit: %v, want COORDINATOR_NOT_AVAILABLE", code)
	}
	if len(b.all()) != 1 {
		t.Errorf("%d groups are shown", len(b.all()))
	}
}

func TestCloseAfterALoadThatWasBrokenOff(t *testing.T) {
	b := newBroker(t, "t")
	long := strings.Repeat("m", 4096) // so that each is read by itself
	b.commit(t, "g", tp("t", 0), 5, &long)
	b.commit(t, "g", tp("t", 1), 6, &long)
	ctx, stop := context.WithCancel(t.Context())
	unread := newCoordinator(b.cfg, b.env(), func(_ context.Context, n int32) (offsetsLog, error) {
		return stoppingLog{b.logOf(n), stop}, nil
	})
	if err := unread.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("load: %v", err)
	}
	unread.Close()
}

// stoppingLog ends the broker while the first records are being read.
type stoppingLog struct {
	*fakeLog
	stop func()
}

func (l stoppingLog) Batches(from kafka.Offset) (batch.Batches, error) {
	bs, err := l.fakeLog.Batches(from)
	if len(bs) > 0 {
		l.stop()
	}
	return bs, err
}

func TestNamesThatCannotBeStoredAreRefused(t *testing.T) {
	b := newBroker(t, "t")
	long := strings.Repeat("x", 1<<15)
	if code := b.commit(t, long, tp("t", 0), 5, nil); code != kafka.InvalidGroupID {
		t.Errorf("commit: %v", code)
	}
	m := &member{b: b, group: "g", topics: []string{"t"}}
	for what, change := range map[string]func(*kmsg.JoinGroupRequest){
		"group":    func(rq *kmsg.JoinGroupRequest) { rq.Group = long },
		"instance": func(rq *kmsg.JoinGroupRequest) { rq.InstanceID = &long },
		"type":     func(rq *kmsg.JoinGroupRequest) { rq.ProtocolType = long },
		"protocol": func(rq *kmsg.JoinGroupRequest) { rq.Protocols[0].Name = long },
		"member":   func(rq *kmsg.JoinGroupRequest) { rq.MemberID = long },
	} {
		rq := m.joinRequest()
		change(rq)
		if code := kafka.ErrorCode(b.JoinGroup(t.Context(), someone, rq).ErrorCode); code != kafka.InvalidRequest && code != kafka.InvalidGroupID {
			t.Errorf("%s: %v", what, code)
		}
	}
	c := &consumer{b: b, group: "g", id: long}
	if code := c.join(t, "t"); code != kafka.InvalidRequest {
		t.Errorf("consumer: %v", code)
	}
	if _, err := b.CommitSynced(t.Context(), long, synced(tp("t", 0), 1), always); err == nil {
		t.Error("synced")
	}
}

func TestEverythingCommittedIsListed(t *testing.T) {
	b := newBroker(t, "t", "u")
	for i, at := range []kafka.TopicPartition{tp("u", 1), tp("t", 2), tp("t", 0)} {
		b.commit(t, "g", at, int64(i), nil)
	}
	b.commit(t, "other", tp("t", 0), 9, nil)
	for _, version := range []int16{2, 7, 8, 9} {
		rq := kmsg.NewPtrOffsetFetchRequest()
		rq.Version, rq.Group, rq.Groups = version, "g", []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
		resp := b.OffsetFetch(t.Context(), someone, rq)
		var got []string
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				got = append(got, fmt.Sprint(tp(topic.Topic, p.Partition), p.Offset))
			}
		}
		for _, g := range resp.Groups {
			for _, topic := range g.Topics {
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprint(tp(topic.Topic, p.Partition), p.Offset))
				}
			}
		}
		if want := []string{"t-0 2", "t-2 1", "u-1 0"}; !slices.Equal(got, want) {
			t.Errorf("v%d: %v, want %v", version, got, want)
		}
	}
	all := b.Committed("t")
	if len(all) != 2 || len(all["g"]) != 2 || all["other"][0].Offset != 9 {
		t.Errorf("committed on t: %v", all)
	}
	b.deleteTopic("t")
	if all := b.Committed("t"); len(all) != 0 {
		t.Errorf("committed on a deleted topic: %v", all)
	}
}

func TestPendingOffsetsOfAConsumerGroupAreChecked(t *testing.T) {
	b := newBroker(t, "t")
	m := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join", m.join(t, "t"), kafka.None)
	for _, c := range []struct {
		member string
		epoch  int32
		want   kafka.ErrorCode
	}{{"m1", m.epoch, kafka.None}, {"m1", m.epoch + 1, kafka.IllegalGeneration}, {"m9", m.epoch, kafka.UnknownMemberID}, {"", -1, kafka.None}} {
		rq := kmsg.NewPtrTxnOffsetCommitRequest()
		rq.Version, rq.Group, rq.ProducerID, rq.Generation, rq.MemberID = 3, "g", 77, c.epoch, c.member
		rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 4}}}}
		need(t, c.member, kafka.ErrorCode(b.TxnOffsetCommit(t.Context(), rq).Topics[0].Partitions[0].ErrorCode), c.want)
	}
}
