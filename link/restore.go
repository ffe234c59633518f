package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// The restoring side. Each step is stored before the next begins, and none is computed again (rule T7): frozen ends, the pledge, the
// cuts, the tails in the quarantine, the partitions' new role, and then it follows its peer.

// setUpRestore freezes the topic, has the other side pledge, and stores where the histories part. Nothing is removed yet, so
// everything here may end in the topic being what it was (rule T1).
func (r *running) setUpRestore(ctx context.Context, m topicMirror) (time.Duration, error) {
	img := r.ls.env.Metadata.Image()
	ends := frozenEnds(img, m.topic, m.rec.Turn.ID)
	if ends == nil {
		if err := r.freezeForRestore(ctx, m); err != nil {
			return turnLater, err
		}
		return 0, nil
	}
	pledged, err := r.askPledge(ctx, m)
	switch {
	case err != nil && refusedForGood(err):
		return r.leave(ctx, m, &errStep{codeOfPeer(err), "the other cluster gives no pledge", err})
	case err != nil:
		return turnLater, &errStep{codeOfPeer(err), "ask for the pledge", err}
	}
	cuts, level, err := r.findCuts(ctx, m, pledged, ends)
	switch {
	case err != nil && refusedForGood(err):
		return r.leave(ctx, m, &errStep{codeOfPeer(err), "the histories cannot be compared", err})
	case err != nil:
		return turnLater, &errStep{codeOfPeer(err), "compare the histories", err}
	}
	stored := make([]meta.RestoreCut, len(cuts))
	var bytes int64
	for p, c := range cuts {
		stored[p] = meta.RestoreCut{To: c.To, Tail: c.Tail, Groups: c.Groups, End: ends[p], Kept: c.Tail >= ends[p]}
		if !stored[p].Kept {
			bytes += r.ls.env.Partitions.Tail(kafka.PartitionID{Topic: m.topic.ID, Partition: int32(p)}, c.Tail)
		}
	}
	if err := r.ls.env.Partitions.Room(bytes); err != nil {
		return turnLater, &errStep{string(mirror.PolicyViolation), "find room for what is cut off", err}
	}
	_, err = r.stepTurn(ctx, m, mirror.CutsStored, func(rec *meta.Mirror) {
		rec.Turn.Cuts = stored
		rec.LevelMs = level.UnixMilli()
		if bytes > 0 {
			rec.Turn.Quarantine = quarantineName(m.topic, m.rec.Turn.SinceMs)
		}
	})
	return 0, err
}

// freezeForRestore ends this cluster's own transactions on the topic (rule P6) and has the owners state the ends.
func (r *running) freezeForRestore(ctx context.Context, m topicMirror) error {
	if len(r.ls.holding(m.topic.Name)) > 0 {
		bounded, cancel := context.WithTimeout(ctx, askMax)
		aborted, err := r.ls.env.Transactions.AbortOn(bounded, m.topic.Name)
		cancel()
		if err != nil {
			return &errStep{string(mirror.InternalError), "abort open transactions", err}
		}
		r.ls.env.Logger.Warn("open transactions were aborted for a restore", "link", r.name, "topic", m.topic.Name, "turn", m.rec.Turn.ID,
			"transactions", aborted)
	}
	err := r.acting(m, func() error {
		if err := r.takeOver(ctx, m); err != nil {
			return err
		}
		_, err := r.ls.env.Partitions.Freeze(ctx, m.topic.ID, m.rec.Turn.ID)
		return err
	})
	if err != nil {
		return &errStep{string(mirror.InternalError), "state the frozen ends", err}
	}
	return nil
}

// takeOver freezes for a restore what is frozen for the reversal that it ended.
func (r *running) takeOver(ctx context.Context, m topicMirror) error {
	if m.rec.Turn.From == "" {
		return nil
	}
	return r.ls.env.Partitions.Refreeze(ctx, m.topic.ID, m.rec.Turn.From, m.rec.Turn.ID)
}

// leave takes the topic back to what it was before the restore, as the other side refuses. One that was frozen before stays frozen: it is
// for an operator to say that it may be written to beside the mirror that was failed over (rule R1).
func (r *running) leave(ctx context.Context, m topicMirror, why *errStep) (time.Duration, error) {
	if m.rec.Turn.From != "" {
		return turnLater, why
	}
	return 0, r.giveUp(ctx, m, why)
}

