package partition

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// hints is told of each mark that is written.
func hints(st *storetest.Memory) chan string {
	told := make(chan string, 100)
	st.Hook(func(op storetest.Op) error {
		if op.Kind == "hint" {
			told <- op.Name
		}
		return nil
	})
	return told
}

// markedAfter is a bed of one open partition whose marks are written so long after the syncs.
func markedAfter(t *testing.T, delay time.Duration) (*bed, *storetest.Memory) {
	t.Helper()
	st := storetest.NewMemory()
	b := newBedOver(t, meta.RoleOpen, 1, st)
	b.must(b.Close())
	b.MarkDelay = delay
	b.open()
	return b, st
}

func TestASyncIsShownBeforeItIsMarked(t *testing.T) {
	b, st := markedAfter(t, time.Hour)
	told := hints(st)
	b.produce(0, made{values: []string{"a"}})
	b.synced(0)
	if o := b.p(0).Offsets(); o.HighWatermark != 1 {
		t.Fatalf("the high watermark is %d", o.HighWatermark)
	}
	select {
	case name := <-told:
		t.Fatalf("%s was written while somebody waited", name)
	default:
	}
	b.Owner.marker.pay()
	if name := <-told; name != "log-synced" {
		t.Fatalf("%s was written", name)
	}
	b.Owner.marker.pay() // nothing is owed
	if len(told) > 0 {
		t.Fatalf("%s was written again", <-told)
	}
}

func TestAMarkComesByItself(t *testing.T) {
	b, st := markedAfter(t, time.Millisecond)
	told := hints(st)
	for range 3 {
		b.produce(0, made{values: []string{"a"}})
		b.synced(0)
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatal("no mark is written")
		}
	}
}

func TestNoMarkIsWrittenForWhatIsGone(t *testing.T) {
	b, st := markedAfter(t, time.Hour)
	b.produce(0, made{values: []string{"a"}})
	b.synced(0)
	b.must(b.Delete(b.topic.ID, 1))
	told := hints(st)
	b.Owner.marker.pay()
	b.must(b.Close())
	b.Owner.marker.pay()
	if len(told) > 0 {
		t.Fatalf("%s was written", <-told)
	}
}
