package fetcher

// Memory is room for an answer, used again and again. The zero value has none yet. Not for use by two at once.
type Memory struct{ bytes []byte }

// memoryStep is what room is rounded up to, in bytes, so that answers of about one length find it large enough.
const memoryStep = 256 << 10

// Take is room for n bytes, with whatever they hold.
func (m *Memory) Take(n int) []byte {
	if cap(m.bytes) < n {
		m.bytes = make([]byte, (n+memoryStep-1)/memoryStep*memoryStep)
	}
	return m.bytes[:n]
}

// Forget leaves the room to those who still use it.
func (m *Memory) Forget() { m.bytes = nil }

// lend gives an exchange memory for its answer.
func (l *loop) lend() *Memory {
	if n := len(l.memory); n > 0 {
		m := l.memory[n-1]
		l.memory = l.memory[:n-1]
		return m
	}
	return new(Memory)
}

// regain takes the memory of an answer back once all of it is stored. What is larger than two answers of now, or
// was hardly used, is left to the collector: quiet loops hold none.
func (l *loop) regain(x *exchange, bytes int) {
	if bytes >= aheadLeast && cap(x.memory.bytes) <= 2*x.limit {
		l.memory = append(l.memory, x.memory)
	} else {
		l.memory = nil
	}
	x.memory = nil
}