// findCuts asks for the peer's histories, first the lineages, then the batches below where they part, and decides for each partition. ends
// bound this side's logs; nil for as they are. level is since when it will count as level with the peer.
func (r *running) findCuts(ctx context.Context, m topicMirror, pledged peer.PledgeAnswer,
	ends []kafka.Offset) (cuts []plan.Cut, level time.Time, err error) {
	if pledged.Partitions < m.topic.Partitions {
		return nil, level, kafka.Errorf(kafka.InvalidRequest,
			"The topic has %d partitions here and %d on the other cluster, and partitions cannot be removed.", m.topic.Partitions,
			pledged.Partitions)
	}
	n := int(m.topic.Partitions)
	common := make([]kafka.Offset, n)
	var theirs []plan.LogFacts
	mine := make([]plan.LogFacts, n)
	for _, round := range []string{"lineage", "batches"} {
		var below []kafka.Offset
		if round == "batches" {
			below = common
		}
		if theirs, err = r.peerLogs(ctx, m, n, below); err != nil {
			return nil, level, err
		}
		for p := range mine {
			if mine[p], err = r.localLog(m.topic.ID, int32(p), common[p]); err != nil {
				return nil, level, err
			}
			if ends != nil {
				mine[p].End = ends[p]
			}
			if round == "lineage" {
				common[p] = plan.Common(mine[p], theirs[p])
			}
		}
	}
	now := r.ls.env.Now()
	age := now.UnixMilli() - pledged.StoppedMs
	cuts = make([]plan.Cut, n)
	for p := range cuts {
		unseen := pledged.Compacted && age > pledged.DeleteRetentionMs && theirs[p].CleanedTo > common[p]
		cuts[p] = plan.FindCut(mine[p], theirs[p], common[p], unseen)
	}
	return cuts, plan.RestoredLevel(cuts, theirs, time.UnixMilli(pledged.StoppedMs), now), nil
}

// peerLogs asks for the histories of the first n partitions, in as many questions as it takes.
func (r *running) peerLogs(ctx context.Context, m topicMirror, n int, below []kafka.Offset) ([]plan.LogFacts, error) {
	own := r.ls.env.Metadata.Image().Cluster.ID
	r.mu.Lock()
	remote := r.rec.RemoteClusterID
	r.mu.Unlock()
	var list []plan.LogFacts
	for len(list) < n {
		rq := peer.LineageRequest{First: int32(len(list))}
		if below != nil {
			rq.Below = below[len(list):]
		}
		answer, err := ask(ctx, r, peer.Lineage, m.rec.SourceTopic, rq.Encode(), peer.DecodeLineageAnswer)
		if err != nil {
			return nil, err
		}
		if len(answer.Logs) == 0 {
			return nil, kafka.Errorf(kafka.InvalidRequest, "The other cluster shows %d partitions of %d.", len(list), n)
		}
		for _, l := range answer.Logs {
			list = append(list, peerFacts(l, remote, own))
		}
	}
	return list[:n], nil
}

// peerFacts is a history as the other side told it, in link/plan's words.
func peerFacts(l peer.Log, teller, asker string) plan.LogFacts {
	f := plan.LogFacts{Start: l.Start, End: l.End, CleanedTo: l.CleanedTo, Stop: l.Stop}
	entries := make([]plan.Minted, len(l.Entries))
	for i, e := range l.Entries {
		entries[i] = plan.Minted(e)
	}
	first := teller
	if l.Born {
		first = ""
	}
	f.Epochs = plan.Lineage(l.Epochs, entries, first, asker)
	for _, m := range l.Marks {
		f.Marks = append(f.Marks, plan.BatchMark(m))
	}
	return f
}

// localLog is a partition of this side in the same words.
func (r *running) localLog(topic kafka.TopicID, p int32, below kafka.Offset) (plan.LogFacts, error) {
	log, err := r.ls.wireLog(kafka.PartitionID{Topic: topic, Partition: p}, below)
	if err != nil {
		return plan.LogFacts{}, err
	}
	r.mu.Lock()
	remote := r.rec.RemoteClusterID
	r.mu.Unlock()
	return peerFacts(log, r.ls.env.Metadata.Image().Cluster.ID, remote), nil
}

// pledgeStands asks for the pledge once more, before anything is copied or cut off: an operator may have taken it back meanwhile, and
// the peer may be something else by now.
func (r *running) pledgeStands(ctx context.Context, m topicMirror) error {
	if _, err := r.askPledge(ctx, m); err != nil {
		return &errStep{codeOfPeer(err), "make sure of the pledge", err}
	}
	return nil
}

