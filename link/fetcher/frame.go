package fetcher

import "time"

const (
	// frameGrowth is how many times bandwidth x round trip a frame holds at most: 1/(1+1/6) of
	// the time is then spent receiving.
	frameGrowth = 6
	// frameMost is the largest frame, in bytes: Kafka's brokers give no more (fetch.max.bytes).
	frameMost = 55 << 20
	// frameLeast is the smallest frame a loop gets however little memory there is.
	frameLeast = 256 << 10
	// frameTime is how long an answer may take to arrive: one that is still coming when the request times
	// out is lost, and asked for again for ever.
	frameTime = 5 * time.Second
	// calm is after how many small answers in a row a grown frame goes back.
	calm = 20
)

// frame is how much one loop asks for at once.
type frame struct {
	size int   // bytes to ask for now
	held int64 // bytes taken from Pool.spare: two frames, one that is appended and one that is fetched
	want int   // what bandwidth and delay ask for; 0 for the configured
	slow int   // what the line carries in frameTime, where that is less; 0 for no bound
	idle int   // small answers in a row
}

// size sets the loop's frame: the configured one, or what the line asks for, as far as the pool's memory goes.
func (l *loop) size(cfg *Config) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare += l.frame.held
	base := min(int64(cfg.ResponseMax), max(cfg.MemoryMax/int64(max(len(p.loops), 1))/2, frameLeast))
	grown := max(base, int64(l.frame.want))
	if l.frame.slow > 0 {
		grown = min(grown, int64(l.frame.slow))
	}
	size := max(min(grown, p.spare/2), min(base, frameLeast))
	l.frame.held = 2 * size
	p.spare -= l.frame.held
	l.frame.size = int(size)
}

// note learns from an answer that took elapsed, of which roundTrip (0 for unknown) is distance. It returns the answer's bytes.
func (fr *frame) note(answers []Fetched, elapsed, roundTrip time.Duration) (bytes int) {
	for i := range answers {
		bytes += len(answers[i].Batches)
	}
	if receiving := max(elapsed-roundTrip, elapsed/20); bytes >= fr.size/2 {
		fr.slow = 0
		if carried := float64(bytes) / receiving.Seconds() * frameTime.Seconds(); carried < frameMost {
			fr.slow = max(int(carried), frameLeast)
		}
	}
	if bytes < fr.size/4 {
		if fr.idle++; fr.idle >= calm {
			fr.want = 0
		}
		return bytes
	}
	fr.idle = 0
	if bytes < fr.size/4*3 || roundTrip <= 0 {
		return bytes
	}
	receiving := max(elapsed-roundTrip, elapsed/20)
	perRoundTrip := float64(bytes) / receiving.Seconds() * roundTrip.Seconds()
	fr.want = int(min(perRoundTrip*frameGrowth, frameMost))
	return bytes
}

// lost notes that an answer did not arrive in time.
func (fr *frame) lost() {
	fr.slow, fr.want = max(fr.size/4, frameLeast), 0
}

// partitionMax is how much one partition may take of the frame: a grown frame is for the
// partitions that are behind, and leaves the others a quarter.
func (fr *frame) partitionMax(cfg *Config) int {
	if fr.size > cfg.ResponseMax {
		return fr.size / 4 * 3
	}
	return min(cfg.PartitionMax, max(fr.size, frameLeast))
}
