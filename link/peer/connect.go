package peer

import "time"

// Phase is what a side that lends connections says on one of them.
type Phase int8

// The phases, in order.
const (
	Offer  Phase = iota // do you need a connection to one of my brokers
	Ready               // the broker is reached: from your answer on its end of this connection is the broker's
	Failed              // it is not, and why
)

// Bounds of a LinkConnect.
const (
	WaitMax    = time.Minute // of an offer
	addressMax = 300         // bytes of host:port
	codeMax    = 64          // bytes of an error code's name
	phaseMax   = Failed
	waitMaxMs  = int32(WaitMax / time.Millisecond)
)

// ConnectRequest is what the side that dials says.
type ConnectRequest struct {
	Phase  Phase
	WaitMs int32  // Offer: how long the answer may take; at most WaitMax
	Token  int64  // Ready, Failed: of the answer to the offer
	Code   string // Failed: a link_error's name
	Words  string // Failed: for the operator of the other cluster; cut to 4096 bytes
}

// ConnectAnswer answers an Offer; the others' answers are empty.
type ConnectAnswer struct {
	Wanted  bool   // false: not within the time; offer again
	Address string // host:port, as the dialling side's brokers advertise it; empty: any of them
	Token   int64
}

// Encode is the body of the request.
func (m ConnectRequest) Encode() []byte {
	b := AppendInt32([]byte{byte(m.Phase)}, m.WaitMs)
	b = AppendInt64(b, m.Token)
	return AppendString(AppendString(b, m.Code), m.Words[:min(len(m.Words), wordsMax)])
}

// DecodeConnectRequest reads a body.
func DecodeConnectRequest(b []byte) (ConnectRequest, error) {
	in := Reader{Rest: b}
	var m ConnectRequest
	if phase := in.take(1); phase != nil {
		m.Phase = Phase(phase[0])
	}
	m.WaitMs, m.Token = in.Int32(), in.Int64()
	m.Code, m.Words = in.String(codeMax), in.String(wordsMax)
	if m.Phase < 0 || m.Phase > phaseMax {
		in.fail("phase %d is unknown", m.Phase)
	}
	if m.WaitMs < 0 || m.WaitMs > waitMaxMs {
		in.fail("a wait of %d ms where at most %d may be", m.WaitMs, waitMaxMs)
	}
	return m, in.End()
}

// Encode is the body of the answer.
func (m ConnectAnswer) Encode() []byte {
	return AppendInt64(AppendString(AppendBool(nil, m.Wanted), m.Address), m.Token)
}

// DecodeConnectAnswer reads a body.
func DecodeConnectAnswer(b []byte) (ConnectAnswer, error) {
	in := Reader{Rest: b}
	m := ConnectAnswer{Wanted: in.Bool(), Address: in.String(addressMax), Token: in.Int64()}
	return m, in.End()
}
