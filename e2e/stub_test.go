//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	be "encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stubbed is a hawser whose source is scripted.
type stubbed struct {
	cluster *stubtest.Cluster
	h       *Hawser
	mirror  *kgo.Client
}

func newStubbed(t *testing.T) *stubbed {
	t.Helper()
	s := &stubbed{cluster: stubtest.NewCluster(t, 1), h: StartHawser(t)}
	s.h.CreateLink("stub", strings.Join(s.cluster.Bootstrap(), ","), nil)
	s.mirror = Client(t, s.h.Kafka)
	return s
}

// topic makes a topic at the stub and returns its first partition.
func (s *stubbed) topic(name string, partitions int) *stubtest.Partition {
	s.cluster.Create(name, kafka.NewTopicID(), partitions)
	return s.cluster.Partition(kafka.TopicPartition{Topic: name})
}

// waitEnd waits until a mirror partition ends at an offset.
func (s *stubbed) waitEnd(t *testing.T, topic string, partition int32, want int64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%s-%d ends at %d", topic, partition, want), func() (bool, string) {
		_, end := Ends(t, s.mirror, topic, partition)
		return end == want, fmt.Sprintf("it ends at %d", end)
	})
}

// same wants the mirror to hold the stub's bytes.
func (s *stubbed) same(t *testing.T, topic string, partition int32, want []byte) {
	t.Helper()
	_, end := Ends(t, s.mirror, topic, partition)
	if have := Raw(t, s.mirror, topic, partition, 0, end); !bytes.Equal(have, want) {
		t.Errorf("%s-%d has %d bytes, the source %d, and they differ", topic, partition, len(have), len(want))
	}
}

// TestC15_OverlapThatIsNotBatchAlignedIsAnError has a bad source answer the fetch at 10 with a batch [5, 14].
func TestC15_OverlapThatIsNotBatchAlignedIsAnError(t *testing.T) {
	s := newStubbed(t)
	p := s.topic("c15", 1)
	p.Produce(5, "first")
	p.Produce(5, "second")
	s.h.CreateMirror("stub", "c15")
	s.waitEnd(t, "c15", 0, 10)
	good := p.Bytes()
	p.Replace(stubtest.Build(0, 0, 5, "first"), stubtest.Build(5, 0, 10, "second"))
	eventually(t, 30*time.Second, "the mirror shows the error", func() (bool, string) {
		m := s.h.Mirror("stub", "c15")
		text := fmt.Sprint(m.Raw)
		return m.Error != "" && m.Error != "NO_ERROR" && strings.Contains(text, "c15-0"), text
	})
	t.Logf("it says %v", s.h.Mirror("stub", "c15").Raw)
	s.same(t, "c15", 0, good)
}

// TestC15_RepeatedBatchIsDropped has the source send an old batch again after each reconnect.
func TestC15_RepeatedBatchIsDropped(t *testing.T) {
	s := newStubbed(t)
	p := s.topic("c15r", 1)
	first := p.Produce(10, "once")
	s.h.CreateMirror("stub", "c15r")
	s.waitEnd(t, "c15r", 0, 10)
	var repeats atomic.Int32
	s.cluster.Mangle(func(_ kafka.TopicPartition, from kafka.Offset, data []byte) []byte {
		if from >= 10 && repeats.Add(1) <= 4 {
			return append(bytes.Clone(first), data...)
		}
		return data
	})
	s.cluster.Broker(1).HangUp()
	eventually(t, 30*time.Second, "the source has repeated itself", func() (bool, string) { return repeats.Load() >= 2, fmt.Sprint(repeats.Load()) })
	p.Produce(5, "next")
	s.waitEnd(t, "c15r", 0, 15)
	s.same(t, "c15r", 0, p.Bytes())
	if m := s.h.Mirror("stub", "c15r"); m.Status != "ACTIVE" {
		t.Errorf("the mirror shows %s, error %s", m.Status, m.Error)
	}
}

