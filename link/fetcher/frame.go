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
	// calm is after how many small answers in a row a grown frame goes back.
	calm = 20
)

// frame is how much one loop asks for at once.
type frame struct {
	size int   // bytes to ask for now
	held int64 // bytes taken from Pool.spare: two frames, one that is appended and one that is fetched
	want int   // what bandwidth and delay ask for; 0 for the configured
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

// partitionMax is how much one partition may take of the frame: a grown frame is for the
// partitions that are behind, and leaves the others a quarter.
func (fr *frame) partitionMax(cfg *Config) int {
	if fr.size > cfg.ResponseMax {
		return fr.size / 4 * 3
	}
	return min(cfg.PartitionMax, fr.size)
}
