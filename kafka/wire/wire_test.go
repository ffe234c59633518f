package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reader reads frames of at most limit bytes into buf.
func reader(r io.Reader, buf []byte, limit int32) *FrameReader {
	return &FrameReader{
		R: r, Limit: func(int16) int32 { return limit }, Progress: func() error { return nil },
		Buffer: func(int16, int) []byte { return buf }, Reserve: func(int) error { return nil },
	}
}

func request(t testing.TB, rq kmsg.Request, clientID *string) []byte {
	t.Helper()
	f := kmsg.NewRequestFormatter()
	if clientID != nil {
		f = kmsg.NewRequestFormatter(kmsg.FormatterClientID(*clientID))
	}
	return f.AppendRequest(nil, rq, 77)
}

func TestReadFrameRefusesSizesBeforeItAllocates(t *testing.T) {
	for _, tc := range []struct {
		name string
		size uint32
	}{
		{"negative", 0xffffffff},
		{"zero", 0},
		{"less than a header", 9},
		{"over the limit", 1<<20 + 1},
		{"huge", 0x7fffffff},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw := binary.BigEndian.AppendUint32(nil, tc.size)
			raw = append(raw, make([]byte, 64)...)
			_, err := reader(bytes.NewReader(raw), nil, 1<<20).Next()
			if !errors.Is(err, ErrFrameSize) {
				t.Fatalf("got %v, want ErrFrameSize", err)
			}
		})
	}
}

func TestReadFrameAllocatesOnlyAsBytesArrive(t *testing.T) {
	raw := binary.BigEndian.AppendUint32(nil, 100<<20)
	raw = append(raw, make([]byte, 1000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := reader(bytes.NewReader(raw), nil, 100<<20).Next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v, want an unexpected end", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Fatalf("a size of 100 MiB with 1,000 bytes behind it made us allocate %d bytes", grown)
	}
}

func TestReadFrameReadsBigAndSmallFramesInARow(t *testing.T) {
	var stream bytes.Buffer
	var want [][]byte
	for _, n := range []int{10, 11, 1000, firstChunk - 1, firstChunk, firstChunk + 1, 3<<20 + 7, 12} {
		body := bytes.Repeat([]byte{byte(n)}, n)
		body[0], body[1] = 0, 0
		want = append(want, body)
		stream.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
		stream.Write(body)
	}
	buf := make([]byte, 0, 512)
	for i, body := range want {
		got, err := reader(&stream, buf, 100<<20).Next()
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("frame %d: %d bytes, error %v; want %d bytes", i, len(got), err, len(body))
		}
	}
	if _, err := reader(&stream, buf, 100).Next(); err != io.EOF {
		t.Fatalf("at the end: %v, want io.EOF", err)
	}
}

func TestMemoryIsReservedBeforeItIsTaken(t *testing.T) {
	raw := binary.BigEndian.AppendUint32(nil, 1<<20)
	raw = append(raw, make([]byte, 1<<20)...)
	full := errors.New("no memory left")
	var reserved int
	f := reader(bytes.NewReader(raw), nil, 1<<20)
	f.Reserve = func(n int) error {
		if reserved += n; reserved > 300<<10 {
			return full
		}
		return nil
	}
	if _, err := f.Next(); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	f = reader(bytes.NewReader(raw), nil, 1<<20)
	reserved = -1 << 30
	frame, err := f.Next()
	if err != nil || cap(frame) > 1<<20 {
		t.Fatalf("%d bytes, %v", cap(frame), err)
	}
}

func TestTokens(t *testing.T) {
	f := reader(bytes.NewReader([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 9, 1}), nil, 0)
	for _, want := range []string{"abc", ""} {
		if got, err := f.Token(8); err != nil || string(got) != want {
			t.Fatalf("token %q, %v", got, err)
		}
	}
	if _, err := f.Token(8); !errors.Is(err, ErrFrameSize) {
		t.Fatalf("got %v, want ErrFrameSize", err)
	}
}

