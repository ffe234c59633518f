package meta

import (
	"fmt"

	"github.com/hawserio/hawser/kafka"
)

// Change is one record to write. Make them with the functions below.
type Change struct {
	key   recordKey
	name  recordKey // the name that goes with the record, for topics and links
	owner kafka.TopicID
	value any  // nil deletes
	keep  bool // only compare: the record must be there, unchanged
}

// PutTopic, PutPartitions, … each write one record whole.
func PutTopic(t *Topic) Change {
	return Change{key: idKey(kindTopic, t.ID), name: recordKey{kindTopicName, t.Name}, owner: t.ID, value: t}
}

// DeleteTopic removes the topic and frees its name.
func DeleteTopic(id kafka.TopicID, name string) Change {
	return Change{key: idKey(kindTopic, id), name: recordKey{kindTopicName, name}, owner: id}
}

// PutPartitions writes the states of a topic's partitions.
func PutPartitions(p *Partitions) Change {
	return Change{key: idKey(kindPartitions, p.Topic), value: p}
}

// DeletePartitions removes the states of a topic's partitions.
func DeletePartitions(id kafka.TopicID) Change { return Change{key: idKey(kindPartitions, id)} }

// PutLink writes a link; its secrets are sealed.
func PutLink(l *Link) Change {
	return Change{key: idKey(kindLink, l.ID), name: recordKey{kindLinkName, l.Name}, owner: l.ID, value: l}
}

// DeleteLink removes the link and frees its name.
func DeleteLink(id kafka.TopicID, name string) Change {
	return Change{key: idKey(kindLink, id), name: recordKey{kindLinkName, name}, owner: id}
}

// PutMirror writes a mirror.
func PutMirror(r *Mirror) Change { return Change{key: idKey(kindMirror, r.Topic), value: r} }

// DeleteMirror removes the mirror record of a topic.
func DeleteMirror(topic kafka.TopicID) Change { return Change{key: idKey(kindMirror, topic)} }

// PutDeletion remembers that a topic was deleted.
func PutDeletion(d *Deletion) Change { return Change{key: idKey(kindDeletion, d.Topic), value: d} }

// DeleteDeletion forgets it.
func DeleteDeletion(topic kafka.TopicID) Change { return Change{key: idKey(kindDeletion, topic)} }

// PutConfigs writes the dynamic configs of a broker; entity as in Image.Configs. An empty map removes them.
func PutConfigs(entity string, configs map[string]string) Change {
	c := Change{key: recordKey{kindConfigs, entity}}
	if entity == "" {
		c.key.id = defaultConfigs
	}
	if len(configs) > 0 {
		c.value = configs
	}
	return c
}

// KeepLink writes nothing: the other changes are made only if the link's
// record is still as the image has it.
func KeepLink(id kafka.TopicID) Change { return Change{key: idKey(kindLink, id), keep: true} }

// KeepMirror is KeepLink for a mirror.
func KeepMirror(topic kafka.TopicID) Change { return Change{key: idKey(kindMirror, topic), keep: true} }

func idKey(kind string, id kafka.TopicID) recordKey { return recordKey{kind, id.String()} }

// op is what is done to one key of the store.
type op struct {
	rev   int64  // of the record replaced; 0: there must be none
	value []byte // nil deletes
	keep  bool   // only compare
}

// write is a transaction in the making.
type write struct {
	ops      map[recordKey]op
	size     int  // bytes of all values
	ordinary bool // refused when space is short
}

// txnBytes is what the values of one transaction should be: etcd, as it is set for most, refuses requests of 1.5 MiB.
const txnBytes = 1 << 20

// recordBytes bounds one record, and so a transaction of it. The states of 10,000 partitions that stopped mirroring take 1.7 MB,
// and every later turn of source and mirror adds to them: a topic that could be mirrored must be one that can be failed over.
const recordBytes = 8 << 20

var errNameTaken = fmt.Errorf("name is taken: %w", ErrConflict)

