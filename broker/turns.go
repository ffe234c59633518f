package broker

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
)

// turnState is the state of a topic that has a mirror record; is is false for one without, or of a newer version.
func (b *Broker) turnState(id kafka.TopicID) (state mirror.State, is bool) {
	rec := b.meta.Image().Mirrors[id]
	if rec == nil {
		return mirror.Stopped, false
	}
	state, err := mirror.ParseState(rec.State)
	return state, err == nil
}

// refuseAppend says why producers may not write to a topic whose partitions are open still: a reversal or a restore has
// begun, and is about to freeze them (rule R5).
func (b *Broker) refuseAppend(id kafka.TopicID) error {
	switch state, is := b.turnState(id); {
	case !is:
		return nil
	case state == mirror.PendingMirror || state == mirror.HandedOver || state == mirror.PendingSetup || state == mirror.PendingRestore:
		name := id.String()
		if topic := b.meta.Image().Topics[id]; topic != nil {
			name = topic.Name
		}
		return kafka.Errorf(kafka.InvalidRequest, "Cannot append records to read-only mirror topic '%s'", name)
	}
	return nil
}

// refuseTransaction says why no transaction takes the partition in (rule R5).
func (t *topics) refuseTransaction(tp kafka.TopicPartition) error {
	id, _ := t.idOf(tp.Topic)
	return t.b.refuseAppend(id)
}

// refuseCommit says why no offset may be committed on the partition: while a topic is
// being restored, members commit positions in what is being cut off (rule T8); once it is handed over in a
// reversal, the new source has read the offsets for the last time (rule R8). The code makes clients try again.
func (t *topics) refuseCommit(tp kafka.TopicPartition) error {
	id, _ := t.idOf(tp.Topic)
	switch state, is := t.b.turnState(id); {
	case !is:
		return nil
	case state == mirror.PendingSetup || state == mirror.PendingRestore:
		return kafka.Errorf(kafka.CoordinatorLoadInProgress, "Topic '%s' is being restored.", tp.Topic)
	case state == mirror.HandedOver:
		return kafka.Errorf(kafka.CoordinatorLoadInProgress, "Topic '%s' is being reversed: the other cluster becomes its source.", tp.Topic)
	}
	return nil
}
