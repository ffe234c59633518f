package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// Mirrored is bytes of a source, with what a fetcher knows about them.
type Mirrored struct {
	Generation int64         // as Offsets said when the fetch was asked
	FetchedAt  kafka.Offset  // the offset the fetch was asked at; must be LogEnd now (rule D3)
	Batches    batch.Batches // whole batches; the caller's again on return
	Behind     int64         // bytes that the source has above them, estimated
}

// Errors of AppendMirrored that a fetcher tells apart with errors.Is.
var (
	// ErrStale says that a mirrored append names a generation or position that is no longer current.
	// The fetcher asks Offsets and fetches again.
	ErrStale error = kafka.Errorf(kafka.FencedLeaderEpoch, "the partition has moved on since this was fetched")
	// ErrOverlap says that a batch holds offsets that the log has, and others that it has not, or that
	// batches do not follow each other (case C15).
	ErrOverlap error = kafka.Errorf(kafka.InvalidRecord, "the source's batches overlap with what is mirrored already")
	// ErrEpochBack says that a batch's leader epoch is below that of the batch before it.
	ErrEpochBack error = kafka.Errorf(kafka.InvalidRecord, "the source's leader epoch went back")
)

const (
	// farBehind is a backlog of the source, in bytes, that is copied past the system's memory: nobody reads
	// it at once, and what others read at the time should stay there.
	farBehind = 32 << 20
	// cachedTail is what stays of it in memory, in bytes, for consumers that follow the mirror closely.
	cachedTail = 16 << 20
)

// run is a checked run of mirrored batches.
type run struct {
	bytes       batch.Batches
	first, last batch.Batch
	count       int
}

// AppendMirrored stores the source's bytes as they are: offsets, epochs, producer
// ids, timestamps, codec, CRC. It checks magic, CRC, order of offsets and epochs. Batches that end below
// LogEnd are dropped; one that overlaps it without being whole is an error. It
// returns before the sync, and waits when too much is unsynced. Errors: ErrStale, ErrOverlap, ErrEpochBack,
// batch.ErrMagic, batch.ErrCRC, batch.ErrShort wrapped; kafka.Error else. Nothing is stored with an error.
func (p *Partition) AppendMirrored(ctx context.Context, m Mirrored) error {
	r, err := checkMirrored(m.Batches, m.FetchedAt)
	if err != nil {
		return fmt.Errorf("mirror partition %s: %w", p.name, err)
	}
	if r.count == 0 {
		return p.current(m)
	}
	if err := p.room(len(r.bytes)); err != nil {
		return err
	}
	if err := p.owner.syncer.reserve(ctx, len(r.bytes)); err != nil {
		return err
	}
	if err := p.appendMirrored(m, r); err != nil {
		p.owner.syncer.release(int64(len(r.bytes)))
		return err
	}
	p.owner.syncer.appended(p, len(r.bytes), soon)
	return nil
}

// checkMirrored checks everything that needs no lock, and drops what ends at or below end.
func checkMirrored(bs batch.Batches, end kafka.Offset) (run, error) {
	var r run
	next, epoch := kafka.Offset(0), kafka.NoEpoch
	skipped, at := 0, 0
	for b, err := range bs.All() {
		if err != nil {
			return run{}, fmt.Errorf("read mirrored batches at byte %d: %w", at, err)
		}
		if err := b.CheckCRC(); err != nil {
			return run{}, fmt.Errorf("check mirrored batches: %w", err)
		}
		switch {
		case b.BaseOffset() < next:
			return run{}, fmt.Errorf("%w: batch [%d..%d] follows offset %d", ErrOverlap, b.BaseOffset(), b.LastOffset(), next-1)
		case b.LeaderEpoch() < epoch:
			return run{}, fmt.Errorf("%w: from %d to %d at offset %d", ErrEpochBack, epoch, b.LeaderEpoch(), b.BaseOffset())
		case b.NextOffset() < 0:
			return run{}, kafka.Errorf(kafka.InvalidRecord, "the source's batch at offset %d reaches the largest offset", b.BaseOffset())
		case b.LeaderEpoch() > epochMax:
			return run{}, kafka.Errorf(kafka.InvalidRecord,
				"the source's leader epoch %d at offset %d is above the largest supported one, %d",
				b.LeaderEpoch(), b.BaseOffset(), epochMax)
		}
		next, epoch = b.NextOffset(), b.LeaderEpoch()
		at += len(b)
		if next <= end {
			skipped = at
			continue
		}
		if r.count == 0 {
			r.first = b
		}
		r.last = b
		r.count++
	}
	r.bytes = bs[skipped:at]
	return r, nil
}

// current says whether what was fetched is for the partition as it is now. It takes and frees mu.
func (p *Partition) current(m Mirrored) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checkCurrent(m)
}

// checkCurrent needs mu.
func (p *Partition) checkCurrent(m Mirrored) error {
	if err := p.Err(); err != nil {
		return err
	}
	entry := p.Entry()
	switch {
	case p.shut || m.FetchedAt != p.end() && !plantPositionNotChecked:
		return ErrStale
	case m.Generation != entry.Generation && !plantGenerationNotChecked:
		return ErrStale
	case entry.Role != meta.RoleMirror:
		return ErrStale
	}
	return nil
}

func (p *Partition) appendMirrored(m Mirrored, r run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkCurrent(m); err != nil {
		return err
	}
	// Only in an empty log may the first batch begin below the end: below a start that
	// lies inside of it. Behind a jump it may reach down into the hole.
	if logEnd := p.log.EndOffset(); r.first.BaseOffset() < logEnd && p.log.StartOffset() < logEnd {
		return fmt.Errorf("mirror partition %s: %w: batch [%d..%d] at log end %d",
			p.name, ErrOverlap, r.first.BaseOffset(), r.first.LastOffset(), logEnd)
	}
	if last := p.log.LastEpoch(); r.first.LeaderEpoch() < last {
		return fmt.Errorf("mirror partition %s: %w: from %d to %d at offset %d",
			p.name, ErrEpochBack, last, r.first.LeaderEpoch(), r.first.BaseOffset())
	}
	if m.Behind > farBehind {
		p.log.KeepCached(cachedTail)
	} else {
		p.log.KeepCached(0)
	}
	if err := p.write(r.bytes); err != nil {
		return err
	}
	marks := &p.marks
	top, nowMs := kafka.NoEpoch, p.now().UnixMilli()
	for b, err := range r.bytes.All() {
		if err != nil {
			return errors.Join(errors.New("BUG: batches were checked before"), err)
		}
		p.took(b, nowMs)
		if epoch := b.LeaderEpoch(); epoch > top {
			// Before the end is shown: a sync under way must not carry the high watermark past it (rule E4).
			top = epoch
			marks.mu.Lock()
			if !plantGateMissing {
				marks.addGate(epoch, b.BaseOffset())
			}
			marks.mu.Unlock()
		}
	}
	p.grown()
	return nil
}
