package fetcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
)

// part is one partition in a pool's hands. Who holds it (a loop, steer or a repair) alone uses
// the fields below "the holder's"; it passes from one to the next under Pool.mu.
type part struct {
	Assignment
	pool   *Pool
	ctx    context.Context // done when dropped
	cancel context.CancelFunc
	leader atomic.Pointer[Leader] // the holder writes it
	hint   atomic.Pointer[Leader] // newer metadata, from steer to the holder
	line   atomic.Pointer[loop]   // the loop that fetches it, for LastContact

	work  sync.Mutex  // held while Target is called
	off   atomic.Bool // being dropped: set before cancel, cheaper to ask than ctx
	begun time.Time

	splice     atomic.Bool  // the next fetch reads the last batch again (rule E6); the holder writes it
	confirming atomic.Bool  // the source is being asked for its log start
	confirmed  atomic.Int64 // the log start that it answered then; -1 for never

	gone atomic.Bool // dropped: Target is called no more; set under work

	mu     sync.Mutex // guards status and fresh
	status Status
	fresh  freshness

	// the holder's
	turn       int           // rises each time a loop takes it over
	served     int           // answers taken
	ahead      *position     // set while a fetch is built beside an append
	topicID    kafka.TopicID // the source's, zero where it has none
	notBefore  time.Time     // no fetch and no question until then
	tries      int           // failures in a row, for the next wait
	maxBytes   int           // a batch was larger than the usual bound; 0 for the usual
	asked      asked
	serial     int64      // of the connection that the splice was checked on
	noStripes  time.Time  // stripes are not tried before
	doubt      plan.Doubt // why it needs a repair
	aligned    bool       // a repair has compared the histories since: the next new connection need not
	noEpoch    bool       // the source has forgotten the last batch's epoch: do not name it
	reread     bool       // nor after an append, until histories are compared again
	cutUnder   kafka.LeaderEpoch
	cutTo      kafka.Offset      // where the mirror was last cut, while the source was in leader epoch cutUnder
	last       lastEpoch         // cache
	short      int               // times in a row that the source's log was found shorter than the mirror's in the same epoch
	start      kafka.Offset      // the source's log start, as last heard; -1 for never
	followed   kafka.Offset      // the mirror's high watermark when its start last followed
	followedTo kafka.Offset      // and where to
	backwards  int               // times in a row that metadata showed an older leader epoch
	proven     kafka.LeaderEpoch // the highest that the source has answered a fetch under; metadata alone may be wrong
	suspect    suspicion
	odd        oddEpoch // the last that was doubted
}

// silence is how long beyond its long poll an answer may take before the lag is said to be unknown.
const silence = 3 * time.Second

// asked is what the fetch under way was built from.
type asked struct {
	generation int64
	offset     kafka.Offset
	epoch      kafka.LeaderEpoch // the source's leader epoch
	splice     bool
	ahead      bool // the offset counts on an append that was under way
}

// lastEpoch is the epoch of the mirror's last batch, for the log end and generation it was read at.
type lastEpoch struct {
	generation int64
	end        kafka.Offset
	epoch      kafka.LeaderEpoch
	known      bool
}

func (p *Pool) newPart(a Assignment) *part {
	q := &part{Assignment: a, pool: p, topicID: a.SourceID, start: -1, followed: -1, proven: kafka.NoEpoch}
	q.splice.Store(true)
	q.confirmed.Store(-1)
	q.begun = time.Now()
	q.ctx, q.cancel = context.WithCancel(p.ctx)
	q.status = Status{SourceEnd: -1, SourceStart: -1, LastFetched: -1, LagRecords: -1}
	return q
}

// target runs f, which calls Target, unless the partition is dropped or being dropped.
func (q *part) target(f func() error) error {
	q.work.Lock()
	defer q.work.Unlock()
	if q.gone.Load() || q.ctx.Err() != nil {
		return context.Canceled
	}
	return f()
}

// statusNow is the status with what changes by itself.
func (q *part) statusNow() Status {
	q.mu.Lock()
	s := q.status
	q.mu.Unlock()
	l := q.line.Load()
	s.Compared = l != nil && s.Fault == NoFault && s.SourceEnd >= 0 && !q.splice.Load()
	if l != nil && s.Fault == NoFault && s.SourceEnd >= 0 {
		// What a session leaves out of an answer has not changed.
		if at := l.contact.Load(); at > s.LastContact.UnixNano() {
			s.LastContact = time.Unix(0, at)
		}
	}
	heard := s.LastContact
	if heard.IsZero() {
		heard = q.begun
	}
	s.Silent = time.Since(heard) > q.pool.cfg.Load().MaxWait+silence
	if s.SourceEnd >= 0 {
		synced := q.Target.Offsets().HighWatermark
		s.LagRecords = max(0, int64(s.SourceEnd-synced))
		q.mu.Lock()
		q.fresh.applied(synced, s.LastContact)
		s.CaughtUp, s.Behind = q.fresh.caught, q.fresh.behind(synced)
		q.mu.Unlock()
	}
	return s
}

