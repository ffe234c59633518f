package peer

import "github.com/hawserio/hawser/kafka"

// Bounds of the messages of reversals and restores.
const (
	turnMax       = 64      // bytes of a turn's id
	wordMax       = 32      // bytes of a word about a reversal
	partitionsMax = 200_000 // partitions of a topic
	epochsMax     = 100_000 // leader epochs of a partition
	marksMax      = 64      // batches of a partition (rule T5)
	openMax       = 100     // open transactions listed
)

// FreezeRequest asks to freeze a topic for a reversal; DescribeFreeze asks with the same body how far that is.
type FreezeRequest struct {
	Turn       string        // the reversal's id
	Topic      kafka.TopicID // at the answering side
	Mirror     kafka.TopicID // at the asking side
	MirrorName string
	Paused     bool // the new mirror shall begin paused
	Validate   bool // change nothing: only say what stands in the way
}

// OpenTransaction is one that the freeze waits for, and then aborts.
type OpenTransaction struct {
	TransactionalID string
	Producer        kafka.ProducerID
}

// FreezeAnswer says where the topic's partitions ended, or what is waited for.
type FreezeAnswer struct {
	Ready      bool // Ends are stated; they never change again for this turn
	Text       string
	Partitions int32
	Ends       []kafka.Offset // by partition, exclusive
	Open       []OpenTransaction
}

// HandOverRequest says that the mirror has all up to the ends, and asks for the source's role.
type HandOverRequest struct {
	Turn  string
	Topic kafka.TopicID
	Ends  []kafka.Offset
}

// ReverseRequest asks how a reversal stands at the mirror's side.
type ReverseRequest struct {
	Turn  string
	Topic kafka.TopicID // at the answering side
	End   bool          // end it if it is not decided yet, and answer then
}

// ReverseAnswer tells.
type ReverseAnswer struct {
	Word   string         // link/plan.Word's name
	Halted bool           // paused by an operator
	Ends   []kafka.Offset // once completed: the stop points, by partition
}

// PledgeRequest asks for a pledge (rule T1); Release ends it with the same body.
type PledgeRequest struct {
	Turn     string
	Topic    kafka.TopicID // at the asking side: what is to be restored
	Name     string        // of that topic
	Validate bool
}

// PledgeAnswer describes the topic that gave it.
type PledgeAnswer struct {
	Topic             kafka.TopicID
	Partitions        int32
	StoppedMs         int64 // Unix ms at which it stopped mirroring
	Compacted         bool
	DeleteRetentionMs int64
}

// LineageRequest asks for the histories of partitions from First on.
type LineageRequest struct {
	First int32
	Below []kafka.Offset // by partition from First on: marks of the last batches that begin below it are wanted; empty for none
}

// Minted is link/plan.Minted.
type Minted struct {
	Start   kafka.Offset
	Epoch   kafka.LeaderEpoch
	Cluster string
}

// Mark is link/plan.BatchMark.
type Mark struct {
	Base, Next kafka.Offset
	Epoch      kafka.LeaderEpoch
	CRC        uint32
}

// Log is one partition's history. Entries is the stored lineage; Born says that what lies below it was copied from the
// topic's first source.
type Log struct {
	Start, End, CleanedTo, Stop kafka.Offset
	Born                        bool
	Epochs                      []kafka.EpochStart
	Entries                     []Minted
	Marks                       []Mark
}

// LineageAnswer is as many partitions as fit, at least one; whoever wants more asks again.
type LineageAnswer struct {
	Partitions int32
	Logs       []Log
}

func appendOffsets(b []byte, list []kafka.Offset) []byte {
	b = AppendInt32(b, int32(len(list)))
	for _, o := range list {
		b = AppendInt64(b, int64(o))
	}
	return b
}

func readOffsets(in *Reader) []kafka.Offset {
	n := in.Count(partitionsMax, 8)
	list := make([]kafka.Offset, n)
	for i := range list {
		list[i] = kafka.Offset(in.Int64())
	}
	if n == 0 {
		return nil
	}
	return list
}

