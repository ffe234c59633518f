package txn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestIdempotentProducersGetDistinctIDs(t *testing.T) {
	w := newWorld(t)
	seen := map[int64]bool{}
	for range 2*idBlock + 1 {
		resp := w.InitProducerID(t.Context(), kmsg.NewPtrInitProducerIDRequest())
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Fatalf("answer %+v", resp)
		}
		seen[resp.ProducerID] = true
	}
}

func TestCommitWritesMarkersEverywhereBeforeItAnswers(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	parts := []kafka.TopicPartition{tp("a", 0), tp("a", 1), tp("b", 2)}
	want(t, "add", w.addTo(t.Context(), "x", who, parts...), kafka.None)
	rq := kmsg.NewPtrAddOffsetsToTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch, rq.Group = 3, "x", int64(who.producer), who.epoch, "g"
	want(t, "add offsets", kafka.ErrorCode(w.AddOffsetsToTxn(t.Context(), rq).ErrorCode), kafka.None)
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "commit", code, kafka.None)
	for _, at := range append(parts, tp(kafka.ConsumerOffsetsTopic, kafka.PartitionFor("g", 5))) {
		got := w.markersOn(at)
		if len(got) != 1 || got[0] != (marking{who.producer, who.epoch, batch.Commit, 4}) {
			t.Errorf("markers on %s: %s", at, show(got))
		}
	}
	_, code = w.endTo(t.Context(), "x", who, true, 3)
	want(t, "commit again", code, kafka.None)
	_, code = w.endTo(t.Context(), "x", who, false, 3)
	want(t, "abort after the commit", code, kafka.InvalidTxnState)
}

func TestP2_OnlyPartitionsOfTheOngoingTransactionAreConfirmed(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", who, tp("a", 0))
	for _, c := range []struct {
		what string
		id   string
		who  identity
		at   kafka.TopicPartition
		want kafka.ErrorCode
	}{
		{"in it", "x", who, tp("a", 0), kafka.None},
		{"not in it", "x", who, tp("a", 1), kafka.InvalidTxnState},
		{"foreign producer", "x", identity{77, 0}, tp("a", 0), kafka.InvalidProducerIDMapping},
		{"unknown id", "y", who, tp("a", 0), kafka.InvalidProducerIDMapping},
		{"old epoch", "x", identity{who.producer, who.epoch - 1}, tp("a", 0), kafka.InvalidProducerEpoch},
		{"newer epoch", "x", identity{who.producer, who.epoch + 1}, tp("a", 0), kafka.InvalidProducerEpoch},
	} {
		want(t, c.what, kafka.CodeOf(w.Confirm(t.Context(), c.id, c.at, c.who.producer, c.who.epoch, EnlistBefore)), c.want)
	}
	want(t, "implicit", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 1), who.producer, who.epoch, EnlistImplicit)), kafka.None)
	want(t, "after implicit", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 1), who.producer, who.epoch, EnlistBefore)), kafka.None)
	want(t, "implicit unknown partition", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 9), who.producer, who.epoch, EnlistImplicit)), kafka.UnknownTopicOrPartition)
	w.endTo(t.Context(), "x", who, true, 3)
	want(t, "after the commit", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 0), who.producer, who.epoch, EnlistBefore)), kafka.InvalidTxnState)
}

func TestInitFencesAndAbortsWhatWasLeftOpen(t *testing.T) {
	w := newWorld(t)
	old := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", old, tp("a", 0))
	_, code := w.init(t.Context(), "x")
	want(t, "init over an open transaction", code, kafka.ConcurrentTransactions)
	w.settled(t, "x")
	if got := w.markersOn(tp("a", 0)); len(got) != 1 || got[0].marker != batch.Abort || got[0].epoch != old.epoch+1 {
		t.Errorf("markers: %s", show(got))
	}
	fresh := w.mustInit(t, "x")
	if fresh.producer != old.producer || fresh.epoch <= old.epoch+1 {
		t.Errorf("new identity %+v after %+v", fresh, old)
	}
	want(t, "the old one adds", w.addTo(t.Context(), "x", old, tp("a", 0)), kafka.ProducerFenced)
	_, code = w.endTo(t.Context(), "x", old, true, 3)
	want(t, "the old one commits", code, kafka.ProducerFenced)
	_, code = w.endTo(t.Context(), "x", old, true, 1)
	want(t, "the old one commits with v1", code, kafka.InvalidProducerEpoch)
	_, code = w.initFrom(t.Context(), "x", old)
	want(t, "the old one recovers", code, kafka.ProducerFenced)
}

