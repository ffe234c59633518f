package meta

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	defaultQuota = 8 << 30
	// softLimit is the part of the quota, in percent, above which ordinary writes
	// are refused. The rest is for failover when it is needed most (rule D8).
	softLimit  = 70
	spaceEvery = 5 * time.Second
	// reclaimEvery is the shortest time between two rewrites of the embedded database, which block it.
	reclaimEvery = 10 * time.Minute
	// reclaimMin is the size below which rewriting at start is not worth it.
	reclaimMin = 64 << 20
)

// Space is how full the metadata store is.
type Space struct {
	UsedBytes  int64 // of the database file; what the quota counts
	InUseBytes int64 // of it, what is not free for reuse
	QuotaBytes int64
	ReadOnly   bool // ordinary writes are refused with ErrReadOnly
}

// Space is how full the store was when last measured; with the embedded etcd, now.
func (m *Meta) Space() Space {
	if m.embedded != nil {
		b := m.embedded.server.Server.Backend()
		return m.spaceOf(b.Size(), b.SizeInUse(), m.cfg.QuotaBytes)
	}
	return *m.space.Load()
}

func (m *Meta) spaceOf(used, inUse, quota int64) Space {
	s := Space{UsedBytes: used, InUseBytes: inUse, QuotaBytes: quota}
	alarm := m.space.Load()
	s.ReadOnly = used >= quota/100*softLimit || alarm != nil && alarm.ReadOnly && used >= quota
	return s
}

// noteNoSpace remembers that etcd itself refused: until measured otherwise, nothing is tried.
func (m *Meta) noteNoSpace() {
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
		s := Space{UsedBytes: st.DbSize, InUseBytes: st.DbSizeInUse, QuotaBytes: quota}
		s.ReadOnly = st.DbSize >= quota/100*softLimit
		if worst.QuotaBytes == 0 || float64(s.UsedBytes)/float64(s.QuotaBytes) > float64(worst.UsedBytes)/float64(worst.QuotaBytes) {
			worst = s
		}
	}
	if worst.QuotaBytes > 0 {
		m.space.Store(&worst)
	}
}

// watchSpace measures now and then, tells when writes begin or cease to be
// refused, and gives the embedded database's free pages back.
func (m *Meta) watchSpace(ctx context.Context) {
	var reclaimed time.Time
	if s := m.Space(); m.embedded != nil && s.UsedBytes > reclaimMin && s.UsedBytes > 2*s.InUseBytes {
		m.reclaim(ctx)
		reclaimed = time.Now()
	}
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	was := false
	for {
		s := m.Space()
		if s.ReadOnly != was {
			was = s.ReadOnly
			m.log.Warn("metadata store's space", "read_only", s.ReadOnly, "used_bytes", s.UsedBytes, "quota_bytes", s.QuotaBytes)
		}
		if s.ReadOnly && m.embedded != nil && time.Since(reclaimed) > reclaimEvery {
			m.reclaim(ctx)
			reclaimed = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.measureSpace(ctx)
		}
	}
}

// reclaim drops the history of the embedded etcd, rewrites its database and
// lifts the alarm that etcd sets when the quota is reached.
func (m *Meta) reclaim(ctx context.Context) {
	if err := m.tryReclaim(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("metadata store's space could not be reclaimed", "err", err)
	}
	m.measureSpace(ctx)
}

func (m *Meta) tryReclaim(ctx context.Context) error {
	if _, err := m.client.Compact(ctx, m.Image().Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := m.embedded.server.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	if m.embedded.server.Server.Backend().Size() >= m.cfg.QuotaBytes {
		return nil
	}
	if _, err := m.client.AlarmDisarm(ctx, &clientv3.AlarmMember{Alarm: pb.AlarmType_NOSPACE}); err != nil {
		return fmt.Errorf("lift alarm: %w", err)
	}
	return nil
}
