package broker

import (
	"context"
	"maps"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// homes are the directories that metadata knows: of topics' partitions, and of the copies that may take their places (rule T3).
func homes(img *meta.Image) map[kafka.PartitionID]bool {
	known := map[kafka.PartitionID]bool{}
	for id, topic := range img.Topics {
		var list []meta.Partition
		if states := img.Partitions[id]; states != nil {
			list = states.List
		}
		copied := kafka.TopicID{}
		if rec := img.Mirrors[id]; rec != nil && rec.Recopy != nil {
			copied = rec.Recopy.ID
		}
		for n := range topic.Partitions {
			part := kafka.PartitionID{Topic: id, Partition: n}
			if int(n) >= len(list) {
				known[part] = true
				continue
			}
			known[list[n].LogID(part)] = true
			if left := list[n].Left; left != nil { // the partition removes it itself
				known[kafka.PartitionID{Topic: *left, Partition: n}] = true
			}
			if !copied.IsZero() {
				known[kafka.PartitionID{Topic: copied, Partition: n}] = true
			}
		}
	}
	return known
}

// otherHomes are the ids, apart from its own, under which a topic's partitions and those of a copy of it may be kept.
func otherHomes(img *meta.Image, id kafka.TopicID) []kafka.TopicID {
	found := map[kafka.TopicID]bool{}
	if states := img.Partitions[id]; states != nil {
		for _, state := range states.List {
			found[state.Home] = true
			if state.Left != nil {
				found[*state.Left] = true
			}
		}
	}
	if rec := img.Mirrors[id]; rec != nil && rec.Recopy != nil {
		found[rec.Recopy.ID] = true
	}
	delete(found, kafka.TopicID{})
	delete(found, id)
	return slices.SortedFunc(maps.Keys(found), func(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) })
}

// droppedCopies are copies that no mirror waits for any more.
func droppedCopies(img *meta.Image) map[kafka.TopicID]bool {
	dropped := map[kafka.TopicID]bool{}
	for id, states := range img.Partitions {
		if !states.CopyOf.IsZero() {
			rec := img.Mirrors[states.CopyOf]
			dropped[id] = rec == nil || rec.Recopy == nil || rec.Recopy.ID != id
		}
	}
	maps.DeleteFunc(dropped, func(_ kafka.TopicID, is bool) bool { return !is })
	return dropped
}

// forgetCopies removes the entries of copies whose directories are gone, or have become their topics'.
func (t *topics) forgetCopies(ctx context.Context, copies map[kafka.TopicID]bool) error {
	for id := range copies {
		err := t.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			if img.Partitions[id] == nil {
				return nil, nil
			}
			return []meta.Change{meta.DeletePartitions(id)}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