func TestInitIsRepeatable(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	next, code := w.initFrom(t.Context(), "x", who)
	want(t, "bump", code, kafka.None)
	again, code := w.initFrom(t.Context(), "x", who)
	want(t, "the same again", code, kafka.None)
	if next.epoch != who.epoch+1 || again != next {
		t.Errorf("%+v, then %+v, then %+v", who, next, again)
	}
}

func TestEpochsRunOutAndTheProducerIDChanges(t *testing.T) {
	for _, version := range []int16{3, 5} {
		w := newWorld(t)
		who := w.mustInit(t, "x")
		e := w.lookup("x")
		e.t.epoch = lastEpoch
		w.leave(e)
		worn := identity{who.producer, lastEpoch}
		want(t, "add", w.addTo(t.Context(), "x", worn, tp("a", 0)), kafka.None)
		after, code := w.endTo(t.Context(), "x", worn, true, version)
		want(t, "commit", code, kafka.None)
		if version >= 5 {
			if after.producer == who.producer || after.epoch != 0 {
				t.Errorf("v5 answered %+v", after)
			}
			if m := w.markersOn(tp("a", 0)); m[0].epoch != math.MaxInt16 {
				t.Errorf("marker %s", show(m))
			}
			again, code := w.endTo(t.Context(), "x", worn, true, version)
			want(t, "commit again", code, kafka.None)
			if again != after {
				t.Errorf("again answered %+v, first %+v", again, after)
			}
			continue
		}
		fresh, code := w.initFrom(t.Context(), "x", worn)
		want(t, "init", code, kafka.None)
		again, code := w.initFrom(t.Context(), "x", worn)
		want(t, "init again", code, kafka.None)
		if fresh.producer == who.producer || fresh.epoch != 0 || again != fresh {
			t.Errorf("init answered %+v, again %+v", fresh, again)
		}
	}
}

// Whoever had the id before its producer id was changed for another client must not be given that client's identity.
func TestKIP360_AZombieOfTheFormerProducerIDStaysFenced(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	e := w.lookup("x")
	e.t.epoch = lastEpoch
	w.leave(e)
	taken := w.mustInit(t, "x")
	if taken.producer == who.producer || taken.epoch != 0 {
		t.Fatalf("the client that takes over is %+v, the former one %+v", taken, who)
	}
	if got, code := w.initFrom(t.Context(), "x", identity{who.producer, lastEpoch}); code != kafka.ProducerFenced {
		t.Errorf("the former client is answered %v and %+v, the one that took over is %+v", code, got, taken)
	}
}

// An id that somebody is about to initialise has no producer yet, not one with the number that stands for none.
func TestNobodyIsTheProducerOfAnIDThatIsNotInitialised(t *testing.T) {
	w := newWorld(t)
	e := w.enter("x")
	e.mu.Unlock()
	none := identity{kafka.NoProducerID, 0}
	want(t, "add", w.addTo(t.Context(), "x", none, tp("a", 0)), kafka.InvalidProducerIDMapping)
	w.leave(w.enter("x"))
	if state := w.stateOf(t, "x"); kafka.ErrorCode(state.ErrorCode) != kafka.TransactionalIDNotFound {
		t.Errorf("it is described as %+v", state)
	}
}

func TestKIP890_EndTxnRaisesTheEpoch(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.Confirm(t.Context(), "x", tp("a", 0), who.producer, who.epoch, EnlistImplicit)
	after, code := w.endTo(t.Context(), "x", who, true, 5)
	want(t, "commit", code, kafka.None)
	if after != (identity{who.producer, who.epoch + 1}) {
		t.Errorf("answered %+v", after)
	}
	if m := w.markersOn(tp("a", 0)); m[0].epoch != after.epoch {
		t.Errorf("marker %s, want epoch %d", show(m), after.epoch)
	}
	w.restart(t)
	w.settled(t, "x")
	again, code := w.endTo(t.Context(), "x", who, true, 5)
	want(t, "commit again, after a restart", code, kafka.None)
	if again != after {
		t.Errorf("again answered %+v", again)
	}
	_, code = w.endTo(t.Context(), "x", who, false, 5)
	want(t, "abort with the old epoch", code, kafka.InvalidTxnState)
	want(t, "a late batch of the old epoch", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 0), who.producer, who.epoch, EnlistImplicit)), kafka.InvalidProducerEpoch)
	_, code = w.endTo(t.Context(), "x", after, true, 5)
	want(t, "commit without a transaction", code, kafka.InvalidTxnState)
	empty, code := w.endTo(t.Context(), "x", after, false, 5)
	want(t, "abort without a transaction", code, kafka.None)
	if empty.epoch != after.epoch+1 {
		t.Errorf("answered %+v", empty)
	}
}