// TestC16_CorruptBatchFromTheSource flips a bit in every answer for one partition for a while.
func TestC16_CorruptBatchFromTheSource(t *testing.T) {
	s := newStubbed(t)
	bad := s.topic("c16", 2)
	good := s.cluster.Partition(kafka.TopicPartition{Topic: "c16", Partition: 1})
	spoil := time.Duration(envInt("HAWSER_CORRUPT_SECONDS", 6)) * time.Second
	tp := kafka.TopicPartition{Topic: "c16"}
	bad.Produce(3, "before")
	good.Produce(3, "before")
	s.h.CreateMirror("stub", "c16")
	s.waitEnd(t, "c16", 0, 3)
	s.cluster.Mangle(func(at kafka.TopicPartition, _ kafka.Offset, data []byte) []byte {
		if at != tp || len(data) < 80 {
			return data
		}
		data = bytes.Clone(data)
		data[len(data)-2] ^= 4
		return data
	})
	bad.Produce(10, "spoiled")
	from, before := time.Now(), len(s.cluster.Fetches(tp))
	shown := ""
	for n := 3; time.Since(from) < spoil; n++ {
		good.Produce(1, "good")
		s.waitEnd(t, "c16", 1, int64(n+1))
		if _, end := Ends(t, s.mirror, "c16", 0); end != 3 {
			t.Fatalf("the mirror of the spoiled partition ends at %d, want 3", end)
		}
		m := s.h.Mirror("stub", "c16")
		if text := fmt.Sprint(m.Raw); strings.Contains(text, "CORRUPT") {
			shown = text
		}
		pause(testContext(t), 100*time.Millisecond)
	}
	if shown == "" {
		t.Errorf("describe says nothing of the corrupt batch: %v", s.h.Mirror("stub", "c16").Raw)
	}
	t.Logf("describe says %s", shown)
	if n := len(s.cluster.Fetches(tp)) - before; n > 2*int(spoil.Seconds())+4 {
		t.Errorf("the spoiled partition was fetched %d times in %v, more than twice a second", n, spoil)
	}
	s.cluster.Mangle(nil)
	s.waitEnd(t, "c16", 0, 13)
	s.same(t, "c16", 0, bad.Bytes())
	s.same(t, "c16", 1, good.Bytes())
	eventually(t, 30*time.Second, "the error is gone", func() (bool, string) {
		m := s.h.Mirror("stub", "c16")
		return m.Lag == 0 && m.Status == "ACTIVE" && !strings.Contains(fmt.Sprint(m.Raw), "CORRUPT"), fmt.Sprint(m.Raw)
	})
}

// TestC05_ReadersAfterTheCut lets many readers begin at the moment when a mirror has followed its source to another history.
func TestC05_ReadersAfterTheCut(t *testing.T) {
	s := newStubbed(t)
	for round := range envInt("HAWSER_CUTS", 5) {
		name := fmt.Sprintf("c05-cut-%d", round)
		p := s.topic(name, 1)
		p.Produce(30, "both")
		p.Produce(70, "both")
		p.Lead(1, 1)
		p.Produce(50, "lost")
		s.h.CreateMirror("stub", name)
		s.waitEnd(t, name, 0, 150)
		p.Cut(100)
		p.Lead(1, 3)
		p.Produce(80, "kept")
		s.waitEnd(t, name, 0, 180)
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				list, err := tryValues(testContext(t), s.h.Kafka, name, kgo.ReadCommitted(), 180)
				if err != nil {
					t.Error(err)
				}
				for i, v := range list {
					if want := map[bool]string{true: "both", false: "kept"}[i < 100]; v != want {
						t.Errorf("record %d is %q, want %q", i, v, want)
						return
					}
				}
			})
		}
		readers.Wait()
		s.same(t, name, 0, p.Bytes())
	}
}

// oldSet is a message of format 0 or 1, from before record batches.
func oldSet(offset int64, magic byte, value string) []byte {
	body := []byte{magic, 0}
	if magic == 1 {
		body = be.BigEndian.AppendUint64(body, 1)
	}
	body = be.BigEndian.AppendUint32(body, 0xffffffff) // no key
	body = be.BigEndian.AppendUint32(body, uint32(len(value)))
	body = append(body, value...)
	set := be.BigEndian.AppendUint64(nil, uint64(offset))
	set = be.BigEndian.AppendUint32(set, uint32(len(body)+4))
	set = be.BigEndian.AppendUint32(set, crc32.ChecksumIEEE(body))
	return append(set, body...)
}

// wrapped is a gzip message of format 1 around two others.
func wrapped(t *testing.T, offset int64) []byte {
	t.Helper()
	var squeezed bytes.Buffer
	z := gzip.NewWriter(&squeezed)
	for i := range int64(2) {
		_, err := z.Write(oldSet(i, 1, "inner"))
		fatal(t, err)
	}
	fatal(t, z.Close())
	set := oldSet(offset+1, 1, squeezed.String())
	set[17] = 1 // attributes: gzip
	be.BigEndian.PutUint32(set[12:], crc32.ChecksumIEEE(set[16:]))
	return set
}