// askPledge asks the peer for its pledge. One of another topic is none: where the peer's was deleted and made again
// since the order, its history is not the one that was compared (rule T10).
func (r *running) askPledge(ctx context.Context, m topicMirror) (peer.PledgeAnswer, error) {
	rq := peer.PledgeRequest{Turn: m.rec.Turn.ID, Topic: m.topic.ID, Name: m.topic.Name}
	pledged, err := ask(ctx, r, peer.Pledge, m.rec.SourceTopic, rq.Encode(), peer.DecodePledgeAnswer)
	if err == nil && pledged.Topic != m.rec.SourceTopicID {
		err = kafka.Errorf(kafka.InvalidRequest, "Topic '%s' of the other cluster was deleted and made again since this restore was "+
			"ordered. Fail the topic over, then order the restore anew.", m.rec.SourceTopic)
	}
	return pledged, err
}

// restore carries the cuts out and lets the topic follow its peer.
func (r *running) restore(ctx context.Context, img *meta.Image, m topicMirror) (time.Duration, error) {
	if frozenFor(img, m.rec) {
		if err := r.pledgeStands(ctx, m); err != nil {
			return turnLater, err
		}
	}
	if slices.ContainsFunc(m.rec.Turn.Cuts, func(c meta.RestoreCut) bool { return !c.Kept }) {
		if err := r.quarantine(ctx, img, m); err != nil {
			return turnLater, &errStep{string(mirror.InternalError), "copy what will be cut off", err}
		}
		return 0, nil
	}
	if frozenFor(img, m.rec) {
		if err := r.acting(m, func() error { return r.cut(ctx, img, m) }); err != nil {
			return turnLater, &errStep{string(mirror.InternalError), "cut the partitions", err}
		}
		r.hurry()
		return 0, nil
	}
	if text := r.notFollowing(m); text != "" {
		if problem, is := r.linkProblem(); is {
			r.noteTurn(m, problem)
			return turnLater, nil
		}
		r.noteTurn(m, plan.Problem{Code: string(mirror.LagNotZero), Text: text})
		return turnSoon, nil
	}
	e := mirror.Restored
	if m.rec.Turn.Paused {
		e = mirror.RestoredPaused
	}
	_, err := r.stepTurn(ctx, m, e, nil)
	return 0, err
}

// cut clamps group offsets to the cuts, as long as nothing has come from the peer (rule T8), then truncates, and makes the partitions
// mirrors; they are fetched from then on.
func (r *running) cut(ctx context.Context, img *meta.Image, m topicMirror) error {
	link := img.Links[r.id]
	if link == nil {
		return nil
	}
	groups, tos := make([]kafka.Offset, len(m.rec.Turn.Cuts)), make([]kafka.Offset, len(m.rec.Turn.Cuts))
	for p, c := range m.rec.Turn.Cuts {
		groups[p], tos[p] = c.Groups, c.To
	}
	lowered, err := r.ls.env.Commits.Clamp(ctx, m.topic.Name, groups)
	if err != nil {
		return fmt.Errorf("clamp group offsets: %w", err)
	}
	if lowered > 0 {
		r.ls.env.Logger.Info("group offsets clamped to the cuts of a restore", "link", r.name, "topic", m.topic.Name, "offsets", lowered)
	}
	return r.ls.env.Partitions.FrozenBecomeMirror(ctx, m.topic.ID, m.rec.Turn.ID, link.RemoteClusterID, tos)
}

// notFollowing says which partition has not heard of the peer yet.
func (r *running) notFollowing(m topicMirror) string {
	r.mu.Lock()
	pool := r.pool
	r.mu.Unlock()
	if pool == nil {
		return "the link is not connected"
	}
	for p := range m.topic.Partitions {
		if pool.Status(kafka.TopicPartition{Topic: m.topic.Name, Partition: p}).LastContact.IsZero() {
			return fmt.Sprintf("partition %d has not been fetched yet", p)
		}
	}
	return ""
}

// release gives the pledge back.
func (r *running) release(ctx context.Context, m topicMirror) error {
	rq := peer.PledgeRequest{Turn: m.rec.Turn.ID, Topic: m.topic.ID, Name: m.topic.Name}
	_, err := ask(ctx, r, peer.Release, m.rec.SourceTopic, rq.Encode(), nothing)
	if err != nil && !refusedForGood(err) {
		return &errStep{codeOfPeer(err), "give the pledge back", err}
	}
	if m.state == mirror.Stopped && m.rec.Turn.Plain && r.untouched(m) {
		return r.forget(ctx, m)
	}
	err = r.changeTurn(ctx, m, func(turn *meta.Turn) { turn.Release = false })
	if err == nil {
		r.note(m.topic.ID, nil)
	}
	return err
}

