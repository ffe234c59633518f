package batch_test

import (
	"testing"

	"github.com/hawserio/hawser/kafka/batch"
)

func TestRebuildKeepsWhatMakesTheBatch(t *testing.T) {
	records := []batch.Record{
		{Offset: 10, Timestamp: 500, Key: []byte("a"), Value: []byte("1"), Headers: []batch.Header{{Key: []byte("h"), Value: nil}}},
		{Offset: 11, Timestamp: 700, Key: []byte("b"), Value: nil},
		{Offset: 14, Timestamp: 600, Key: []byte("c"), Value: []byte{}},
	}
	for codec := batch.CodecNone; codec <= batch.CodecZstd; codec++ {
		for _, appendTime := range []bool{false, true} {
			b, err := batch.Build(batch.Spec{BaseOffset: 10, LeaderEpoch: 4, Codec: codec, ProducerID: 9, ProducerEpoch: 2, BaseSequence: 7, Transactional: true, LastDelta: 6, LogAppendTime: appendTime}, records)
			if err != nil {
				t.Fatal(err)
			}
			for _, horizon := range []int64{batch.NoHorizon, 100_000} {
				out, err := b.Rebuild(records[1:], horizon)
				if err != nil {
					t.Fatal(err)
				}
				if err := out.CheckCRC(); err != nil {
					t.Fatal(err)
				}
				if size, err := batch.SizeOf(out); err != nil || size != len(out) {
					t.Errorf("size %d of %d, %v", size, len(out), err)
				}
				if out.BaseOffset() != 10 || out.LastOffset() != 16 || out.LeaderEpoch() != 4 || out.Codec() != codec || out.ProducerID() != 9 ||
					out.ProducerEpoch() != 2 || out.BaseSequence() != 7 || out.LastSequence() != b.LastSequence() || !out.IsTransactional() ||
					out.IsLogAppendTime() != appendTime || out.DeleteHorizon() != horizon || out.Count() != 2 || out.MaxTimestamp() != b.MaxTimestamp() {
					t.Errorf("codec %d, append time %v, horizon %d: header is %v", codec, appendTime, horizon, out[:batch.HeaderSize])
				}
				i := 1
				for r, err := range out.Records(1000) {
					want := records[i].Timestamp
					if appendTime {
						want = b.MaxTimestamp()
					}
					if err != nil || r.Offset != records[i].Offset || r.Timestamp != want || string(r.Key) != string(records[i].Key) || (r.Value == nil) != (records[i].Value == nil) {
						t.Errorf("record %d is %+v, %v", i, r, err)
					}
					i++
				}
			}
			empty, err := b.Rebuild(nil, batch.NoHorizon)
			if err != nil || len(empty) != batch.HeaderSize || empty.Count() != 0 || empty.LastOffset() != 16 || empty.LastSequence() != b.LastSequence() || empty.CheckCRC() != nil || empty.Codec() != batch.CodecNone {
				t.Errorf("the empty batch is %v, %v", empty, err)
			}
		}
	}
}