func TestTimeOutAbortsAndFences(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			who := w.mustInit(t, "x")
			w.addTo(t.Context(), "x", who, tp("a", 0))
			time.Sleep(30 * time.Second)
			if restart {
				w.restart(t)
			}
			w.addTo(t.Context(), "x", who, tp("a", 1)) // does not begin the time anew
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if d := w.stateOf(t, "x"); d.State != "CompleteAbort" || d.ProducerEpoch != who.epoch+1 {
				t.Errorf("state %+v", d)
			}
			if m := w.markersOn(tp("a", 1)); len(m) != 1 || m[0].marker != batch.Abort {
				t.Errorf("markers %s", show(m))
			}
			for _, version := range []int16{3, 5} {
				_, code := w.endTo(t.Context(), "x", who, true, version)
				want(t, "commit after the time-out", code, kafka.ProducerFenced)
				_, code = w.endTo(t.Context(), "x", who, false, version)
				want(t, "abort after the time-out", code, kafka.ProducerFenced)
			}
			w.Close()
		})
	}
}

func TestAddIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	rq := kmsg.NewPtrAddPartitionsToTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch = 3, "x", int64(who.producer), who.epoch
	rq.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: []int32{0, 9}}, {Topic: "no", Partitions: []int32{0}}}
	resp := w.AddPartitionsToTxn(t.Context(), rq)
	wants := []kafka.ErrorCode{kafka.OperationNotAttempted, kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition}
	i := 0
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			want(t, topic.Topic, kafka.ErrorCode(p.ErrorCode), wants[i])
			i++
		}
	}
	if d := w.stateOf(t, "x"); d.State != "Empty" {
		t.Errorf("state %s", d.State)
	}
	w.refuse = kafka.Errorf(kafka.InvalidRequest, "frozen")
	want(t, "R5: a frozen partition", w.addTo(t.Context(), "x", who, tp("a", 0)), kafka.InvalidRequest)
}

func TestVerifyOnly(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", who, tp("a", 0))
	for version, outside := range map[int16]kafka.ErrorCode{4: kafka.InvalidTxnState, 5: kafka.TransactionAbortable} {
		rq := kmsg.NewPtrAddPartitionsToTxnRequest()
		rq.Version = version
		rq.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: "x", ProducerID: int64(who.producer), ProducerEpoch: who.epoch,
			VerifyOnly: true, Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "a", Partitions: []int32{0, 1}}}}}
		got := w.AddPartitionsToTxn(t.Context(), rq).Transactions[0].Topics[0].Partitions
		want(t, "in it", kafka.ErrorCode(got[0].ErrorCode), kafka.None)
		want(t, "not in it", kafka.ErrorCode(got[1].ErrorCode), outside)
	}
}

func TestR5_EmptyTransactionsAreListedAndAborted(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", who, tp("a", 0), tp("b", 0))
	if got := w.Holding("a"); len(got) != 1 || got[0].TransactionalID != "x" || !slices.Equal(got[0].Partitions, []kafka.TopicPartition{tp("a", 0)}) {
		t.Errorf("holding %+v", got)
	}
	n, err := w.AbortOn(t.Context(), "a")
	if n != 1 || err != nil {
		t.Fatalf("abort: %d, %v", n, err)
	}
	if got := w.Holding("a"); len(got) != 0 {
		t.Errorf("still holding %+v", got)
	}
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "commit after the abort", code, kafka.ProducerFenced)
}

func TestDeletedTopicDoesNotHoldATransactionUp(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", who, tp("a", 0), tp("b", 0))
	w.mu.Lock()
	w.topics["a"] = false
	w.mu.Unlock()
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "commit", code, kafka.None)
	if d := w.stateOf(t, "x"); d.State != "CompleteCommit" || len(w.markersOn(tp("b", 0))) != 1 {
		t.Errorf("state %s", d.State)
	}
}

