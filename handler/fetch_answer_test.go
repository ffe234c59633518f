package handler

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sliceFile is a segment file for tests; os is nil where sendfile must not be possible.
type sliceFile struct {
	*bytes.Reader
	os *os.File
}

func (f *sliceFile) Append([]byte) error         { return io.ErrClosedPipe }
func (f *sliceFile) Sync() error                 { return nil }
func (f *sliceFile) StartWriteback(int64, int64) {}
func (f *sliceFile) Uncache(int64, int64)        {}
func (f *sliceFile) Close() error                { return nil }
func (f *sliceFile) OSFile() *os.File            { return f.os }
func (f *sliceFile) Size() int64                 { return f.Reader.Size() }

// newSliceFile has the same bytes in memory and on disk.
func newSliceFile(t testing.TB, content []byte) *sliceFile {
	t.Helper()
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &sliceFile{bytes.NewReader(content), file}
}

// pair is two ends of a TCP connection.
func pair(t testing.TB) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	_ = client.SetDeadline(deadline)
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return server, client
}

func readAnswer(t testing.TB, client io.Reader) []byte {
	t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(client, size[:]); err != nil {
		t.Fatalf("read size: %v", err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(client, frame); err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return frame
}

// randomFetch makes an answer as the handler would, and the same with the records in it.
func randomFetch(r *rand.Rand, version int16, file *sliceFile, content []byte) (*fetchAnswer, *kmsg.FetchResponse) {
	answer := &fetchAnswer{FetchResponse: kmsg.NewPtrFetchResponse()}
	whole := kmsg.NewPtrFetchResponse()
	answer.SetVersion(version)
	whole.SetVersion(version)
	if version >= 7 {
		answer.ErrorCode, answer.SessionID = int16(r.IntN(3)), r.Int32()
		whole.ErrorCode, whole.SessionID = answer.ErrorCode, answer.SessionID
	}
	for i := range r.IntN(4) {
		var want fetchWant
		if version >= 13 {
			want.id = kafka.NewTopicID()
		} else {
			want.topic = fmt.Sprintf("topic-%d", i)
		}
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = want.topic, want.id
		for number := range 1 + r.IntN(4) {
			p := randomPartition(r, version, int32(number))
			sizes := []int{0, 1, 100, copyMax, copyMax + 1, 3*writeChunk + 5}
			size := sizes[r.IntN(len(sizes))]
			at := r.IntN(len(content) - size)
			answer.add(want, p, commitlog.Slice{File: file, Position: int64(at), Length: int64(size)})
			p.RecordBatches = content[at : at+size]
			topic.Partitions = append(topic.Partitions, p)
		}
		whole.Topics = append(whole.Topics, topic)
	}
	if version >= 16 && r.IntN(2) == 0 {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port = 7, "host", 9092
		if r.IntN(2) == 0 {
			b.Rack = text("rack")
		}
		answer.Brokers = append(answer.Brokers, b)
		whole.Brokers = answer.Brokers
	}
	return answer, whole
}

func randomPartition(r *rand.Rand, version int16, number int32) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset = number, int16(r.IntN(2)), r.Int64(), r.Int64()
	if version >= 5 {
		p.LogStartOffset = r.Int64()
	}
	if version >= 11 {
		p.PreferredReadReplica = -1
	}
	if r.IntN(2) == 0 {
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for range r.IntN(3) {
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = r.Int64(), r.Int64()
			p.AbortedTransactions = append(p.AbortedTransactions, a)
		}
	}
	if version >= 12 && r.IntN(2) == 0 {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Int32(), r.Int64()
	}
	if version >= 12 && r.IntN(2) == 0 {
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = r.Int32(), r.Int32()
	}
	return p
}

// The hand-written encoder and kmsg's must agree, in every version, by every way the records can take.
func TestFetchAnswerIsWhatKmsgWouldWrite(t *testing.T) {
	content := make([]byte, 5<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	sendable := newSliceFile(t, content)
	memory := &sliceFile{Reader: sendable.Reader}
	for version := int16(4); version <= 18; version++ {
		for round := range 6 {
			file := sendable
			if round%2 == 1 {
				file = memory
			}
			t.Run(fmt.Sprintf("v%d round %d", version, round), func(t *testing.T) {
				server, client := pair(t)
				c := &conn{server: newTestServer(), net: server}
				answer, whole := randomFetch(r, version, file, content)
				sent := make(chan error, 1)
				go func() { sent <- answer.writeTo(c, 99) }()
				frame := readAnswer(t, client)
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				if corr := binary.BigEndian.Uint32(frame); corr != 99 {
					t.Fatalf("correlation id %d", corr)
				}
				body := frame[4:]
				if whole.IsFlexible() {
					body = body[1:]
				}
				if want := whole.AppendTo(nil); !bytes.Equal(body, want) {
					t.Fatalf("%d bytes differ from kmsg's %d", len(body), len(want))
				}
				got := kmsg.NewPtrFetchResponse()
				got.SetVersion(version)
				if err := got.ReadFrom(body); err != nil {
					t.Fatal(err)
				}
				if version >= 13 && len(whole.Topics) > 0 && !reflect.DeepEqual(got.Topics[0].TopicID, whole.Topics[0].TopicID) {
					t.Fatal("topic ids differ")
				}
			})
		}
	}
}

func TestFetchAnswerOfAFileThatIsTooShortClosesTheConnection(t *testing.T) {
	file := newSliceFile(t, make([]byte, copyMax*2))
	for name, f := range map[string]*sliceFile{"sendfile": file, "copied": {Reader: file.Reader}} {
		for _, length := range []int64{100, copyMax * 3} {
			t.Run(fmt.Sprintf("%s %d", name, length), func(t *testing.T) {
				server, client := pair(t)
				go func() { _, _ = io.Copy(io.Discard, client) }()
				answer := &fetchAnswer{FetchResponse: kmsg.NewPtrFetchResponse()}
				answer.SetVersion(12)
				answer.add(fetchWant{fetchKey: fetchKey{topic: "t"}}, kmsg.NewFetchResponseTopicPartition(),
					commitlog.Slice{File: f, Position: copyMax*2 - 50, Length: length})
				if err := answer.writeTo(&conn{server: newTestServer(), net: server}, 1); err == nil {
					t.Fatal("an answer with missing records was sent as if whole")
				}
			})
		}
	}
}

func BenchmarkFetchAnswer(b *testing.B) {
	file := newSliceFile(b, make([]byte, 8<<20))
	for name, f := range map[string]*sliceFile{"sendfile": file, "copied": {Reader: file.Reader}} {
		b.Run(name, func(b *testing.B) {
			server, client := pair(b)
			_ = client.SetDeadline(time.Time{})
			go func() {
				_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{client}, make([]byte, 1<<20))
			}()
			c := &conn{server: newTestServer(), net: server}
			b.SetBytes(8 << 20)
			for range b.N {
				answer := &fetchAnswer{FetchResponse: kmsg.NewPtrFetchResponse()}
				answer.SetVersion(16)
				answer.add(fetchWant{}, kmsg.NewFetchResponseTopicPartition(), commitlog.Slice{File: f, Length: 8 << 20})
				if err := answer.writeTo(c, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// newTestServer is what a bare connection needs of a server.
func newTestServer() *Server { return &Server{counters: newCounters(nil), writeTimeout: writeTimeout} }
