package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

const (
	checkpointName = "log-checkpoint"
	markName       = "log-synced"
	// formatVersion is the newest format of checkpoint and mark that this code reads
	// and the one it writes. A directory without a checkpoint has format 1.
	formatVersion = 1

	checkpointMagic = 0x68777263 // "hwrc"
	markMagic       = 0x6877726d // "hwrm"
	headSize        = 12         // magic, version, CRC
	stateSize       = 84
	tailSize        = 8 + stateSize
	epochSize       = 12
	checkpointFixed = 50
	// checkpointMax bounds what is read, in bytes: half a million segments.
	checkpointMax = 64 << 20
)

// errBadFile says that a file of ours does not hold what was written; its content can be made anew.
var errBadFile = errors.New("content fails its check")

// pending is an order that was begun and, after a crash, is finished at the next open.
type pending uint8

const (
	pendingNone  pending = 0
	pendingCut   pending = 1 // segment cutBase ends at cutSize; those above it go
	pendingEmpty pending = 2 // all segments go
	pendingSwap  pending = 3 // a rewritten segment takes the place of those from cutBase on
)

// checkpoint is what a log knows beside its segments. It is replaced as a whole: when the start
// moves, when a segment is sealed or an epoch begins (with the sync that covers them) and
// in an orderly close.
type checkpoint struct {
	generation uint64 // rises with every cut, so that older marks do not count
	start      kafka.Offset
	pending    pending
	cutBase    kafka.Offset
	cutSize    int64
	epochs     []kafka.EpochStart
	sealed     []state // whole and synced
	tail       *tail   // of the segment after them, if any byte of it was synced
}

// tail says how far a segment that still takes batches had been synced: a checkpoint names
// every segment of which a byte is synced. resume is where its index files go up to.
type tail struct {
	size   int64
	resume state
}

// whole reports whether nothing of the segment need be read again.
func (t *tail) whole() bool { return t.resume.size == t.size }

func appendTail(out []byte, t tail) []byte {
	return appendState(binary.BigEndian.AppendUint64(out, uint64(t.size)), t.resume)
}

func parseTail(raw []byte) (tail, error) {
	resume, err := parseState(raw[8:])
	t := tail{size: int64(binary.BigEndian.Uint64(raw)), resume: resume}
	if err == nil && (t.size < resume.size || t.size > maxPosition) {
		err = fmt.Errorf("segment %d: %w", resume.base, errBadFile)
	}
	return t, err
}

func appendState(out []byte, s state) []byte {
	be := binary.BigEndian
	for _, v := range [...]int64{int64(s.base), s.size, int64(s.next), s.maxTime, int64(s.maxTimeOffset), s.created, s.sinceEntry} {
		out = be.AppendUint64(out, uint64(v))
	}
	out = be.AppendUint64(out, uint64(s.lastTime))
	for _, v := range [...]uint32{s.sums.offsets, s.sums.offsetsCRC, s.sums.times, s.sums.timesCRC} {
		out = be.AppendUint32(out, v)
	}
	return be.AppendUint32(out, 0) // reserved
}

// parseState reads a state and checks that it can be one.
func parseState(raw []byte) (state, error) {
	be := binary.BigEndian
	var v [8]int64
	for i := range v {
		v[i] = int64(be.Uint64(raw[8*i:]))
	}
	s := state{
		base: kafka.Offset(v[0]), size: v[1], next: kafka.Offset(v[2]), maxTime: v[3], maxTimeOffset: kafka.Offset(v[4]),
		created: v[5], sinceEntry: v[6], lastTime: v[7],
		sums: indexSums{
			offsets: be.Uint32(raw[64:]), offsetsCRC: be.Uint32(raw[68:]),
			times: be.Uint32(raw[72:]), timesCRC: be.Uint32(raw[76:]),
		},
	}
	if s.base < 0 || s.size < 0 || s.next < s.base || s.sinceEntry < 0 || s.sinceEntry > s.size || s.size > maxPosition {
		return state{}, fmt.Errorf("segment %d: %w", s.base, errBadFile)
	}
	return s, nil
}

func (c *checkpoint) encode() []byte {
	be := binary.BigEndian
	out := make([]byte, headSize, headSize+checkpointFixed+len(c.epochs)*epochSize+(len(c.sealed)+2)*stateSize)
	out = be.AppendUint64(out, c.generation)
	out = be.AppendUint64(out, uint64(c.start))
	out = append(out, byte(c.pending), 0)
	out = be.AppendUint64(out, uint64(c.cutBase))
	out = be.AppendUint64(out, uint64(c.cutSize))
	tails := uint32(0)
	if c.tail != nil {
		tails = 1
	}
	out = be.AppendUint32(out, uint32(len(c.epochs)))
	out = be.AppendUint32(out, uint32(len(c.sealed)))
	out = be.AppendUint32(out, tails)
	out = be.AppendUint32(out, 0) // reserved
	for _, e := range c.epochs {
		out = be.AppendUint32(out, uint32(e.Epoch))
		out = be.AppendUint64(out, uint64(e.Start))
	}
	for _, s := range c.sealed {
		out = appendState(out, s)
	}
	if c.tail != nil {
		out = appendTail(out, *c.tail)
	}
	return seal(out, checkpointMagic)
}