func TestTxnOffsetCommitNeedsTheGroupsPartition(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	for _, c := range []struct {
		version int16
		want    kafka.ErrorCode
	}{{4, kafka.InvalidTxnState}, {5, kafka.None}, {4, kafka.None}} {
		rq := kmsg.NewPtrTxnOffsetCommitRequest()
		rq.Version, rq.TransactionalID, rq.Group, rq.ProducerID, rq.ProducerEpoch = c.version, "x", "g", int64(who.producer), who.epoch
		rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
		want(t, "txn offset commit", kafka.ErrorCode(w.Coordinator.TxnOffsetCommit(t.Context(), rq).Topics[0].Partitions[0].ErrorCode), c.want)
	}
}

func TestListTransactionsFilters(t *testing.T) {
	w := newWorld(t)
	x := w.mustInit(t, "x-1")
	w.mustInit(t, "y-1")
	w.addTo(t.Context(), "x-1", x, tp("a", 0))
	list := func(change func(*kmsg.ListTransactionsRequest)) (names []string) {
		rq := kmsg.NewPtrListTransactionsRequest()
		rq.Version, rq.DurationFilterMillis = 2, -1
		change(rq)
		resp := w.ListTransactions(t.Context(), rq)
		if resp.ErrorCode != 0 {
			return []string{kafka.ErrorCode(resp.ErrorCode).String()}
		}
		for _, s := range resp.TransactionStates {
			names = append(names, s.TransactionalID)
		}
		return append(names, resp.UnknownStateFilters...)
	}
	pattern := func(p string) func(*kmsg.ListTransactionsRequest) {
		return func(rq *kmsg.ListTransactionsRequest) { rq.TransactionalIDPattern = &p }
	}
	for _, c := range []struct {
		change func(*kmsg.ListTransactionsRequest)
		want   []string
	}{
		{func(*kmsg.ListTransactionsRequest) {}, []string{"x-1", "y-1"}},
		{func(rq *kmsg.ListTransactionsRequest) { rq.StateFilters = []string{"Ongoing", "Odd"} }, []string{"x-1", "Odd"}},
		{func(rq *kmsg.ListTransactionsRequest) { rq.StateFilters = []string{"Odd"} }, []string{"Odd"}},
		{func(rq *kmsg.ListTransactionsRequest) { rq.ProducerIDFilters = []int64{int64(x.producer)} }, []string{"x-1"}},
		{func(rq *kmsg.ListTransactionsRequest) { rq.DurationFilterMillis = 60_000 }, nil},
		{pattern("y.*"), []string{"y-1"}},
		{pattern("y"), nil},
		{pattern("("), []string{"INVALID_REGULAR_EXPRESSION"}},
	} {
		if got := list(c.change); !slices.Equal(got, c.want) {
			t.Errorf("listed %v, want %v", got, c.want)
		}
	}
}

func TestIdleIDsExpire(t *testing.T) {
	w := newWorld(t)
	w.cfg.IDExpiration = time.Hour
	w.restart(t)
	x := w.mustInit(t, "open")
	w.addTo(t.Context(), "open", x, tp("a", 0))
	w.mustInit(t, "idle")
	w.expire(time.Now().Add(59 * time.Minute))
	want(t, "too early", kafka.ErrorCode(w.stateOf(t, "idle").ErrorCode), kafka.None)
	w.expire(time.Now().Add(61 * time.Minute))
	want(t, "expired", kafka.ErrorCode(w.stateOf(t, "idle").ErrorCode), kafka.TransactionalIDNotFound)
	want(t, "open", kafka.ErrorCode(w.stateOf(t, "open").ErrorCode), kafka.None)
	_, code := w.init(t.Context(), "idle")
	want(t, "init after the expiry", code, kafka.None)
}

// A crash after any number of writes, of any kind, leaves each transaction decided one way in all its
// partitions, and the way that was answered.
func TestCrashBetweenAnyTwoWrites(t *testing.T) {
	parts := []kafka.TopicPartition{tp("a", 0), tp("a", 1), tp("b", 0)}
	for _, version := range []int16{3, 5} {
		for budget := 0; ; budget++ {
			w := newWorld(t)
			who := w.mustInit(t, "x")
			w.mu.Lock()
			before := w.writes
			w.budget = budget
			w.mu.Unlock()
			added := w.addTo(t.Context(), "x", who, parts...)
			ended := kafka.UnknownServerError
			if added == kafka.None {
				done := make(chan kafka.ErrorCode, 1)
				go func() {
					_, code := w.endTo(t.Context(), "x", who, true, version)
					done <- code
				}()
				ended = w.untilAnsweredOrCut(done)
			}
			w.mu.Lock()
			used := w.writes - before
			w.mu.Unlock()
			w.restart(t)
			w.settled(t, "x")
			checkOneWay(t, w, who, parts, added, ended)
			if t.Failed() {
				t.Fatalf("with version %d and %d writes", version, budget)
			}
			if used < budget {
				break // all writes were made: every cut has been tried
			}
		}
	}
}

