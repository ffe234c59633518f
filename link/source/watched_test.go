package source_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
)

// flipper changes the length of answers on their way once it is set.
type flipper struct {
	flip atomic.Pointer[func(length uint32) uint32]
	seen atomic.Int64 // answers whose length was changed
}

// through dials with the flipper in between.
func (f *flipper) through(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, near) // ends with either side
	}()
	go func() {
		defer near.Close()
		for {
			var head [4]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return
			}
			length := binary.BigEndian.Uint32(head[:])
			body := make([]byte, length)
			if _, err := io.ReadFull(conn, body); err != nil {
				return
			}
			if change := f.flip.Load(); change != nil {
				if changed := (*change)(length); changed != length {
					length = changed
					f.seen.Add(1)
				}
			}
			binary.BigEndian.PutUint32(head[:], length)
			if _, err := near.Write(append(head[:], body...)); err != nil {
				return
			}
		}
	}()
	return far, nil
}

func (f *flipper) set(change func(length uint32) uint32) { f.flip.Store(&change) }

// fetchOnce reads partition 0 of t from its start over a session of its own.
func fetchOnce(t *testing.T, cluster *source.Cluster, asked int) ([]fetcher.Fetched, error) {
	t.Helper()
	session, err := cluster.Session(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	leaders, err := cluster.Leaders(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	want := fetcher.Want{TopicPartition: kafka.TopicPartition{Topic: "t"}, TopicID: leaders.TopicID, LastEpoch: kafka.NoEpoch, CurrentEpoch: leaders.List[0].Epoch, MaxBytes: asked}
	return session.Fetch(t.Context(), []fetcher.Want{want}, fetcher.Ask{MaxWait: 10 * time.Millisecond, MinBytes: 1, MaxBytes: asked, Memory: new(fetcher.Memory)})
}

func flipped(t *testing.T, timeout time.Duration) (*flipper, *source.Cluster) {
	t.Helper()
	stub := stubtest.NewCluster(t, 1)
	stub.Create("t", kafka.TopicID{1}, 1)
	stub.Partition(kafka.TopicPartition{Topic: "t"}).Produce(2, strings.Repeat("a", 50<<10))
	f := &flipper{}
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), RequestTimeout: timeout, Dial: f.through})
	if _, err := fetchOnce(t, cluster, 1<<20); err != nil {
		t.Fatal(err)
	}
	return f, cluster
}

func TestALengthThatCannotBeRightIsRefusedAtOnce(t *testing.T) {
	f, cluster := flipped(t, time.Minute)
	f.set(func(length uint32) uint32 { return length | 1<<26 })
	begun := time.Now()
	_, err := fetchOnce(t, cluster, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "claims to have") {
		t.Errorf("a fetch whose answer claims 64 MiB where 1 MiB was asked for: %v", err)
	}
	_, err = cluster.Leaders(t.Context(), "t", true)
	if err == nil || !strings.Contains(err.Error(), "claims to have") {
		t.Errorf("metadata that claims 64 MiB: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("refused after %v", took)
	}
}

func TestAnAnswerThatStopsMidwayIsNoticedBeforeTheRequestTimesOut(t *testing.T) {
	f, cluster := flipped(t, 4*time.Second)
	f.set(func(length uint32) uint32 {
		if length > 90<<10 { // the fetch, and not what a connection begins with
			return length | 1<<18
		}
		return length
	})
	begun := time.Now()
	_, err := fetchOnce(t, cluster, 1<<20)
	var known *source.Error
	if !errors.As(err, &known) || known.Class != source.Timeout || !strings.Contains(err.Error(), "stopped midway") {
		t.Errorf("an answer of which the end never comes: %v", err)
	}
	if took := time.Since(begun); took > 3500*time.Millisecond {
		t.Errorf("noticed after %v of a request time-out of 4 s", took)
	}
	f.set(func(length uint32) uint32 { return length })
	if got, err := fetchOnce(t, cluster, 1<<20); err != nil || len(got) != 1 || len(got[0].Batches) == 0 {
		t.Errorf("after that: %v, %v", got, err)
	}
}

// A first batch is given whole however little was asked for: what looks wrong once is taken the second time.
func TestALargeFirstBatchIsDoubtedOnceOnly(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	stub.Create("t", kafka.TopicID{1}, 1)
	stub.Partition(kafka.TopicPartition{Topic: "t"}).Produce(1, strings.Repeat("x", 5<<20))
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), RequestTimeout: 10 * time.Second})
	if _, err := fetchOnce(t, cluster, 1<<10); err == nil || !strings.Contains(err.Error(), "claims to have") {
		t.Fatalf("5 MiB where 1 KiB was asked for: %v", err)
	}
	for range 3 {
		if got, err := fetchOnce(t, cluster, 1<<10); err != nil || len(got) != 1 || len(got[0].Batches) < 5<<20 {
			t.Fatalf("asked again: %v", err)
		}
	}
}

// A wrong answer may tell its reader to rest for weeks. Nobody does.
func TestARestOfWeeksIsNotTaken(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	stub.Create("t", kafka.TopicID{1}, 1)
	stub.Partition(kafka.TopicPartition{Topic: "t"}).Produce(1, "a")
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), RequestTimeout: time.Second})
	if _, err := fetchOnce(t, cluster, 1<<20); err != nil {
		t.Fatal(err)
	}
	stub.Lie(func(resp kmsg.Response) {
		if answer, is := resp.(*kmsg.MetadataResponse); is {
			answer.ThrottleMillis = 1 << 30
		}
	})
	if _, err := cluster.Leaders(t.Context(), "t", true); err != nil {
		t.Fatal(err)
	}
	stub.Lie(nil)
	if _, err := cluster.Leaders(t.Context(), "t", true); err == nil {
		t.Error("the client did not rest at all: what is tested here?")
	}
	if _, err := cluster.Leaders(t.Context(), "t", true); err != nil {
		t.Errorf("the client rests still: %v", err)
	}
}
