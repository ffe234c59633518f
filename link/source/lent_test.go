package source

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
)

// borrower fetches partition 0 of t over one session.
type borrower struct {
	*testing.T
	stub    *stubtest.Cluster
	session fetcher.Session
	want    fetcher.Want
}

func newBorrower(t *testing.T, version int16) *borrower {
	t.Helper()
	stub := stubtest.NewCluster(t, 1)
	stub.Create("t", kafka.TopicID{1}, 1)
	stub.Broker(1).MaxFetch(version)
	cluster, err := Dial(Config{Bootstrap: stub.Bootstrap(), RequestTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	session, err := cluster.Session(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	leaders, err := cluster.Leaders(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	return &borrower{T: t, stub: stub, session: session, want: fetcher.Want{TopicPartition: kafka.TopicPartition{Topic: "t"}, TopicID: leaders.TopicID,
		LastEpoch: kafka.NoEpoch, CurrentEpoch: leaders.List[0].Epoch, MaxBytes: 8 << 20}}
}

func (b *borrower) produce(n int, value string) {
	b.Helper()
	b.stub.Partition(b.want.TopicPartition).Produce(n, value)
}

// fetch gives what comes from the offset wanted, in the memory.
func (b *borrower) fetch(memory *fetcher.Memory) []byte {
	b.Helper()
	got, err := b.session.Fetch(b.Context(), []fetcher.Want{b.want}, fetcher.Ask{MaxWait: time.Second, MinBytes: 1, MaxBytes: 8 << 20, Memory: memory})
	if err != nil || len(got) != 1 || got[0].Err != nil {
		b.Fatalf("fetch: %v, %v", got, err)
	}
	return got[0].Batches
}

// within reports whether the bytes are in the memory.
func within(memory *fetcher.Memory, b []byte) bool {
	room := memory.Take(1)
	room = room[:cap(room)]
	for at := range room {
		if &room[at] == &b[0] {
			return true
		}
	}
	return false
}

func TestALongAnswerIsReadIntoLentMemory(t *testing.T) {
	for _, version := range []int16{4, 7, 11, 12, 13, 17} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			b := newBorrower(t, version)
			b.produce(3, strings.Repeat("abc", 50<<10))
			whole := b.fetch(nil)
			if !bytes.Equal(whole, b.stub.Partition(b.want.TopicPartition).Bytes()) {
				t.Fatal("without memory the bytes are others")
			}
			memory := new(fetcher.Memory)
			for range 3 {
				b.want.Offset = 1 - b.want.Offset // a session answers what changed
				b.produce(1, strings.Repeat("x", 100<<10))
				got := b.fetch(memory)
				if b.want.Offset == 0 && !bytes.Equal(got, b.stub.Partition(b.want.TopicPartition).Bytes()) {
					t.Error("the bytes are others")
				}
				if !within(memory, got) {
					t.Error("the bytes are not in the memory lent")
				}
			}
		})
	}
}

func TestAShortAnswerNeedsNoLentMemory(t *testing.T) {
	b := newBorrower(t, 17)
	b.produce(1, "short")
	memory := new(fetcher.Memory)
	if got := b.fetch(memory); len(got) == 0 || within(memory, got) {
		t.Errorf("%d bytes, in lent memory or none at all", len(got))
	}
}

// No room is made for an answer that is longer than any that is taken, nor for one to another question.
func TestWhatIsNotTheAnswerIsPassedOn(t *testing.T) {
	for name, head := range map[string][]byte{
		"longer than the most":       {0, 0x20, 0, 0, 0, 0, 0, 7},
		"a negative length":          {0xff, 0, 0, 0, 0, 0, 0, 7},
		"another correlation id":     {0, 8, 0, 0, 0, 0, 0, 8},
		"short":                      {0, 0, 0, 8, 0, 0, 0, 7},
		"not even a correlation id.": {0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			memory := new(fetcher.Memory)
			c := newLending(near, func() *lent { return &lent{memory: memory} }, 1<<20)
			go func() {
				defer far.Close()
				_, _ = io.ReadFull(far, make([]byte, requestHead)) // a pipe in memory does not fail
				_, _ = far.Write(head)
			}()
			request := []byte{0, 0, 0, requestHead - 4, 0, fetchKey, 0, 17, 0, 0, 0, 7}
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(head))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, head) {
				t.Errorf("what came is %v, %v", got, err)
			}
			if room := cap(memory.Take(1)); room > 1<<20 {
				t.Errorf("room was made for %d bytes", room)
			}
		})
	}
}

// The library rests as the source asks, whoever reads the answer.
func TestARestIsTakenAfterAnAnswerInLentMemory(t *testing.T) {
	b := newBorrower(t, 17)
	b.produce(3, strings.Repeat("x", 50<<10))
	const rest = 300 * time.Millisecond
	b.stub.Broker(1).Throttle(rest)
	begun := time.Now()
	b.fetch(new(fetcher.Memory))
	b.stub.Broker(1).Throttle(0)
	b.want.Offset = 1
	b.fetch(new(fetcher.Memory))
	if took := time.Since(begun); took < rest {
		t.Errorf("two answers came within %v, without a rest of %v between them", took, rest)
	}
}

// While one connection may still be read from, the next answer goes elsewhere, and so do those after it.
func TestMemoryIsLentOnce(t *testing.T) {
	memory := new(fetcher.Memory)
	before := memory.Take(100)
	l := &lent{memory: memory}
	first, second := l.room(100), l.room(100)
	if &first[0] != &before[0] || &second[0] == &first[0] {
		t.Error("the first answer is to have the memory, and the second not")
	}
	if after := memory.Take(100); &after[0] == &first[0] || &after[0] == &second[0] {
		t.Error("memory that may still be written to was lent again")
	}
}

func TestAnAnswerThatIsNoneIsTold(t *testing.T) {
	l := &lent{memory: new(fetcher.Memory)}
	l.put(17, []byte{1, 2, 3})
	if _, err := l.answer(kmsg.NewPtrFetchResponse()); err == nil || !strings.Contains(err.Error(), "read the answer to a fetch") {
		t.Errorf("three bytes are read as an answer: %v", err)
	}
}
