package peer

import "github.com/hawserio/hawser/kafka"

// KinMax bounds the topics in one answer.
const KinMax = 32

// Kin names a topic for ever.
type Kin struct {
	Cluster string
	Topic   kafka.TopicID
}

// KinAnswer says which topics' history is that of the one that the request names: of those that it was copied from, nearest first. The
// request has no body.
type KinAnswer struct {
	Topic kafka.TopicID // the one that was asked about
	Kin   []Kin
}

// Encode is the body.
func (m KinAnswer) Encode() []byte {
	b := append([]byte(nil), m.Topic[:]...)
	b = AppendInt32(b, int32(len(m.Kin)))
	for _, k := range m.Kin {
		b = append(AppendString(b, k.Cluster), k.Topic[:]...)
	}
	return b
}

// DecodeKinAnswer reads a body.
func DecodeKinAnswer(b []byte) (KinAnswer, error) {
	in := Reader{Rest: b}
	m := KinAnswer{Topic: in.ID()}
	for range in.Count(KinMax, 18) {
		m.Kin = append(m.Kin, Kin{Cluster: in.String(idMax), Topic: in.ID()})
	}
	return m, in.End()
}
