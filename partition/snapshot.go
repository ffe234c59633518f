package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// A snapshot is derived, stored beside the log as <offset>.snapshot, so that opening need not read
// the whole log. It can be deleted and is rebuilt. Big-endian:
//
//	magic "HWPS" · version int16 · end int64 · jumped int64
//	count uint32 · producers: id int64, epoch int16, coordinatorEpoch int32, lastTimestamp int64, seenMs int64,
//	  txnStart int64, flags byte (1: anew), n byte, n times: first, last int32, base, lastOffset, timestamp int64
//	count uint32 · aborted: id, first, last, stable int64
//	count uint32 · recent batches: base int64, epoch int32, crc uint32
//	CRC-32C of everything before it, uint32
const (
	snapshotMagic   = "HWPS"
	snapshotVersion = 1
	snapshotSuffix  = ".snapshot"
	snapshotsKept   = 3
)

var (
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
	errSnapshot = errors.New("producer snapshot is damaged")
)

func snapshotName(end kafka.Offset) string { return fmt.Sprintf("%020d%s", end, snapshotSuffix) }

// snapshotEnd reads a snapshot's name.
func snapshotEnd(name string) (kafka.Offset, bool) {
	digits, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return kafka.Offset(n), err == nil && n >= 0
}

func (d *derived) encode() []byte {
	be := binary.BigEndian
	out := append([]byte(snapshotMagic), 0, snapshotVersion)
	out = be.AppendUint64(out, uint64(d.end))
	out = be.AppendUint64(out, uint64(d.jumped))
	out = be.AppendUint32(out, uint32(len(d.byID)))
	for _, id := range slices.Sorted(maps.Keys(d.byID)) {
		out = d.byID[id].encode(out, id)
	}
	out = be.AppendUint32(out, uint32(len(d.aborted)))
	for _, a := range d.aborted {
		out = be.AppendUint64(out, uint64(a.id))
		out = be.AppendUint64(out, uint64(a.first))
		out = be.AppendUint64(out, uint64(a.last))
		out = be.AppendUint64(out, uint64(a.stable))
	}
	recent := d.recent[max(0, len(d.recent)-recentMax):]
	out = be.AppendUint32(out, uint32(len(recent)))
	for _, m := range recent {
		out = be.AppendUint64(out, uint64(m.Base))
		out = be.AppendUint32(out, uint32(m.Epoch))
		out = be.AppendUint32(out, m.CRC)
	}
	return be.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

func (p *producer) encode(out []byte, id kafka.ProducerID) []byte {
	be := binary.BigEndian
	out = be.AppendUint64(out, uint64(id))
	out = be.AppendUint16(out, uint16(p.epoch))
	out = be.AppendUint32(out, uint32(p.coordinatorEpoch))
	out = be.AppendUint64(out, uint64(p.lastTimestamp))
	out = be.AppendUint64(out, uint64(p.seenMs))
	out = be.AppendUint64(out, uint64(p.txnStart))
	flags := byte(0)
	if p.anew {
		flags = 1
	}
	out = append(out, flags, byte(p.n))
	for _, s := range p.kept[:p.n] {
		out = be.AppendUint32(out, uint32(s.first))
		out = be.AppendUint32(out, uint32(s.last))
		out = be.AppendUint64(out, uint64(s.base))
		out = be.AppendUint64(out, uint64(s.lastOffset))
		out = be.AppendUint64(out, uint64(s.timestamp))
	}
	return out
}

// decodeDerived reads a snapshot. Its counts are checked against the bytes that are there.
func decodeDerived(content []byte) (*derived, error) {
	body := len(content) - 4
	if body < 0 || crc32.Checksum(content[:body], castagnoli) != binary.BigEndian.Uint32(content[body:]) {
		return nil, errSnapshot
	}
	r := snapshotReader{rest: content[:body]}
	if string(r.bytes(4)) != snapshotMagic {
		return nil, errSnapshot
	}
	if v := r.int16(); v != snapshotVersion {
		return nil, fmt.Errorf("producer snapshot has format version %d, this program reads %d", v, snapshotVersion)
	}
	d := newDerived(kafka.Offset(r.int64()))
	d.jumped = kafka.Offset(r.int64())
	for range r.int32() {
		if r.bad {
			break
		}
		id := kafka.ProducerID(r.int64())
		p := r.producer()
		d.byID[id] = p
		if p.txnStart != kafka.NoOffset {
			d.open = append(d.open, openTxn{id, p.txnStart})
		}
	}
	slices.SortFunc(d.open, func(a, b openTxn) int { return int(a.start - b.start) })
	for range r.int32() {
		if r.bad {
			break
		}
		d.aborted = append(d.aborted, abortedTxn{
			kafka.ProducerID(r.int64()), kafka.Offset(r.int64()), kafka.Offset(r.int64()), kafka.Offset(r.int64()),
		})
	}
	for range r.int32() {
		if r.bad {
			break
		}
		d.recent = append(d.recent, meta.BatchMark{
			Base: kafka.Offset(r.int64()), Epoch: kafka.LeaderEpoch(r.int32()), CRC: uint32(r.int32()),
		})
	}
	if r.bad || len(r.rest) > 0 {
		return nil, errSnapshot
	}
	if len(d.recent) > 0 {
		d.recentFrom = d.recent[0].Base
	}
	return d, nil
}

// snapshotReader reads fixed-size fields; after the end it stays bad.
type snapshotReader struct {
	rest []byte
	bad  bool
}

func (r *snapshotReader) bytes(n int) []byte {
	if len(r.rest) < n {
		r.bad, r.rest = true, nil
		return make([]byte, n)
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *snapshotReader) int16() int16 { return int16(binary.BigEndian.Uint16(r.bytes(2))) }
func (r *snapshotReader) int32() int32 { return int32(binary.BigEndian.Uint32(r.bytes(4))) }
func (r *snapshotReader) int64() int64 { return int64(binary.BigEndian.Uint64(r.bytes(8))) }

func (r *snapshotReader) producer() *producer {
	p := &producer{
		epoch:            r.int16(),
		coordinatorEpoch: r.int32(),
		lastTimestamp:    r.int64(),
		seenMs:           r.int64(),
		txnStart:         kafka.Offset(r.int64()),
	}
	tail := r.bytes(2)
	p.anew = tail[0]&1 != 0
	if tail[1] > rangesKept {
		r.bad = true
		return p
	}
	p.n = int8(tail[1])
	for i := range p.n {
		p.kept[i] = sequences{r.int32(), r.int32(), kafka.Offset(r.int64()), kafka.Offset(r.int64()), r.int64()}
	}
	return p
}
