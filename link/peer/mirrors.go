package peer

import "github.com/hawserio/hawser/kafka"

// Bounds of what is told of mirrors.
const (
	ChainMax  = 8    // clusters that one chain is followed through
	MirrorMax = 2000 // mirrors on one page
)

// ChainRequest asks where the topic that the request names comes from: over how many clusters it is to be followed.
type ChainRequest struct{ Depth int16 }

// Hop is a topic on a cluster.
type Hop struct{ Cluster, Topic string }

// ChainAnswer is the topic itself and, if it is a live mirror, its source, that one's source, and so on.
type ChainAnswer struct {
	Hops []Hop
	Open string // why the chain could not be followed to its end; empty if it was
}

// MirrorsRequest asks for the live mirrors of the caller's topics, by name, after a name.
type MirrorsRequest struct{ After string }

// Mirrored is a mirror and its source topic.
type Mirrored struct {
	Topic    string // at the answering side
	Source   string
	SourceID kafka.TopicID
}

// MirrorsAnswer is one page; More says that another one follows the last name.
type MirrorsAnswer struct {
	Mirrors []Mirrored
	More    bool
}

// Encode is the body of the request.
func (m ChainRequest) Encode() []byte { return AppendInt16(nil, m.Depth) }

// DecodeChainRequest reads a body.
func DecodeChainRequest(b []byte) (ChainRequest, error) {
	in := Reader{Rest: b}
	m := ChainRequest{Depth: in.Int16()}
	if m.Depth < 0 || m.Depth > ChainMax {
		in.fail("a chain of %d clusters where at most %d are followed", m.Depth, ChainMax)
	}
	return m, in.End()
}

// Encode is the body of the answer.
func (m ChainAnswer) Encode() []byte {
	b := AppendInt32(nil, int32(len(m.Hops)))
	for _, hop := range m.Hops {
		b = AppendString(AppendString(b, hop.Cluster), hop.Topic)
	}
	return AppendString(b, m.Open[:min(len(m.Open), wordsMax)])
}

// DecodeChainAnswer reads a body.
func DecodeChainAnswer(b []byte) (ChainAnswer, error) {
	in := Reader{Rest: b}
	var m ChainAnswer
	for range in.Count(ChainMax+2, 4) {
		m.Hops = append(m.Hops, Hop{Cluster: in.String(idMax), Topic: in.String(nameMax)})
	}
	m.Open = in.String(wordsMax)
	return m, in.End()
}

// Encode is the body of the request.
func (m MirrorsRequest) Encode() []byte { return AppendString(nil, m.After) }

// DecodeMirrorsRequest reads a body.
func DecodeMirrorsRequest(b []byte) (MirrorsRequest, error) {
	in := Reader{Rest: b}
	m := MirrorsRequest{After: in.String(nameMax)}
	return m, in.End()
}

// Encode is the body of the answer.
func (m MirrorsAnswer) Encode() []byte {
	b := AppendBool(nil, m.More)
	b = AppendInt32(b, int32(len(m.Mirrors)))
	for _, one := range m.Mirrors {
		b = AppendString(AppendString(b, one.Topic), one.Source)
		b = append(b, one.SourceID[:]...)
	}
	return b
}

// DecodeMirrorsAnswer reads a body.
func DecodeMirrorsAnswer(b []byte) (MirrorsAnswer, error) {
	in := Reader{Rest: b}
	m := MirrorsAnswer{More: in.Bool()}
	for range in.Count(MirrorMax, 20) {
		m.Mirrors = append(m.Mirrors, Mirrored{Topic: in.String(nameMax), Source: in.String(nameMax), SourceID: in.ID()})
	}
	return m, in.End()
}