// seal fills in the head of a file of ours.
func seal(out []byte, magic uint32) []byte {
	binary.BigEndian.PutUint32(out, magic)
	binary.BigEndian.PutUint32(out[4:], formatVersion)
	binary.BigEndian.PutUint32(out[8:], crc32.Checksum(out[headSize:], castagnoli))
	return out
}

// unseal checks the head and is what comes after it. A newer format is its own error; the rest is errBadFile.
func unseal(raw []byte, name string, magic uint32) ([]byte, error) {
	if len(raw) < headSize || binary.BigEndian.Uint32(raw) != magic {
		return nil, fmt.Errorf("%s: %w", name, errBadFile)
	}
	if v := binary.BigEndian.Uint32(raw[4:]); v > formatVersion {
		return nil, fmt.Errorf("%s has format %d and this version of hawser reads up to %d: start the newer version that wrote it",
			name, v, formatVersion)
	}
	if crc32.Checksum(raw[headSize:], castagnoli) != binary.BigEndian.Uint32(raw[8:]) {
		return nil, fmt.Errorf("%s: %w", name, errBadFile)
	}
	return raw[headSize:], nil
}

// parseCheckpoint reads a checkpoint; errors wrap errBadFile unless the format is newer.
func parseCheckpoint(raw []byte) (*checkpoint, error) {
	body, err := unseal(raw, checkpointName, checkpointMagic)
	if err != nil {
		return nil, err
	}
	bad := fmt.Errorf("%s: %w", checkpointName, errBadFile)
	if len(body) < checkpointFixed {
		return nil, bad
	}
	be := binary.BigEndian
	c := &checkpoint{
		generation: be.Uint64(body), start: kafka.Offset(be.Uint64(body[8:])), pending: pending(body[16]),
		cutBase: kafka.Offset(be.Uint64(body[18:])), cutSize: int64(be.Uint64(body[26:])),
	}
	epochs, sealed, tails := int64(be.Uint32(body[34:])), int64(be.Uint32(body[38:])), int64(be.Uint32(body[42:]))
	body = body[checkpointFixed:]
	if c.start < 0 || c.pending > pendingSwap || tails > 1 || int64(len(body)) != epochs*epochSize+sealed*stateSize+tails*tailSize {
		return nil, bad
	}
	for range epochs {
		c.epochs = append(c.epochs, kafka.EpochStart{Epoch: kafka.LeaderEpoch(be.Uint32(body)), Start: kafka.Offset(be.Uint64(body[4:]))})
		body = body[epochSize:]
	}
	for range sealed {
		s, err := parseState(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", checkpointName, err)
		}
		c.sealed = append(c.sealed, s)
		body = body[stateSize:]
	}
	if tails == 1 {
		t, err := parseTail(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", checkpointName, err)
		}
		c.tail = &t
	}
	return c, nil
}

// readCheckpoint reads the directory's checkpoint, nil if there is none or (then bad is set) it is spoilt.
func readCheckpoint(dir store.Dir) (c *checkpoint, bad bool, err error) {
	raw, err := dir.ReadFile(checkpointName)
	if errors.Is(err, store.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read checkpoint: %w", err)
	}
	if len(raw) > checkpointMax {
		return nil, true, nil
	}
	c, err = parseCheckpoint(raw)
	if errors.Is(err, errBadFile) {
		return nil, true, nil
	}
	return c, false, err
}

// mark says how far the log had been synced when it was written, at the least: a hint,
// which reaches the disk soon after the sync it speaks of.
type mark struct {
	generation uint64
	tail       // segments below its base are synced whole
}

func (m *mark) encode(out []byte) []byte {
	out = append(out[:0], make([]byte, headSize)...)
	out = binary.BigEndian.AppendUint64(out, m.generation)
	return seal(appendTail(out, m.tail), markMagic)
}

// readMark reads the mark of the generation, nil if there is none.
func readMark(dir store.Dir, generation uint64) (*mark, error) {
	raw, err := dir.ReadFile(markName)
	if errors.Is(err, store.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read synced mark: %w", err)
	}
	m, err := parseMark(raw)
	if errors.Is(err, errBadFile) || err == nil && m.generation != generation {
		return nil, nil
	}
	return m, err
}

func parseMark(raw []byte) (*mark, error) {
	body, err := unseal(raw, markName, markMagic)
	if err != nil {
		return nil, err
	}
	if len(body) != 8+tailSize {
		return nil, fmt.Errorf("%s: %w", markName, errBadFile)
	}
	t, err := parseTail(body[8:])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", markName, err)
	}
	return &mark{generation: binary.BigEndian.Uint64(body), tail: t}, nil
}