// plan compares the changes with the image and encodes them.
func (m *Meta) plan(img *Image, changes []Change) (*write, error) {
	w := &write{ops: make(map[recordKey]op, 2*len(changes))}
	for _, c := range changes {
		if _, twice := w.ops[c.key]; twice {
			return nil, fmt.Errorf("change metadata: BUG: %s is changed twice in one update", c.key.path())
		}
		if err := m.planRecord(img, w, c); err != nil {
			return nil, err
		}
	}
	// Names come last: one update may free a name and take it for another id.
	for _, c := range changes {
		if c.name.id != "" && c.value == nil && img.owner(c.name) == c.owner {
			w.ops[c.name] = op{rev: img.rev(c.name)}
		}
	}
	taken := map[recordKey]kafka.TopicID{}
	for _, c := range changes {
		if c.name.id == "" || c.value == nil {
			continue
		}
		if err := m.planName(img, w, c, taken); err != nil {
			return nil, err
		}
	}
	if w.size > recordBytes {
		return nil, fmt.Errorf("change metadata: %d bytes in one update, more than %d: split it", w.size, recordBytes)
	}
	return w, nil
}

func (m *Meta) planRecord(img *Image, w *write, c Change) error {
	o := op{rev: img.rev(c.key), keep: c.keep}
	switch {
	case c.keep && o.rev == 0:
		return fmt.Errorf("%s is gone: %w", c.key.path(), ErrConflict)
	case c.value == nil && !c.keep && o.rev == 0:
		return nil // nothing to delete
	case c.value != nil:
		value, err := m.encode(c.key, c.value)
		if err != nil {
			return err
		}
		o.value = value
	}
	w.put(c.key, o)
	w.ordinary = w.ordinary || isOrdinary(c, o)
	return nil
}

// isOrdinary tells what must wait when space is short. What ends, frees or fails over must not (rule D8).
func isOrdinary(c Change, o op) bool {
	if c.value == nil || c.keep {
		return false
	}
	switch c.key.kind {
	case kindPartitions, kindDeletion:
		return false
	case kindMirror:
		return o.rev == 0
	}
	return true
}

func (m *Meta) planName(img *Image, w *write, c Change, taken map[recordKey]kafka.TopicID) error {
	if other, twice := taken[c.name]; twice && other != c.owner {
		return fmt.Errorf("change metadata: BUG: two ids take %s in one update", c.name.path())
	}
	taken[c.name] = c.owner
	_, isFreed := w.ops[c.name]
	now := img.owner(c.name)
	switch {
	case now == c.owner && !isFreed:
		w.put(c.name, op{rev: img.rev(c.name), keep: true})
		return nil
	case !now.IsZero() && now != c.owner && !isFreed:
		return fmt.Errorf("%s: %w", c.name.path(), errNameTaken)
	case img.rev(c.key) != 0 && now != c.owner:
		return fmt.Errorf("change metadata: BUG: %s would be renamed; names never change", c.key.path())
	}
	value, err := m.encode(c.name, c.owner)
	if err != nil {
		return err
	}
	w.put(c.name, op{rev: img.rev(c.name), value: value})
	return nil
}

func (w *write) put(k recordKey, o op) {
	w.ops[k] = o
	w.size += len(o.value)
}

// owner is the id that has the name; zero if it is free.
func (img *Image) owner(name recordKey) kafka.TopicID {
	if name.kind == kindTopicName {
		return img.TopicIDs[name.id]
	}
	return img.LinkIDs[name.id]
}

func (m *Meta) encode(k recordKey, v any) ([]byte, error) {
	var err error
	switch secret := v.(type) {
	case *Link:
		v, err = m.sealer.sealLink(secret)
	case *Scram:
		v, err = m.sealer.sealScram(secret)
	}
	if err != nil {
		return nil, fmt.Errorf("seal secrets of %s: %w", k.path(), err)
	}
	value, err := wrap(m.schema[k.kind].version, v)
	if p, ok := v.(*Partitions); ok && err == nil && len(value) > txnBytes {
		value, err = m.encodeTrimmed(k, p)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.path(), err)
	}
	return value, nil
}

// encodeTrimmed makes a topic of very many partitions smaller:
// with fewer marks a restore can compare fewer batches, and copies again where those do not suffice.
func (m *Meta) encodeTrimmed(k recordKey, p *Partitions) ([]byte, error) {
	p = p.clone()
	for n := 32; ; n /= 2 {
		p.trimMarks(n)
		value, err := wrap(m.schema[k.kind].version, p)
		if err != nil || len(value) <= txnBytes {
			return value, err
		}
		switch {
		case n > 0:
		case len(value) <= recordBytes:
			return value, nil
		default:
			return nil, fmt.Errorf("states of %d partitions need %d bytes, more than %d", len(p.List), len(value), recordBytes)
		}
	}
}
