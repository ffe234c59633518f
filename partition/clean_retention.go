package partition

import (
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/meta"
)

// Removed is what retention took from a partition.
type Removed struct {
	Segments int
	Bytes    int64
}

// ApplyRetention moves the log start behind the segments that are too old or too much under the topic's
// configs, on mirrors too: their own retention runs beside the source's log start, which they follow. Nothing
// above the high watermark goes, and nothing at all while the partition is frozen (rule R7) or
// an order is carried out: then it is for the next round. Readers keep the files they hold.
func (p *Partition) ApplyRetention(now time.Time) (Removed, error) {
	select {
	case p.order <- struct{}{}:
	default:
		return Removed{}, nil // an order is under way
	}
	defer p.unlockOrder()
	policy := p.cfg.Load().Retain
	if !policy.Delete || p.Err() != nil || p.unsettled.Load() {
		return Removed{}, nil
	}
	if role := p.Entry().Role; role != meta.RoleOpen && role != meta.RoleMirror {
		return Removed{}, nil
	}
	marks := p.Offsets()
	segments := p.segments()
	start := policy.Start(segments, retain.Marks{LogStart: marks.LogStart, HighWatermark: marks.HighWatermark}, now.UnixMilli())
	if start <= marks.LogStart {
		return Removed{}, nil
	}
	if err := p.moveStart(start); err != nil {
		return Removed{}, err
	}
	var removed Removed
	for _, s := range segments {
		if s.Next <= start {
			removed.Segments++
			removed.Bytes += s.Bytes
		}
	}
	p.owner.cfg.Logger.Info("retention moved a log start", "topic", p.name.Topic, "partition", p.name.Partition,
		"from", marks.LogStart, "to", start, "segments", removed.Segments, "bytes", removed.Bytes)
	return removed, nil
}

// segments are the log's, oldest first.
func (p *Partition) segments() []retain.Segment {
	infos := p.log.Segments()
	list := make([]retain.Segment, len(infos))
	for i, s := range infos {
		list[i] = retain.Segment{Base: s.Base, Next: s.Next, Bytes: s.Bytes, MaxTimestamp: s.MaxTimestamp, Created: s.Created}
	}
	return list
}

// ApplyRetention applies retention to every partition, one after another, until stop is closed, and sums up what went.
// The errors of partitions that fail are theirs: they are out of service and say so.
func (o *Owner) ApplyRetention(now time.Time, stop <-chan struct{}) Removed {
	var sum Removed
	for _, p := range o.all(nil) {
		select {
		case <-stop:
			return sum
		default:
		}
		removed, err := p.ApplyRetention(now)
		if err != nil {
			p.owner.cfg.Logger.Warn("retention could not be applied", "topic", p.name.Topic, "partition", p.name.Partition, "error", err)
		}
		sum.Segments += removed.Segments
		sum.Bytes += removed.Bytes
	}
	return sum
}
