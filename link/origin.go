package link

import (
	"context"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

// syncOffsets is a round of ConsumerOffsetSync: onto the mirrors here (LOCAL_MIRROR), and on a bidirectional link from the other
// side's mirrors of this side's topics back onto those (REMOTE_MIRROR).
func (r *running) syncOffsets(ctx context.Context) task.Result {
	res := r.offsets.Run(ctx)
	set := r.settingsNow()
	if set.mode != peer.Bidirectional || !set.groupFilters.NamesRemote() || ctx.Err() != nil {
		return res
	}
	mirrors, err := r.mirrorsThere(ctx)
	if err != nil {
		err = fmt.Errorf("ask the other cluster which of this one's topics it mirrors: %w", err)
		res.Problems = append(res.Problems, plan.Problem{Code: codeOf(err), Text: err.Error()})
		return res
	}
	r.mu.Lock()
	r.there = mirrors
	r.mu.Unlock()
	back := r.backOffsets.Over(ctx, mirrors)
	res.Problems = append(res.Problems, back.Problems...)
	res.Changed += back.Changed
	return res
}

// syncBack is a round for some of the other side's groups, onto this side's topics that it mirrors as of the last whole round.
func (r *running) syncBack(ctx context.Context, groups []string) {
	r.mu.Lock()
	mirrors, wanted := r.there, r.set.mode == peer.Bidirectional && r.set.groupFilters.NamesRemote()
	r.mu.Unlock()
	if !wanted {
		return
	}
	_, counts, err := r.backOffsets.SyncGroups(ctx, mirrors, groups)
	r.count(counts)
	if err != nil {
		r.ls.env.Logger.Debug("group offsets do not come back yet", "link", r.name, "error", err)
	}
}

// otherFilters are the other half's group filters, as it last told them.
func (r *running) otherFilters() plan.Filters {
	r.mu.Lock()
	half := r.other.half
	r.mu.Unlock()
	if half == nil {
		return plan.Filters{}
	}
	filters, err := plan.ParseGroupFilters(half.Groups)
	if err != nil {
		r.ls.env.Logger.Warn("the other half of the link has group filters that cannot be read", "link", r.name, "error", err)
	}
	return filters
}

// pagesMax bounds how many pages of the other side's mirrors are asked for.
const pagesMax = 100

// mirrorsThere lists the other side's mirrors of topics of this cluster, each as the mirror that it is for offsets that come back: its
// source is the other side's topic. A topic that was made again since is passed over.
func (r *running) mirrorsThere(ctx context.Context) ([]task.Mirror, error) {
	var list []task.Mirror
	after := ""
	for range pagesMax {
		body, err := r.Call(ctx, peer.Ask{Key: peer.DescribeMirrors, Body: peer.MirrorsRequest{After: after}.Encode()})
		if err != nil {
			return nil, err
		}
		page, err := peer.DecodeMirrorsAnswer(body)
		if err != nil {
			return nil, err
		}
		img := r.ls.env.Metadata.Image()
		for _, m := range page.Mirrors {
			after = m.Topic
			topic := img.Topics[img.TopicIDs[m.Source]]
			if topic != nil && topic.ID == m.SourceID {
				list = append(list, task.Mirror{ID: topic.ID, Topic: topic.Name, Source: m.Topic, Partitions: topic.Partitions})
			}
		}
		if !page.More || len(page.Mirrors) == 0 {
			break
		}
	}
	return list, nil
}

// origin is this cluster as the source of the other side's mirrors: offsets come back to topics that producers write to.
type origin struct{ here }

// Bound implements task.Here for a partition that is no mirror.
func (o origin) Bound(tp kafka.TopicPartition) (plan.Bound, bool) { return o.bound(tp, meta.RoleOpen) }

// Commit implements task.Here; a partition that is no longer open, or was begun anew, is passed over.
func (o origin) Commit(ctx context.Context, name string, copies []plan.Commit, bounds map[kafka.TopicPartition]plan.Bound) (int, error) {
	return o.commit(ctx, name, copies, func(tp kafka.TopicPartition) bool {
		now, is := o.Bound(tp)
		return is && now.Generation == bounds[tp].Generation
	})
}