// Encode is the body.
func (m FreezeRequest) Encode() []byte {
	b := AppendString(nil, m.Turn)
	b = append(b, m.Topic[:]...)
	b = append(b, m.Mirror[:]...)
	b = AppendString(b, m.MirrorName)
	return AppendBool(AppendBool(b, m.Paused), m.Validate)
}

// DecodeFreezeRequest reads a body.
func DecodeFreezeRequest(b []byte) (FreezeRequest, error) {
	in := Reader{Rest: b}
	m := FreezeRequest{Turn: in.String(turnMax), Topic: in.ID(), Mirror: in.ID(), MirrorName: in.String(nameMax), Paused: in.Bool(),
		Validate: in.Bool()}
	return m, in.End()
}

// Encode is the body.
func (m FreezeAnswer) Encode() []byte {
	b := AppendBool(nil, m.Ready)
	b = AppendString(b, m.Text[:min(len(m.Text), wordsMax)])
	b = AppendInt32(b, m.Partitions)
	b = appendOffsets(b, m.Ends)
	open := m.Open[:min(len(m.Open), openMax)]
	b = AppendInt32(b, int32(len(open)))
	for _, o := range open {
		b = AppendInt64(AppendString(b, o.TransactionalID[:min(len(o.TransactionalID), wordsMax)]), int64(o.Producer))
	}
	return b
}

// DecodeFreezeAnswer reads a body.
func DecodeFreezeAnswer(b []byte) (FreezeAnswer, error) {
	in := Reader{Rest: b}
	m := FreezeAnswer{Ready: in.Bool(), Text: in.String(wordsMax), Partitions: in.Int32(), Ends: readOffsets(&in)}
	for range in.Count(openMax, 10) {
		m.Open = append(m.Open, OpenTransaction{TransactionalID: in.String(wordsMax), Producer: kafka.ProducerID(in.Int64())})
	}
	return m, in.End()
}

// Encode is the body.
func (m HandOverRequest) Encode() []byte {
	b := AppendString(nil, m.Turn)
	b = append(b, m.Topic[:]...)
	return appendOffsets(b, m.Ends)
}

// DecodeHandOverRequest reads a body.
func DecodeHandOverRequest(b []byte) (HandOverRequest, error) {
	in := Reader{Rest: b}
	m := HandOverRequest{Turn: in.String(turnMax), Topic: in.ID(), Ends: readOffsets(&in)}
	return m, in.End()
}

// Encode is the body.
func (m ReverseRequest) Encode() []byte {
	b := AppendString(nil, m.Turn)
	b = append(b, m.Topic[:]...)
	return AppendBool(b, m.End)
}

// DecodeReverseRequest reads a body.
func DecodeReverseRequest(b []byte) (ReverseRequest, error) {
	in := Reader{Rest: b}
	m := ReverseRequest{Turn: in.String(turnMax), Topic: in.ID(), End: in.Bool()}
	return m, in.End()
}

// Encode is the body.
func (m ReverseAnswer) Encode() []byte {
	b := AppendString(nil, m.Word)
	b = AppendBool(b, m.Halted)
	return appendOffsets(b, m.Ends)
}

// DecodeReverseAnswer reads a body.
func DecodeReverseAnswer(b []byte) (ReverseAnswer, error) {
	in := Reader{Rest: b}
	m := ReverseAnswer{Word: in.String(wordMax), Halted: in.Bool(), Ends: readOffsets(&in)}
	return m, in.End()
}

// Encode is the body.
func (m PledgeRequest) Encode() []byte {
	b := AppendString(nil, m.Turn)
	b = append(b, m.Topic[:]...)
	return AppendBool(AppendString(b, m.Name), m.Validate)
}

// DecodePledgeRequest reads a body.
func DecodePledgeRequest(b []byte) (PledgeRequest, error) {
	in := Reader{Rest: b}
	m := PledgeRequest{Turn: in.String(turnMax), Topic: in.ID(), Name: in.String(nameMax), Validate: in.Bool()}
	return m, in.End()
}

