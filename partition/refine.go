package partition

import "github.com/hawserio/hawser/kafka"

// RefineEpochs takes over from a mirror's source where leader epochs began that begin, here, behind a hole: the source
// compacted their first records away, or all of them. So OffsetForLeaderEpoch answers the same on both sides. starts rise; the last
// one's epoch is that of the first batch behind the hole. ErrStale if the mirror has moved on.
func (p *Partition) RefineEpochs(generation int64, starts []kafka.EpochStart) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.Err(); err != nil {
		return err
	}
	if err := p.checkMirrorGeneration(generation); err != nil || p.shut {
		return ErrStale
	}
	if err := p.log.RefineEpochs(starts); err != nil {
		return p.storageError("refine leader epochs", err)
	}
	p.owner.syncer.urge(p)
	return nil
}
