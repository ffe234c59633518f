package broker

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// directoriesAtOnce is how many directories are made or removed side by side.
const directoriesAtOnce = 16

// make makes the directories of partitions [from, to), durably and before metadata knows of them: so one that is
// missing later was taken away, and is not just new.
func (t *topics) make(id kafka.TopicID, from, to int32) error {
	var g errgroup.Group
	g.SetLimit(directoriesAtOnce)
	for n := from; n < to; n++ {
		g.Go(func() error {
			_, err := t.b.store.Dir(kafka.PartitionID{Topic: id, Partition: n})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return kafka.Errorf(kafka.KafkaStorageError, "Make the topic's directories: %v.", err)
	}
	return nil
}

// unmake removes what make made for a topic that was then refused with why. After any other failure the topic may be
// there all the same, and what is not needed goes with the next start.
func (t *topics) unmake(id kafka.TopicID, from, to int32, why error) {
	if !errors.Is(why, kafka.TopicAlreadyExists) && !errors.Is(why, kafka.InvalidTopicException) {
		return
	}
	for n := from; n < to; n++ {
		if err := t.b.store.Remove(kafka.PartitionID{Topic: id, Partition: n}); err != nil {
			t.b.log.Warn("an empty directory of a topic that was not made stays until the next start", "error", err)
		}
	}
}

// isEmpty reports whether there is nothing in a partition's directory.
func isEmpty(st store.Store, id kafka.PartitionID) bool {
	dir, err := st.Dir(id)
	if err != nil {
		return false
	}
	files, err := dir.List()
	return err == nil && len(files) == 0
}

// withholdMissing keeps out of service the partitions whose directory is gone: only a hand can do that, or a disk.
// They would open empty and hand out offsets anew that consumers have read past. A mirror opens, as it
// copies its records again.
func (t *topics) withholdMissing(img *meta.Image, found []kafka.PartitionID) {
	there := map[kafka.PartitionID]bool{}
	for _, id := range found {
		there[id] = true
	}
	for id, topic := range img.Topics {
		states := img.Partitions[id]
		if states == nil {
			continue
		}
		for n, state := range states.List {
			part := kafka.PartitionID{Topic: id, Partition: int32(n)}
			if there[state.LogID(part)] {
				continue
			}
			used := state.Epoch > 0 || state.Stop != nil || state.Truncations > 0
			path := filepath.Join(t.b.cfg.Dir, "data", state.LogID(part).String())
			switch {
			case state.Role == meta.RoleOpen, state.Role == meta.RoleFrozen && used:
				t.b.owner.Withhold(part,
					fmt.Errorf("its directory %s is gone, and its records with it: put it back and restart the broker; to go on without the "+
						"records, make it an empty directory and restart, or delete the topic", path))
			case used || state.Role == meta.RoleMirror && state.Generation > 0:
				t.b.log.Error("the directory of a mirror's partition is gone: it is copied from the source again", "topic", topic.Name,
					"partition", n, "directory", path)
			}
		}
	}
}
