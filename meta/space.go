package meta

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hawserio/hawser/event"
)

const (
	defaultQuota = 8 << 30
	// softLimit is the part of the quota, in percent, that may be in use before ordinary writes
	// are refused. The rest is for failover when it is needed most (rule D8).
	softLimit = 70
	// fileLimit is the same for the database file, free pages and all: at 100 etcd refuses everything.
	fileLimit  = 90
	spaceEvery = 5 * time.Second
	// compactEvery is the shortest time between two removals of history for lack of space.
	compactEvery = 30 * time.Second
	// rewriteEvery is the shortest time between two rewrites of the embedded database, which block it.
	rewriteEvery = 10 * time.Minute
	// rewriteMin is the size below which rewriting is not worth it while there is space.
	rewriteMin = 64 << 20
)

// Space is how full the metadata store is.
type Space struct {
	UsedBytes  int64 // of the database file; what the quota counts
	InUseBytes int64 // of it, what is not free for reuse
	QuotaBytes int64
	ReadOnly   bool // ordinary writes are refused with ErrReadOnly
}

// noteWritten counts what goes to an external etcd, which is asked again how
// full it is after each hundredth of its quota.
func (m *Meta) noteWritten(ctx context.Context, size int) {
	if m.embedded != nil {
		return
	}
	if n := m.written.Add(int64(size)); n > m.space.Load().QuotaBytes/100 {
		m.written.Store(0)
		m.measureSpace(ctx)
	}
}

// Space is how full the store was when last measured; with the embedded etcd, now.
func (m *Meta) Space() Space {
	if m.embedded != nil {
		b := m.embedded.server.Server.Backend()
		s := spaceOf(b.Size(), b.SizeInUse(), m.cfg.QuotaBytes)
		s.ReadOnly = s.ReadOnly || m.alarmed.Load()
		return s
	}
	return *m.space.Load()
}

func spaceOf(used, inUse, quota int64) Space {
	s := Space{UsedBytes: used, InUseBytes: inUse, QuotaBytes: quota}
	s.ReadOnly = inUse >= quota/100*softLimit || used >= quota/100*fileLimit
	return s
}

// noteNoSpace remembers that etcd itself refused: until measured otherwise, nothing is tried.
// The embedded etcd keeps refusing after space was found, until its alarm is lifted.
func (m *Meta) noteNoSpace() {
	if m.embedded != nil {
		m.alarmed.Store(true)
		m.noteRefused()
		return
	}
	if s := m.space.Load(); s != nil && !s.ReadOnly {
		full := *s
		full.ReadOnly = true
		m.space.Store(&full)
	}
}

// measureSpace asks the store how full it is. What cannot be asked leaves the last answer.
func (m *Meta) measureSpace(ctx context.Context) {
	if m.space.Load() == nil {
		m.space.Store(&Space{QuotaBytes: m.cfg.QuotaBytes})
	}
	if m.embedded != nil {
		s := m.Space()
		m.space.Store(&s)
		return
	}
	var worst Space
	for _, endpoint := range m.client.Endpoints() {
		asked, cancel := context.WithTimeout(ctx, spaceEvery)
		st, err := m.client.Status(asked, endpoint)
		cancel()
		if err != nil {
			continue
		}
		quota := st.DbSizeQuota
		if quota <= 0 {
			quota = m.cfg.QuotaBytes
		}
		s := spaceOf(st.DbSize, st.DbSizeInUse, quota)
		if worst.QuotaBytes == 0 || float64(s.UsedBytes)/float64(s.QuotaBytes) > float64(worst.UsedBytes)/float64(worst.QuotaBytes) {
			worst = s
		}
	}
	if worst.QuotaBytes > 0 {
		m.space.Store(&worst)
	}
}

// watchSpace measures now and then, and when a write was refused, tells when
// writes begin or cease to be refused, and reclaims what the embedded database can give back.
func (m *Meta) watchSpace(ctx context.Context) {
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	var r reclaimer
	was := false
	for {
		if m.embedded != nil {
			r.reclaim(ctx, m)
		}
		if s := m.Space(); s.ReadOnly != was {
			was = s.ReadOnly
			m.cfg.Events.Emit(event.MetadataReadOnly{ReadOnly: s.ReadOnly, UsedBytes: s.UsedBytes, QuotaBytes: s.QuotaBytes})
		}
		select {
		case <-ctx.Done():
			return
		case <-m.refused:
		case <-ticker.C:
			m.measureSpace(ctx)
		}
	}
}

// noteRefused wakes watchSpace.
func (m *Meta) noteRefused() {
	select {
	case m.refused <- struct{}{}:
	default:
	}
}

// reclaimer remembers when space was last reclaimed.
type reclaimer struct{ compacted, rewritten time.Time }

// reclaim drops the history of the embedded etcd where space is short, and
// rewrites its database where most of the file is free pages.
func (r *reclaimer) reclaim(ctx context.Context, m *Meta) {
	var err error
	if s := m.Space(); s.ReadOnly && time.Since(r.compacted) > compactEvery {
		r.compacted = time.Now()
		_, err = m.client.Compact(ctx, m.Image().Revision, clientv3.WithCompactPhysical())
	}
	s := m.Space()
	wasteful := s.UsedBytes > rewriteMin && s.UsedBytes > 2*s.InUseBytes
	full := s.UsedBytes >= s.QuotaBytes/100*softLimit
	if err == nil && (wasteful || full) && time.Since(r.rewritten) > rewriteEvery {
		r.rewritten = time.Now()
		err = m.rewrite()
	}
	if err == nil && m.alarmed.Load() {
		err = m.liftAlarm(ctx)
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("metadata store's space could not be reclaimed", "err", err)
	}
}

// rewrite copies the embedded database without its free pages.
func (m *Meta) rewrite() error {
	if err := m.embedded.server.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// liftAlarm ends etcd's refusal of all writes once the file is below its quota again.
func (m *Meta) liftAlarm(ctx context.Context) error {
	if m.embedded.server.Server.Backend().Size() >= m.cfg.QuotaBytes {
		return nil
	}
	raised, err := m.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list alarms: %w", err)
	}
	for _, one := range raised.Alarms {
		if one.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		// It is lifted by its member's id: for another id etcd does nothing, and says that all is well.
		if _, err := m.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(one)); err != nil {
			return fmt.Errorf("lift alarm: %w", err)
		}
	}
	m.alarmed.Store(false)
	return nil
}
