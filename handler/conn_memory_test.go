package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

// TestLargeRequestsTakeWhatIsReserved gives no memory beyond what all requests may have together, and counts what it gives.
func TestLargeRequestsTakeWhatIsReserved(t *testing.T) {
	c := &conn{server: &Server{memory: semaphore.NewWeighted(4 << 20)}}
	frame := []byte("begun")
	if got := c.larger(kmsg.JoinGroup.Int16(), frame, 2<<20); got != nil {
		t.Error("memory to be used again for a request that others keep parts of")
	}
	for _, n := range []int{keepBuffer, keepLarge + 1, 9 << 20} {
		if got := c.larger(kmsg.Produce.Int16(), frame, n); got != nil {
			t.Errorf("%d bytes were given", cap(got))
		}
	}
	if c.reserved != 0 {
		t.Errorf("%d bytes are counted and were not given", c.reserved)
	}
	got := c.larger(kmsg.Produce.Int16(), frame, 3<<20)
	if string(got) != "begun" || cap(got) < 3<<20 || cap(got) > 4<<20 {
		t.Fatalf("%q in %d bytes", got, cap(got))
	}
	if want := int64(cap(got) - 3<<20); c.reserved != want {
		t.Errorf("%d bytes are counted beyond those asked for, want %d", c.reserved, want)
	}
	c.in = got
	c.release()
	if !c.server.memory.TryAcquire(4 << 20) {
		t.Error("what was taken was not given back")
	}
}