// untouched reports whether a restore that has ended had made none of the topic's partitions a mirror.
func (r *running) untouched(m topicMirror) bool {
	states := r.ls.env.Metadata.Image().Partitions[m.topic.ID]
	return m.rec.Turn.Cuts == nil || states != nil &&
		!slices.ContainsFunc(states.List, func(p meta.Partition) bool { return len(p.Lineage) > 0 })
}

// copiesAtOnce is how many tails are copied at once: they share syncs.
const copiesAtOnce = 4

// quarantine copies what will be cut off into a topic of its own, which stays until an operator deletes it. The marks of what is
// done are stored, so that what was copied is not copied again, nor anything that came later (rule T7).
func (r *running) quarantine(ctx context.Context, img *meta.Image, m topicMirror) error {
	id, err := r.quarantineTopic(ctx, img, m)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(copiesAtOnce)
	for p, c := range m.rec.Turn.Cuts {
		if c.Kept {
			continue
		}
		g.Go(func() error {
			part := int32(p)
			return r.ls.env.Partitions.CopyTail(ctx, kafka.PartitionID{Topic: m.topic.ID, Partition: part},
				kafka.PartitionID{Topic: id, Partition: part}, c.Tail, c.End)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	err = r.changeTurn(ctx, m, func(turn *meta.Turn) {
		turn.Cuts = slices.Clone(turn.Cuts)
		for p := range turn.Cuts {
			turn.Cuts[p].Kept = true
		}
	})
	if err == nil {
		r.ls.env.Logger.Warn("what a restore cuts off was copied", "link", r.name, "topic", m.topic.Name, "turn", m.rec.Turn.ID,
			"quarantine", m.rec.Turn.Quarantine)
	}
	return err
}

// quarantineTopic makes the topic, or finds it after a crash. Nobody but super users is let in: it has no ACLs. Its
// partitions are mirrors of nothing, so that nobody appends.
func (r *running) quarantineTopic(ctx context.Context, img *meta.Image, m topicMirror) (kafka.TopicID, error) {
	name := m.rec.Turn.Quarantine
	id, is := img.TopicIDs[name]
	if !is {
		id = kafka.NewTopicID()
		topic := &meta.Topic{
			ID: id, Name: name, Partitions: m.topic.Partitions, ReplicationFactor: m.topic.ReplicationFactor, CreatedMs: r.ls.env.Now().UnixMilli(),
			Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
		}
		states := &meta.Partitions{Topic: id, List: make([]meta.Partition, topic.Partitions)}
		for p := range states.List {
			states.List[p] = meta.Partition{Role: meta.RoleFrozen}
		}
		err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			if err := nameFree(img, name); err != nil {
				return nil, err
			}
			return []meta.Change{meta.PutTopic(topic), meta.PutPartitions(states), meta.KeepMirror(m.topic.ID)}, nil
		})
		if err != nil {
			return id, fmt.Errorf("store the quarantine topic: %w", err)
		}
	}
	if err := r.ls.env.OpenTopic(ctx, id); err != nil {
		return id, fmt.Errorf("open the quarantine topic: %w", err)
	}
	for p, c := range m.rec.Turn.Cuts {
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: id, Partition: int32(p)})
		if part == nil || part.Offsets().Role == meta.RoleMirror {
			continue
		}
		if err := part.BecomeMirror(ctx, c.Tail); err != nil {
			return id, fmt.Errorf("begin the quarantine of partition %d: %w", p, err)
		}
	}
	return id, nil
}

// quarantinePrefix begins the names of topics that keep what restores cut off; auto-create never takes them.
const quarantinePrefix = "hawser.cut."

// quarantineName is hawser.cut.<topic>.<time>; of a topic whose name is too long, its id.
func quarantineName(topic *meta.Topic, atMs int64) string {
	at := time.UnixMilli(atMs).UTC().Format(".20060102T150405.000Z")
	name := quarantinePrefix + topic.Name + at
	if kafka.CheckTopicName(name) != nil {
		name = quarantinePrefix + topic.ID.String() + at
	}
	return name
}