// TestC09_OldFormatsFailTheMirror serves a message of an old format behind batches.
func TestC09_OldFormatsFailTheMirror(t *testing.T) {
	s := newStubbed(t)
	other := s.topic("c09-other", 1)
	s.h.CreateMirror("stub", "c09-other")
	for name, old := range map[string]struct {
		set    []byte
		offset string
	}{"c09-0": {oldSet(30, 0, "old"), "30"}, "c09-1": {oldSet(30, 1, "old"), "30"}, "c09-1-gzip": {wrapped(t, 30), "31"}} {
		magic := name[4:5]
		p := s.topic(name, 1)
		for range 10 {
			p.Produce(3, "good")
		}
		good := p.Bytes()
		p.Append(old.set)
		s.h.CreateMirror("stub", name)
		s.h.WaitStatus("stub", name, "FAILED", 30*time.Second)
		m := s.h.Mirror("stub", name)
		if m.Error != "UNSUPPORTED_MESSAGE_FORMAT" {
			t.Errorf("the error is %s", m.Error)
		}
		words := fmt.Sprint(m.Raw["mirror_topic_error_message"])
		for _, word := range []string{name, old.offset, "format " + magic} {
			if !strings.Contains(words, word) {
				t.Errorf("the error message does not name %q: %s", word, words)
			}
		}
		s.h.Order("stub", "failover", name)
		s.h.WaitStatus("stub", name, "STOPPED", 30*time.Second)
		s.same(t, name, 0, good)
	}
	other.Produce(5, "goes on")
	s.waitEnd(t, "c09-other", 0, 5)
}

// TestC99_ThousandsOfIdlePartitions measures what mirrors cost that have nothing to do.
func TestC99_ThousandsOfIdlePartitions(t *testing.T) {
	const partitions = 5
	topics := envInt("HAWSER_IDLE_TOPICS", 200)
	s := newStubbed(t)
	empty := residentKB(t, s.h.Pid)
	began := time.Now()
	var makers sync.WaitGroup
	names := make(chan string)
	for range 8 {
		makers.Go(func() {
			for name := range names {
				s.h.CreateMirror("stub", name)
			}
		})
	}
	for i := range topics {
		name := fmt.Sprintf("c99-%04d", i)
		s.cluster.Create(name, kafka.NewTopicID(), partitions)
		for p := range int32(partitions) {
			s.cluster.Partition(kafka.TopicPartition{Topic: name, Partition: p}).Produce(1, "first")
		}
		names <- name
	}
	close(names)
	makers.Wait()
	made := time.Since(began)
	level := func(end int64) {
		t.Helper()
		eventually(t, 60*time.Second, "all partitions are level", func() (bool, string) {
			behind := 0
			ends, err := kadm.NewClient(s.mirror).ListEndOffsets(testContext(t))
			ends.Each(func(o kadm.ListedOffset) {
				if strings.HasPrefix(o.Topic, "c99-") && o.Offset != end {
					behind++
				}
			})
			return err == nil && behind == 0, fmt.Sprint(behind, " are not, ", err)
		})
	}
	level(1)
	window := time.Duration(envInt("HAWSER_IDLE_SECONDS", 4)) * time.Second
	cpu, fetches := cpuSeconds(t, s.h.Pid), s.cluster.Requests(1)
	pause(testContext(t), window)
	share := (cpuSeconds(t, s.h.Pid) - cpu) / window.Seconds()
	perSecond := float64(s.cluster.Requests(1)-fetches) / window.Seconds()
	grown := residentKB(t, s.h.Pid) - empty
	from := time.Now()
	for i := range topics {
		for p := range int32(partitions) {
			s.cluster.Partition(kafka.TopicPartition{Topic: fmt.Sprintf("c99-%04d", i), Partition: p}).Produce(1, "second")
		}
	}
	level(2)
	t.Logf("%d partitions: made in %v (%v a topic), idle %.1f %% of a core, %.1f fetches/s, %d MB more; a record to each was there after %v",
		topics*partitions, made.Round(time.Millisecond), (made / time.Duration(topics)).Round(time.Millisecond), 100*share, perSecond, grown>>10, time.Since(from).Round(time.Millisecond))
	if share > 0.15 || perSecond > 30 || grown > 1<<20 || time.Since(from) > 30*time.Second {
		t.Error("idle mirrors cost more than 15 % of a core, 30 fetches/s or 1 GiB, or their records were slow")
	}
}
