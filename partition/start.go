package partition

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// DeleteRecords moves the log start forward; NoOffset means the high watermark. Refused on a mirror.
func (p *Partition) DeleteRecords(to kafka.Offset) (logStart kafka.Offset, err error) {
	p.order <- struct{}{}
	defer p.unlockOrder()
	if err := p.openForAppend(); err != nil {
		if kafka.CodeOf(err) == kafka.InvalidRequest {
			err = kafka.Errorf(kafka.InvalidRequest,
				"Cannot delete records of read-only mirror topic '%s': its log start follows the source's.", p.name.Topic)
		}
		return kafka.NoOffset, err
	}
	marks := p.Offsets()
	if to == kafka.NoOffset {
		to = marks.HighWatermark
	}
	if to < 0 || to > marks.HighWatermark {
		return kafka.NoOffset, kafka.Errorf(kafka.OffsetOutOfRange, "Offset %d of partition %s is above its high watermark %d or negative.",
			to, p.name, marks.HighWatermark)
	}
	if err := p.moveStart(to); err != nil {
		return kafka.NoOffset, err
	}
	return p.Offsets().LogStart, nil
}

// FollowLogStart moves a mirror's log start to the source's, as far as its high watermark (rule D4).
func (p *Partition) FollowLogStart(ctx context.Context, generation int64, source kafka.Offset) error {
	if source <= p.Offsets().LogStart {
		return nil
	}
	if err := p.lockOrder(ctx); err != nil {
		return err
	}
	defer p.unlockOrder()
	if err := p.Err(); err != nil {
		return err
	}
	if entry := p.Entry(); entry.Role != meta.RoleMirror || entry.Generation != generation || p.unsettled.Load() {
		return ErrStale
	}
	return p.moveStart(min(source, p.Offsets().HighWatermark))
}

// moveStart moves the log start forward. It needs order.
func (p *Partition) moveStart(to kafka.Offset) error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	// A hole at the log's end is in the entry, not in the log: the start cannot lie in it.
	if err := p.log.SetStart(min(to, p.log.EndOffset())); err != nil {
		return p.storageError("move the log start", err)
	}
	p.derived.dropBelow(p.log.StartOffset())
	m := &p.marks
	m.mu.Lock()
	if m.entry.Role == meta.RoleMirror {
		p.derived.forgetGone(p.log.StartOffset())
	}
	m.logStart, m.firstOpen, m.aborted = p.log.StartOffset(), p.derived.firstOpen(), p.derived.aborted
	err := m.move()
	m.mu.Unlock()
	p.failOn(err)
	return p.Err()
}
