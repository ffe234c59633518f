package peer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// Ask is a question before it has its addresses.
type Ask struct {
	Key    Key
	Topics []string // names at the answering side that the question is about; rights are checked on each
	Body   []byte   // at most BodyMax bytes
}

// Request is the envelope of a question. It implements kmsg.Request.
//
// Wire form, big-endian, strings and topics with a 16-bit length, the body with one of 32 bits:
// link id (16 bytes), caller, callee, topics, body. Version 0 is the only one so far.
type Request struct {
	Ask
	Link   kafka.TopicID // the link's id
	Caller string        // the asking cluster's id
	// the id of the cluster that the caller wants to ask; another one refuses. Empty where the caller does not know it yet
	Callee  string
	version int16
}

// Answer is the envelope of an answer. It implements kmsg.Response.
//
// Wire form: error code (16 bits), words, the answering cluster's id, body.
type Answer struct {
	Code    kafka.ErrorCode
	Words   string // why not, and what to do; cut to 4096 bytes
	Cluster string // who answers
	Body    []byte
	key     Key
	version int16
}

var (
	_ kmsg.Request  = (*Request)(nil)
	_ kmsg.Response = (*Answer)(nil)
)

// NewRequest is an empty request of a key, to be read into.
func NewRequest(key Key) *Request { return &Request{Ask: Ask{Key: key}} }

// Check says what is wrong with a request before it is sent.
func (r *Request) Check() error {
	switch {
	case len(r.Body) > BodyMax:
		return fmt.Errorf("%s of %d bytes: at most %d can be sent", r.Ask.Key.Name(), len(r.Body), BodyMax)
	case len(r.Topics) > TopicsMax:
		return fmt.Errorf("%s names %d topics: at most %d can be", r.Ask.Key.Name(), len(r.Topics), TopicsMax)
	case len(r.Caller) > idMax || len(r.Callee) > idMax:
		return fmt.Errorf("%s: a cluster id is longer than %d bytes", r.Ask.Key.Name(), idMax)
	}
	for _, topic := range r.Topics {
		if len(topic) > nameMax {
			return fmt.Errorf("%s names a topic of %d bytes: at most %d can be", r.Ask.Key.Name(), len(topic), nameMax)
		}
	}
	return nil
}

// Key implements kmsg.Request.
func (r *Request) Key() int16 { return int16(r.Ask.Key) }

// MaxVersion implements kmsg.Request.
func (r *Request) MaxVersion() int16 { return maxOf(r.Ask.Key) }

// SetVersion implements kmsg.Request.
func (r *Request) SetVersion(v int16) { r.version = v }

// GetVersion implements kmsg.Request.
func (r *Request) GetVersion() int16 { return r.version }

// IsFlexible implements kmsg.Request: no tagged fields, the version says what is there.
func (r *Request) IsFlexible() bool { return false }

// AppendTo implements kmsg.Request.
func (r *Request) AppendTo(b []byte) []byte {
	b = append(b, r.Link[:]...)
	b = AppendString(b, r.Caller)
	b = AppendString(b, r.Callee)
	b = AppendStrings(b, r.Topics)
	return AppendBytes(b, r.Body)
}

// ReadFrom implements kmsg.Request. Body aliases b.
func (r *Request) ReadFrom(b []byte) error {
	in := Reader{Rest: b}
	r.Link = in.ID()
	r.Caller, r.Callee = in.String(idMax), in.String(idMax)
	r.Topics = in.Strings(TopicsMax, nameMax)
	r.Body = in.Bytes(BodyMax)
	return in.End()
}

// ResponseKind implements kmsg.Request.
func (r *Request) ResponseKind() kmsg.Response { return &Answer{key: r.Ask.Key, version: r.version} }

// Err is the refusal as an error, nil for none.
func (a *Answer) Err() error {
	if a.Code == kafka.None {
		return nil
	}
	return &kafka.Error{Code: a.Code, Message: a.Words}
}

// Key implements kmsg.Response.
func (a *Answer) Key() int16 { return int16(a.key) }

// MaxVersion implements kmsg.Response.
func (a *Answer) MaxVersion() int16 { return maxOf(a.key) }

// SetVersion implements kmsg.Response.
func (a *Answer) SetVersion(v int16) { a.version = v }

// GetVersion implements kmsg.Response.
func (a *Answer) GetVersion() int16 { return a.version }

// IsFlexible implements kmsg.Response.
func (a *Answer) IsFlexible() bool { return false }

// RequestKind implements kmsg.Response.
func (a *Answer) RequestKind() kmsg.Request {
	return &Request{Ask: Ask{Key: a.key}, version: a.version}
}

// AppendTo implements kmsg.Response.
func (a *Answer) AppendTo(b []byte) []byte {
	b = AppendInt16(b, int16(a.Code))
	b = AppendString(b, a.Words[:min(len(a.Words), wordsMax)])
	b = AppendString(b, a.Cluster)
	return AppendBytes(b, a.Body)
}

// ReadFrom implements kmsg.Response. Body aliases b.
func (a *Answer) ReadFrom(b []byte) error {
	in := Reader{Rest: b}
	a.Code = kafka.ErrorCode(in.Int16())
	a.Words, a.Cluster = in.String(wordsMax), in.String(idMax)
	a.Body = in.Bytes(BodyMax)
	return in.End()
}

func maxOf(key Key) int16 {
	row, _ := RowOf(key)
	return row.Max
}
