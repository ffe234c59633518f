package peer

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
)

// message is a body of ours, however it is read.
type message struct {
	body []byte
	read func([]byte) (any, error)
}

func reader[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

func turnMessages() map[string]message {
	id, other := kafka.TopicID{1, 15: 2}, kafka.TopicID{3}
	log := Log{
		Start: 1, End: 9, CleanedTo: 2, Stop: kafka.NoOffset, Born: true,
		Epochs:  []kafka.EpochStart{{Epoch: 3, Start: 1}, {Epoch: 8195, Start: 5}},
		Entries: []Minted{{Start: 5, Epoch: kafka.NoEpoch, Cluster: "c"}},
		Marks:   []Mark{{Base: 1, Next: 5, Epoch: 3, CRC: 1 << 31}, {Base: 5, Next: kafka.NoOffset, Epoch: 8195, CRC: 7}},
	}
	return map[string]message{
		"freeze":      {FreezeRequest{Turn: "R", Topic: id, Mirror: other, MirrorName: "t", Paused: true, Validate: true}.Encode(), reader(DecodeFreezeRequest)},
		"frozen":      {FreezeAnswer{Ready: true, Text: "x", Partitions: 2, Ends: []kafka.Offset{4, 5}, Open: []OpenTransaction{{"tx", 7}}}.Encode(), reader(DecodeFreezeAnswer)},
		"hand over":   {HandOverRequest{Turn: "R", Topic: id, Ends: []kafka.Offset{4}}.Encode(), reader(DecodeHandOverRequest)},
		"reverse":     {ReverseRequest{Turn: "R", Topic: id, End: true}.Encode(), reader(DecodeReverseRequest)},
		"reversed":    {ReverseAnswer{Word: "LIVE", Halted: true, Ends: []kafka.Offset{1, 2}}.Encode(), reader(DecodeReverseAnswer)},
		"pledge":      {PledgeRequest{Turn: "P", Topic: id, Name: "t", Validate: true}.Encode(), reader(DecodePledgeRequest)},
		"pledged":     {PledgeAnswer{Topic: id, Partitions: 3, StoppedMs: 4, Compacted: true, DeleteRetentionMs: 5}.Encode(), reader(DecodePledgeAnswer)},
		"lineage":     {LineageRequest{First: 2, Below: []kafka.Offset{5, 6}}.Encode(), reader(DecodeLineageRequest)},
		"lineage too": {LineageAnswer{Partitions: 4, Logs: []Log{log, {Stop: 3}}}.Encode(), reader(DecodeLineageAnswer)},
	}
}

func TestTurnMessagesComeThroughWhole(t *testing.T) {
	for name, m := range turnMessages() {
		first, err := m.read(m.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encode := reflect.ValueOf(first).MethodByName("Encode").Call(nil)[0].Bytes()
		if !bytes.Equal(encode, m.body) {
			t.Errorf("%s: %+v does not come back", name, first)
		}
		for n := range m.body {
			if _, err := m.read(m.body[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, n, len(m.body), err)
			}
		}
		if _, err := m.read(append(slices.Clone(m.body), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
}

// The partition to begin with is the other side's word: as an index it must not reach outside.
func TestALineageRequestBeginsAtAPartition(t *testing.T) {
	for first, ok := range map[int32]bool{math.MinInt32: false, -1: false, 0: true, partitionsMax: true, partitionsMax + 1: false, math.MaxInt32: false} {
		m, err := DecodeLineageRequest(LineageRequest{First: first, Below: []kafka.Offset{7}}.Encode())
		if ok != (err == nil) || ok && m.First != first || !ok && !errors.Is(err, ErrMalformed) {
			t.Errorf("first %d: %+v, %v", first, m, err)
		}
	}
}

func FuzzTurnMessages(f *testing.F) {
	all := turnMessages()
	for _, m := range all {
		f.Add(m.body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, m := range all {
			got, err := m.read(b)
			if err != nil {
				continue
			}
			if back := reflect.ValueOf(got).MethodByName("Encode").Call(nil)[0].Bytes(); !bytes.Equal(back, b) {
				t.Errorf("%s: %+v does not come back", name, got)
			}
		}
	})
}
