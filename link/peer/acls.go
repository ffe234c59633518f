package peer

import "github.com/hawserio/hawser/kafka"

// ACLsMax bounds the ACLs that one cluster tells another of, in one answer: as many as one fits.
const ACLsMax = 200_000

// ACLsAnswer lists the ACLs of the answering cluster that it has copied from the caller's, each by the hash that names it in
// package meta (ACL.Key). The request has no body.
type ACLsAnswer struct{ Keys []kafka.TopicID }

// Encode is the body.
func (m ACLsAnswer) Encode() []byte {
	b := AppendInt32(nil, int32(len(m.Keys)))
	for _, key := range m.Keys {
		b = append(b, key[:]...)
	}
	return b
}

// DecodeACLsAnswer reads a body.
func DecodeACLsAnswer(b []byte) (ACLsAnswer, error) {
	in := Reader{Rest: b}
	var m ACLsAnswer
	for range in.Count(ACLsMax, len(kafka.TopicID{})) {
		m.Keys = append(m.Keys, in.ID())
	}
	return m, in.End()
}
