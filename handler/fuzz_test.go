package handler

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/kafka/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// filler fills requests with values that parse and are mostly wrong.
type filler struct {
	r     *rand.Rand
	names []string
	blobs [][]byte
}

func (f *filler) int() int64 {
	picks := []int64{0, 0, 0, 1, 1, -1, -2, 2, 7, math.MaxInt16, math.MaxInt32, math.MinInt32, math.MaxInt64}
	return picks[f.r.IntN(len(picks))]
}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if f.r.IntN(3) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				f.fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(append([]byte{}, f.blobs[f.r.IntN(len(f.blobs))]...))
			return
		}
		n := f.r.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		if f.r.IntN(2) == 0 {
			v.Index(0).SetUint(uint64(f.r.IntN(256)))
		}
	case reflect.String:
		v.SetString(f.names[f.r.IntN(len(f.names))])
	case reflect.Bool:
		v.SetBool(f.r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.int())
	case reflect.Float64:
		v.SetFloat(f.r.Float64())
	}
}

// patient takes out of a request what would make an honest answer come late or not at all.
func patient(rq kmsg.Request) {
	switch rq := rq.(type) {
	case *kmsg.ProduceRequest:
		rq.TimeoutMillis = min(rq.TimeoutMillis, 100)
		if rq.Acks == 0 {
			rq.Acks = 1
		}
	case *kmsg.FetchRequest:
		rq.MaxWaitMillis = min(rq.MaxWaitMillis, 5)
	case *kmsg.JoinGroupRequest:
		rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis = min(rq.SessionTimeoutMillis, 7), min(rq.RebalanceTimeoutMillis, 7)
	}
}

// Whatever is asked in a form that parses is answered: no connection is dropped, no handler fails.
func TestC97_EveryParsedRequestIsAnswered(t *testing.T) {
	w := newFullWorld(t, func(w *world, d *Deps) { d.Mirrors = &fakeMirrors{w: w, mirror: "b"} }).serve()
	w.make("a", 2, nil)
	w.make("b", 1, nil)
	rounds := 3
	if os.Getenv("HAWSER_LONG") != "" {
		rounds = 300
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := &filler{
		r:     rand.New(rand.NewPCG(seed, 0)),
		names: []string{"a", "a", "b", "nope", "", "a b", "1", "retention.ms", "cleanup.policy", MirrorLinkConfig, MirrorOrderConfig, "consumer", "range", "\x00", "é"},
		blobs: [][]byte{nil, {}, {0}, []byte("noise"), rawBatch(t, 2, noProducer()), make([]byte, 100)},
	}
	c := w.dial()
	_ = c.nc.SetDeadline(time.Time{})
	for round := range rounds {
		for _, key := range w.table.keys() {
			row := w.table[key]
			for version := row.min; version <= row.max; version++ {
				rq := kmsg.RequestForKey(key)
				f.fill(reflect.ValueOf(rq).Elem())
				patient(rq)
				rq.SetVersion(version)
				c.write(rq)
				_ = c.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
				if _, err := c.read(rq); err != nil {
					t.Fatalf("round %d: %s version %d: %v\n%+v", round, row.name, version, err, rq)
				}
			}
		}
	}
}

// FuzzHandlers: bytes that decode as a request make no handler fail, and its answer can be read back.
func FuzzHandlers(f *testing.F) {
	w := newFullWorld(f)
	w.make("a", 2, nil)
	keys := w.table.keys()
	fill := &filler{r: rand.New(rand.NewPCG(1, 1)), names: []string{"a", "nope", ""}, blobs: [][]byte{nil, rawBatch(f, 2, noProducer())}}
	for i, key := range keys {
		for version := w.table[key].min; version <= w.table[key].max; version++ {
			rq := kmsg.RequestForKey(key)
			fill.fill(reflect.ValueOf(rq).Elem())
			rq.SetVersion(version)
			f.Add(uint8(i), uint8(version-w.table[key].min), rq.AppendTo(nil))
		}
	}
	near, far := net.Pipe()
	f.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	l := w.listeners[0]
	c := &conn{server: w.Server, listener: l, net: near, r: bufio.NewReader(near), login: newLogin(l)}
	f.Fuzz(func(t *testing.T, which, version uint8, body []byte) {
		row := w.table[keys[int(which)%len(keys)]]
		v := row.min + int16(version)%(row.max-row.min+1)
		_, rq := w.table.request(row.key, v)
		if rq.IsFlexible() {
			body = append([]byte{0}, body...) // no tagged fields in the header
		}
		if wire.Decode(rq, body) != nil {
			return
		}
		patient(rq)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		resp, err := row.handle(ctx, &call{Server: w.Server, listener: l, conn: c, version: v, from: group.Client{Host: "/h", Principal: Anonymous}}, rq)
		if err != nil || resp == nil {
			t.Fatalf("%s version %d: no answer: %v", row.name, v, err)
		}
		if answer, ok := resp.(*fetchAnswer); ok {
			answer.close()
		}
		resp.SetVersion(v)
		again := rq.ResponseKind()
		again.SetVersion(v)
		if err := again.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatalf("%s version %d: the answer cannot be read: %v", row.name, v, err)
		}
	})
}

// FuzzProduce: whatever bytes come as records, the log stays one that can be read to its end.
func FuzzProduce(f *testing.F) {
	w := newFullWorld(f).serve()
	w.make("t", 1, nil)
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecZstd} {
		spec := noProducer()
		spec.Codec = codec
		f.Add([]byte(rawBatch(f, 3, spec)), true)
	}
	c := w.dial()
	_ = c.nc.SetDeadline(time.Time{})
	f.Fuzz(func(t *testing.T, records []byte, fix bool) {
		if b, _, err := batch.Split(records); fix && err == nil {
			b.SetCRC() // else no fuzzer gets past the checksum
		}
		c := &client{t: t, nc: c.nc}
		before := w.partition("t", 0).Offsets()
		got := produced(t, c, 9, produceRequest(t, "t", -1, records))
		after := w.partition("t", 0).Offsets()
		if got.ErrorCode != 0 {
			if after.LogEnd != before.LogEnd {
				t.Fatalf("refused with %d, yet the end moved from %d to %d", got.ErrorCode, before.LogEnd, after.LogEnd)
			}
			return
		}
		read := fetched(t, c, 12, fetchRequest("t", got.BaseOffset, 0))
		for b, err := range batch.Batches(read.RecordBatches).All() {
			if err != nil {
				t.Fatal(err)
			}
			if err := b.CheckCRC(); err != nil {
				t.Fatal(err)
			}
			for _, err := range b.Records(64 << 20) {
				if err != nil {
					t.Fatal(fmt.Errorf("accepted, but a consumer cannot read it: %w", err))
				}
			}
		}
	})
}