func TestLimitDependsOnTheKey(t *testing.T) {
	limits := func(key int16) int32 {
		if key == 0 {
			return 100
		}
		return 20
	}
	frame := func(key uint16) []byte {
		raw := binary.BigEndian.AppendUint32(nil, 30)
		raw = binary.BigEndian.AppendUint16(raw, key)
		return append(raw, make([]byte, 28)...)
	}
	read := func(raw []byte) ([]byte, error) {
		f := reader(bytes.NewReader(raw), nil, 0)
		f.Limit = limits
		return f.Next()
	}
	if _, err := read(frame(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := read(frame(3)); !errors.Is(err, ErrFrameSize) {
		t.Fatalf("got %v, want ErrFrameSize", err)
	}
}

func TestC78_ClientIDsAndUnknownTags(t *testing.T) {
	long := strings.Repeat("x", 1024)
	empty := ""
	for _, id := range []*string{nil, &empty, &long} {
		for version := range int16(14) {
			rq := kmsg.NewPtrMetadataRequest()
			rq.SetVersion(version)
			rq.UnknownTags.Set(99, []byte("unheard of"))
			frame := request(t, rq, id)[4:]
			h, rest, err := ParseHeader(frame)
			if err != nil || h.Key != 3 || h.Version != version || h.CorrelationID != 77 {
				t.Fatalf("version %d: %+v, %v", version, h, err)
			}
			if (h.ClientID == nil) != (id == nil) || id != nil && *h.ClientID != *id {
				t.Fatalf("client id came out as %v", h.ClientID)
			}
			got := kmsg.NewPtrMetadataRequest()
			got.SetVersion(version)
			if err := Decode(got, rest); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
		}
	}
}

func TestHeaderTagsAreSkipped(t *testing.T) {
	rq := kmsg.NewPtrApiVersionsRequest()
	rq.SetVersion(3)
	rq.ClientSoftwareName = "name"
	body := rq.AppendTo([]byte{2, 5, 3, 1, 2, 3, 9, 0}) // two tags: 5 with three bytes, 9 with none
	got := kmsg.NewPtrApiVersionsRequest()
	got.SetVersion(3)
	if err := Decode(got, body); err != nil || got.ClientSoftwareName != "name" {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestDecodeRefusesWhatIsCutShort(t *testing.T) {
	rq := kmsg.NewPtrCreateTopicsRequest()
	rq.SetVersion(7)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = "some-topic"
	rq.Topics = append(rq.Topics, topic)
	whole := rq.AppendTo([]byte{0})
	for n := range whole {
		got := kmsg.NewPtrCreateTopicsRequest()
		got.SetVersion(7)
		if err := Decode(got, whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v, want ErrMalformed", n, len(whole), err)
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	flexible := kmsg.NewPtrMetadataResponse()
	flexible.SetVersion(12)
	oldest := kmsg.NewPtrApiVersionsResponse()
	oldest.SetVersion(3)
	for _, tc := range []struct {
		resp   kmsg.Response
		header int
	}{{flexible, 5}, {oldest, 4}} {
		frame := AppendResponse(nil, 9, tc.resp)
		if size := binary.BigEndian.Uint32(frame); int(size) != len(frame)-4 {
			t.Fatalf("size field %d, frame %d", size, len(frame))
		}
		if err := tc.resp.RequestKind().ResponseKind().ReadFrom(nil); err == nil {
			t.Fatal("an empty body was read")
		}
		again := tc.resp.RequestKind().ResponseKind()
		again.SetVersion(tc.resp.GetVersion())
		if err := again.ReadFrom(frame[4+tc.header:]); err != nil {
			t.Fatalf("%T: %v", tc.resp, err)
		}
	}
}

// FuzzRequest: whatever the bytes, nothing panics, and what decodes can be encoded and decoded again.
func FuzzRequest(f *testing.F) {
	for key := range int16(96) {
		rq := kmsg.RequestForKey(key)
		if rq == nil {
			continue
		}
		for version := int16(0); version <= rq.MaxVersion(); version++ {
			rq.SetVersion(version)
			f.Add(request(f, rq, nil))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		frame, err := reader(bytes.NewReader(raw), nil, 1<<20).Next()
		if err != nil {
			return
		}
		h, rest, err := ParseHeader(frame)
		if err != nil {
			return
		}
		rq := kmsg.RequestForKey(h.Key)
		if rq == nil || h.Version < 0 || h.Version > rq.MaxVersion() {
			return
		}
		rq.SetVersion(h.Version)
		if err := Decode(rq, rest); err != nil {
			return
		}
		again := kmsg.RequestForKey(h.Key)
		again.SetVersion(h.Version)
		if err := again.ReadFrom(rq.AppendTo(nil)); err != nil {
			t.Fatalf("%s version %d does not survive a round trip: %v", kmsg.NameForKey(h.Key), h.Version, err)
		}
	})
}

// TestLargeRequestsGrowFasterOnceTrusted: memory is doubled up to the first MiB, and eight times what has come from there on,
// in memory that was used before where there is some.
func TestLargeRequestsGrowFasterOnceTrusted(t *testing.T) {
	const size = 20 << 20
	raw := binary.BigEndian.AppendUint32(nil, size)
	for n := range size {
		raw = append(raw, byte(n*7))
	}
	copy(raw[4:], []byte{0, 0})
	used := make([]byte, 0, 32<<20)
	var asked []int
	f := reader(bytes.NewReader(raw), nil, size)
	f.Larger = func(key int16, frame []byte, n int) []byte {
		if key != 0 {
			t.Errorf("asked for a request of key %d", key)
		}
		asked = append(asked, n)
		if n > 8*max(len(frame), 1<<17) {
			t.Errorf("%d bytes for %d that have come", n, len(frame))
		}
		if n < size {
			return nil
		}
		return append(used, frame...)
	}
	frame, err := f.Next()
	if err != nil || !bytes.Equal(frame, raw[4:]) {
		t.Fatalf("%d bytes, %v", len(frame), err)
	}
	if &frame[0] != &used[:1][0] {
		t.Error("the memory that was there was not used")
	}
	if len(asked) > 8 {
		t.Errorf("it grew %d times: %d", len(asked), asked)
	}
}