// untilAnsweredOrCut waits for the answer, or until the budget is used up, when the broker is as good as dead.
func (w *world) untilAnsweredOrCut(done <-chan kafka.ErrorCode) kafka.ErrorCode {
	for {
		select {
		case code := <-done:
			return code
		case <-time.After(time.Millisecond):
			w.mu.Lock()
			cut := w.budget == 0
			w.mu.Unlock()
			if cut {
				return kafka.UnknownServerError
			}
		}
	}
}

func checkOneWay(t *testing.T, w *world, who identity, parts []kafka.TopicPartition, added, ended kafka.ErrorCode) {
	t.Helper()
	d := w.stateOf(t, "x")
	kinds := map[batch.Marker]int{}
	for _, at := range parts {
		for _, m := range w.markersOn(at) {
			kinds[m.marker]++
		}
	}
	switch {
	case len(kinds) > 1 || kinds[batch.Abort] > 0:
		t.Errorf("markers of both kinds, or an abort that nobody asked for: %v", kinds)
	case d.State == "PrepareCommit" || d.State == "PrepareAbort":
		t.Errorf("recovery left %s", d.State)
	case ended == kafka.None && d.State != "CompleteCommit":
		t.Errorf("answered as committed, and is %s", d.State)
	case added == kafka.None && d.State == "Empty":
		t.Error("answered as added, and is Empty")
	}
	if d.State == "CompleteCommit" {
		for _, at := range parts {
			if len(w.markersOn(at)) == 0 {
				t.Errorf("committed without a marker on %s", at)
			}
		}
	}
	if d.State == "Ongoing" {
		if len(kinds) > 0 {
			t.Error("markers of a transaction that is not decided")
		}
		if _, code := w.endTo(t.Context(), "x", who, true, 3); code != kafka.None {
			t.Errorf("commit after the restart: %v", code)
		}
	}
}

func TestMarkersThatFailAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.addTo(t.Context(), "x", who, tp("a", 0))
	w.mu.Lock()
	w.budget = 2 // the decision and its sync
	w.mu.Unlock()
	done := make(chan kafka.ErrorCode, 1)
	go func() {
		_, code := w.endTo(t.Context(), "x", who, true, 3)
		done <- code
	}()
	w.untilAnsweredOrCut(done)
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "commit while markers are written", code, kafka.ConcurrentTransactions)
	_, code = w.init(t.Context(), "x")
	want(t, "init while markers are written", code, kafka.ConcurrentTransactions)
	w.mu.Lock()
	w.budget = -1
	w.mu.Unlock()
	w.settled(t, "x")
	if d := w.stateOf(t, "x"); d.State != "CompleteCommit" {
		t.Errorf("state %s", d.State)
	}
}