// Encode is the body.
func (m PledgeAnswer) Encode() []byte {
	b := AppendInt32(append([]byte(nil), m.Topic[:]...), m.Partitions)
	b = AppendInt64(b, m.StoppedMs)
	return AppendInt64(AppendBool(b, m.Compacted), m.DeleteRetentionMs)
}

// DecodePledgeAnswer reads a body.
func DecodePledgeAnswer(b []byte) (PledgeAnswer, error) {
	in := Reader{Rest: b}
	m := PledgeAnswer{Topic: in.ID(), Partitions: in.Int32(), StoppedMs: in.Int64(), Compacted: in.Bool(), DeleteRetentionMs: in.Int64()}
	return m, in.End()
}

// Encode is the body.
func (m LineageRequest) Encode() []byte { return appendOffsets(AppendInt32(nil, m.First), m.Below) }

// DecodeLineageRequest reads a body.
func DecodeLineageRequest(b []byte) (LineageRequest, error) {
	in := Reader{Rest: b}
	m := LineageRequest{First: in.Int32(), Below: readOffsets(&in)}
	if m.First < 0 || m.First > partitionsMax {
		in.fail("partition %d to begin with, where 0 to %d may be", m.First, partitionsMax)
	}
	return m, in.End()
}

// Encode is the body. Size is what one log takes in it.
func (m LineageAnswer) Encode() []byte {
	b := AppendInt32(nil, m.Partitions)
	b = AppendInt32(b, int32(len(m.Logs)))
	for _, l := range m.Logs {
		b = l.append(b)
	}
	return b
}

// Size is how many bytes the log takes in an answer.
func (l Log) Size() int { return len(l.append(nil)) }

func (l Log) append(b []byte) []byte {
	for _, o := range []kafka.Offset{l.Start, l.End, l.CleanedTo, l.Stop} {
		b = AppendInt64(b, int64(o))
	}
	b = AppendBool(b, l.Born)
	b = AppendInt32(b, int32(len(l.Epochs)))
	for _, e := range l.Epochs {
		b = AppendInt32(AppendInt64(b, int64(e.Start)), int32(e.Epoch))
	}
	b = AppendInt32(b, int32(len(l.Entries)))
	for _, m := range l.Entries {
		b = AppendString(AppendInt32(AppendInt64(b, int64(m.Start)), int32(m.Epoch)), m.Cluster)
	}
	b = AppendInt32(b, int32(len(l.Marks)))
	for _, m := range l.Marks {
		b = AppendInt64(AppendInt64(b, int64(m.Base)), int64(m.Next))
		b = AppendInt32(AppendInt32(b, int32(m.Epoch)), int32(m.CRC))
	}
	return b
}

// DecodeLineageAnswer reads a body.
func DecodeLineageAnswer(b []byte) (LineageAnswer, error) {
	in := Reader{Rest: b}
	m := LineageAnswer{Partitions: in.Int32()}
	for range in.Count(partitionsMax, 45) {
		m.Logs = append(m.Logs, readLog(&in))
	}
	return m, in.End()
}

func readLog(in *Reader) Log {
	l := Log{
		Start: kafka.Offset(in.Int64()), End: kafka.Offset(in.Int64()), CleanedTo: kafka.Offset(in.Int64()), Stop: kafka.Offset(in.Int64()),
		Born: in.Bool(),
	}
	for range in.Count(epochsMax, 12) {
		start := kafka.Offset(in.Int64())
		l.Epochs = append(l.Epochs, kafka.EpochStart{Start: start, Epoch: kafka.LeaderEpoch(in.Int32())})
	}
	for range in.Count(epochsMax, 14) {
		start := kafka.Offset(in.Int64())
		l.Entries = append(l.Entries, Minted{Start: start, Epoch: kafka.LeaderEpoch(in.Int32()), Cluster: in.String(idMax)})
	}
	for range in.Count(marksMax, 24) {
		m := Mark{Base: kafka.Offset(in.Int64()), Next: kafka.Offset(in.Int64())}
		m.Epoch, m.CRC = kafka.LeaderEpoch(in.Int32()), uint32(in.Int32())
		l.Marks = append(l.Marks, m)
	}
	return l
}
