package peer

import "github.com/hawserio/hawser/kafka"

// Bounds of the texts in a LinkHello.
const (
	versionMax = 100
	modeMax    = 32
	stateMax   = 64
	filtersMax = 1 << 20
)

// Self is what a cluster says of itself: rule P3 compares it, so that two copies of one cluster are not linked.
type Self struct {
	Incarnation    string // drawn at the first start and again after a restore
	ProducerPrefix int32  // the high half of the producer ids it hands out, 31 bits
	Version        string // hawser's
}

// LinkHalf is one side of a link.
type LinkHalf struct {
	Name       string
	ID         kafka.TopicID
	Mode       string // link.mode
	Connection string // connection.mode
	Prefix     string // cluster.link.prefix
	Remote     string // the cluster it is linked with; empty if it does not know yet
	State      string // its link_state; empty in a question
	Groups     string // its consumer.offset.group.filters, empty where consumer.offset.sync.enable is off
}

// HelloRequest asks the other cluster who it is and whether it has the other half: a link of the id, or of
// the name where the id is not agreed on yet.
type HelloRequest struct {
	Self Self
	Half LinkHalf
}

// HelloAnswer tells. Half is nil where the cluster has no link of that id or name.
type HelloAnswer struct {
	Self Self
	Half *LinkHalf
}

func (s Self) append(b []byte) []byte {
	b = AppendString(b, s.Incarnation)
	b = AppendInt32(b, s.ProducerPrefix)
	return AppendString(b, s.Version)
}

func readSelf(in *Reader) Self {
	return Self{Incarnation: in.String(idMax), ProducerPrefix: in.Int32(), Version: in.String(versionMax)}
}

func (h LinkHalf) append(b []byte) []byte {
	b = AppendString(b, h.Name)
	b = append(b, h.ID[:]...)
	for _, text := range []string{h.Mode, h.Connection, h.Prefix, h.Remote, h.State} {
		b = AppendString(b, text)
	}
	return AppendBytes(b, []byte(h.Groups))
}

func readHalf(in *Reader) LinkHalf {
	return LinkHalf{
		Name: in.String(nameMax), ID: in.ID(), Mode: in.String(modeMax), Connection: in.String(modeMax),
		Prefix: in.String(nameMax), Remote: in.String(idMax), State: in.String(stateMax), Groups: string(in.Bytes(filtersMax)),
	}
}

// Encode is the body of the request.
func (m HelloRequest) Encode() []byte { return m.Half.append(m.Self.append(nil)) }

// DecodeHelloRequest reads a body.
func DecodeHelloRequest(b []byte) (HelloRequest, error) {
	in := Reader{Rest: b}
	m := HelloRequest{Self: readSelf(&in), Half: readHalf(&in)}
	return m, in.End()
}

// Encode is the body of the answer.
func (m HelloAnswer) Encode() []byte {
	b := AppendBool(m.Self.append(nil), m.Half != nil)
	if m.Half != nil {
		b = m.Half.append(b)
	}
	return b
}

// DecodeHelloAnswer reads a body.
func DecodeHelloAnswer(b []byte) (HelloAnswer, error) {
	in := Reader{Rest: b}
	m := HelloAnswer{Self: readSelf(&in)}
	if in.Bool() {
		half := readHalf(&in)
		m.Half = &half
	}
	return m, in.End()
}