// fail shows what stands in the way, and waits before the next attempt: first short, then longer, up to most.
func (q *part) fail(fault Fault, err error, most time.Duration) {
	q.wait(most)
	if final(fault) && !q.seenTwice(fault, err) {
		q.splice.Store(true)
		return
	}
	q.show(fault, err)
}

// suspicion is a fault that would end the mirror, seen once.
type suspicion struct {
	fault Fault
	text  string
	at    time.Time
}

// oddEpoch is a batch whose leader epoch is above its leader's.
type oddEpoch struct {
	base  kafka.Offset
	epoch kafka.LeaderEpoch
}

// suspicionAge is for how long a fault counts as seen.
const suspicionAge = time.Minute

// final reports whether a fault ends its mirror as soon as it is shown. No single answer of the source does that:
// nothing protects the bytes of one on a plaintext line, nor does anything make one broker's metadata right.
func final(fault Fault) bool {
	switch fault {
	case TopicIDChanged, AppendEpochBack, Truncated, OldFormat:
		return true
	}
	return false
}

// seenTwice reports whether the fault was there in an answer before this one too, and nothing was appended since. Another id than the
// first answer's is another fault.
func (q *part) seenTwice(fault Fault, err error) bool {
	text := ""
	if fault == TopicIDChanged {
		text = err.Error()
	}
	now := time.Now()
	again := q.suspect.fault == fault && q.suspect.text == text && now.Sub(q.suspect.at) < suspicionAge
	q.suspect = suspicion{fault, text, now}
	return again
}

// wait doubles the wait before the next attempt, up to most.
func (q *part) wait(most time.Duration) {
	least := min(100*time.Millisecond, most)
	q.notBefore = time.Now().Add(min(least<<min(q.tries, 16), most))
	q.tries++
}

// show sets the fault, and tells of it if it is new.
func (q *part) show(fault Fault, err error) {
	if errors.Is(err, context.Canceled) {
		return // our own doing
	}
	q.mu.Lock()
	fresh := q.status.Fault != fault
	if fresh {
		q.status.Since = time.Now()
	}
	q.status.Fault, q.status.Err = fault, err
	q.mu.Unlock()
	if fresh {
		q.pool.tell(Event{Mirror: q.Mirror, Kind: "fault", Fault: fault, Err: err})
	}
}

// well notes that the partition works, and tells if it did not.
func (q *part) well() {
	q.tries, q.backwards = 0, 0
	q.mu.Lock()
	was := q.status.Fault
	q.status.Fault, q.status.Err, q.status.Since = NoFault, nil, time.Time{}
	q.mu.Unlock()
	if was != NoFault {
		q.pool.tell(Event{Mirror: q.Mirror, Kind: "healed", Fault: was})
	}
}

// heard notes an answer without error. A log start beyond the high watermark cannot be, and is not
// believed: the mirror would delete what the source still has.
func (q *part) heard(f *Fetched) {
	if f.LogStart > f.HighWatermark {
		f.LogStart = -1
	}
	if f.LogStart >= 0 {
		q.start = f.LogStart
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if f.HighWatermark >= 0 {
		q.status.SourceEnd = f.HighWatermark
		q.fresh.saw(f.HighWatermark, q.lastHeard(), now)
	}
	q.status.LastContact = now
	if f.LogStart >= 0 {
		q.status.SourceStart = f.LogStart
	}
}

// lastHeard is when the source last answered before now. It needs mu.
func (q *part) lastHeard() time.Time {
	at := q.status.LastContact
	if l := q.line.Load(); l != nil && !at.IsZero() {
		if before := l.before.Load(); before > at.UnixNano() {
			at = time.Unix(0, before)
		}
	}
	return at
}

// faultOf maps an error of reaching or asking the source. Errors may name their fault themselves.
func faultOf(err error) Fault {
	var named interface{ Fault() Fault }
	if errors.As(err, &named) {
		return named.Fault()
	}
	switch kafka.CodeOf(err) {
	case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.GroupAuthorizationFailed:
		return SourceDenied
	case kafka.SaslAuthenticationFailed, kafka.UnsupportedSaslMechanism, kafka.IllegalSaslState:
		return SourceAuth
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InvalidTopicException:
		return TopicMissing
	case kafka.InconsistentTopicID:
		return TopicIDChanged
	case kafka.CorruptMessage:
		return CorruptBatch
	case kafka.UnsupportedForMessageFormat:
		return OldFormat
	}
	return SourceUnreachable
}