func TestPartitionThatCannotBeReadTakesOnlyItsIDsOut(t *testing.T) {
	w := newWorld(t)
	w.mustInit(t, "x")
	l := w.states[kafka.PartitionFor("x", statePartitions)]
	b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID}, []batch.Record{{Key: encodeKey("x"), Value: []byte{0, 9, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	l.append(t.Context(), b)
	l.WaitSynced(t.Context(), l.next)
	c := newCoordinator(w.cfg, w.Coordinator.env, w.doors)
	rq := kmsg.NewPtrEndTxnRequest()
	rq.TransactionalID = "x"
	want(t, "before it is loaded", kafka.ErrorCode(c.EndTxn(t.Context(), rq).ErrorCode), kafka.CoordinatorLoadInProgress)
	if err := c.Load(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, "on a partition that cannot be read", kafka.ErrorCode(c.EndTxn(t.Context(), rq).ErrorCode), kafka.CoordinatorNotAvailable)
	other := "x"
	for i := 0; kafka.PartitionFor(other, statePartitions) == kafka.PartitionFor("x", statePartitions); i++ {
		other = fmt.Sprint("y", i)
	}
	rq.TransactionalID = other
	want(t, "on another", kafka.ErrorCode(c.EndTxn(t.Context(), rq).ErrorCode), kafka.InvalidProducerIDMapping)
	c.Close()
}

func TestEnlistTakesAllPartitionsWithOneWrite(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	before := w.writes
	parts := []kafka.TopicPartition{tp("a", 0), tp("a", 1), tp("b", 2)}
	want(t, "enlist", kafka.CodeOf(w.Enlist(t.Context(), "x", parts, who.producer, who.epoch)), kafka.None)
	if n := w.writes - before; n != 2 { // the record and its sync
		t.Errorf("%d writes", n)
	}
	for _, at := range parts {
		want(t, "confirm", kafka.CodeOf(w.Confirm(t.Context(), "x", at, who.producer, who.epoch, EnlistBefore)), kafka.None)
	}
	if n := w.writes - before; n != 2 {
		t.Errorf("%d writes after the confirmations", n)
	}
	want(t, "unknown partition", kafka.CodeOf(w.Enlist(t.Context(), "x", []kafka.TopicPartition{tp("a", 3), tp("a", 9)}, who.producer, who.epoch)), kafka.UnknownTopicOrPartition)
	want(t, "not half of it", kafka.CodeOf(w.Confirm(t.Context(), "x", tp("a", 3), who.producer, who.epoch, EnlistBefore)), kafka.InvalidTxnState)
	want(t, "fenced", kafka.CodeOf(w.Enlist(t.Context(), "x", parts, who.producer, who.epoch-1)), kafka.InvalidProducerEpoch)
}

func TestWriteTxnMarkersReachesDataAndOffsets(t *testing.T) {
	w := newWorld(t)
	rq := kmsg.NewPtrWriteTxnMarkersRequest()
	rq.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: 9, ProducerEpoch: 2, Committed: true, CoordinatorEpoch: 7, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{
		{Topic: "a", Partitions: []int32{0, 66}}, {Topic: kafka.ConsumerOffsetsTopic, Partitions: []int32{1}}}}}
	resp := w.WriteTxnMarkers(t.Context(), rq)
	wants := []kafka.ErrorCode{kafka.None, kafka.UnknownTopicOrPartition, kafka.None}
	i := 0
	for _, topic := range resp.Markers[0].Topics {
		for _, p := range topic.Partitions {
			want(t, topic.Topic, kafka.ErrorCode(p.ErrorCode), wants[i])
			i++
		}
	}
	for _, at := range []kafka.TopicPartition{tp("a", 0), tp(kafka.ConsumerOffsetsTopic, 1)} {
		if got := w.markersOn(at); len(got) != 1 || got[0] != (marking{9, 2, batch.Commit, 7}) {
			t.Errorf("markers on %s: %s", at, show(got))
		}
	}
}

func TestP3_IDsOfProducersThatWroteNothingAreKnown(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	w.mustInit(t, "y")
	w.restart(t)
	prefix := uint32(who.producer >> 32)
	if got := w.HighestProducer(prefix); got != who.producer+1 {
		t.Errorf("highest %d, want %d", got, who.producer+1)
	}
	if got := w.HighestProducer(prefix + 1); got != kafka.NoProducerID {
		t.Errorf("highest of another prefix %d", got)
	}
}

// The ids on a partition that came back were out of service until the next start.
func TestIDsComeBackWithTheirPartition(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	if code := w.addTo(t.Context(), "x", who, tp("a", 0)); code != kafka.None {
		t.Fatal(code)
	}
	n := kafka.PartitionFor("x", statePartitions)
	old := w.states[n]
	w.mu.Lock()
	old.down = errors.New("no room")
	w.mu.Unlock()
	w.restart(t)
	retry := func() {
		t.Helper()
		if err := w.Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	retry()
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "while the partition is out of service", code, kafka.CoordinatorNotAvailable)
	w.mu.Lock()
	w.states[n] = &stateFake{w: w, batches: old.batches, next: old.next, synced: old.synced}
	w.mu.Unlock()
	retry()
	if _, code := w.endTo(t.Context(), "x", who, true, 3); code != kafka.None {
		t.Errorf("end the transaction that was open: %v", code)
	}
	w.settled(t, "x")
	if m := w.markersOn(tp("a", 0)); len(m) != 1 || m[0].marker != batch.Commit {
		t.Errorf("markers %+v", m)
	}
}

// One bit that a disk changed in a stored state must not end, or begin, a transaction.
func TestADamagedStateTakesItsIDsOut(t *testing.T) {
	w := newWorld(t)
	who := w.mustInit(t, "x")
	l := w.states[kafka.PartitionFor("x", statePartitions)]
	l.batches[0][len(l.batches[0])-3] ^= 4
	w.restart(t)
	_, code := w.endTo(t.Context(), "x", who, true, 3)
	want(t, "on a damaged partition", code, kafka.CoordinatorNotAvailable)
}
