package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kbin"
)

// The records of groups of the consumer protocol, in Kafka's formats: ConsumerGroupMetadata (key 3),
// ConsumerGroupMemberMetadata (5), ConsumerGroupTargetAssignmentMetadata (6) and -Member (7),
// ConsumerGroupCurrentMemberAssignment (8), ConsumerGroupRegularExpression (16). Keys are strings after
// the number; values are version 0, in the flexible encoding.

func consumerKey(kind int16, parts ...string) []byte {
	key := kbin.AppendInt16(nil, kind)
	for _, part := range parts {
		key = kbin.AppendString(key, part)
	}
	return key
}

// changeRecord is the record that stores a change.
func changeRecord(group string, c rebalance.Change) record {
	value := []byte{0, 0} // version
	switch {
	case c.Epoch != nil:
		value = kbin.AppendInt32(value, c.Epoch.Epoch)
		value = append(value, 1, 0, 8) // one tag, number 0, of 8 bytes
		return record{key: consumerKey(keyEpoch, group), value: kbin.AppendInt64(value, c.Epoch.Hash)}
	case c.Target != nil:
		return record{key: consumerKey(keyTarget, group), value: noTags(kbin.AppendInt32(value, *c.Target))}
	case c.Put != nil:
		return record{key: consumerKey(keyMember, group, c.Member), value: appendSubscription(value, *c.Put)}
	case c.Gone:
		return record{key: consumerKey(keyMember, group, c.Member)}
	case c.Assign != nil:
		return record{key: consumerKey(keyTargetMember, group, c.Member), value: noTags(appendAssignment(value, *c.Assign))}
	case c.Unplan:
		return record{key: consumerKey(keyTargetMember, group, c.Member)}
	case c.Now != nil:
		value = kbin.AppendInt32(value, c.Now.Epoch)
		value = kbin.AppendInt32(value, c.Now.Previous)
		value = kbin.AppendInt8(value, int8(c.Now.State))
		value = appendAssignment(value, c.Now.Assigned)
		value = appendAssignment(value, c.Now.Revoking)
		return record{key: consumerKey(keyCurrent, group, c.Member), value: noTags(value)}
	case c.Drop:
		return record{key: consumerKey(keyCurrent, group, c.Member)}
	case c.Topics != nil:
		value = appendStrings(value, c.Topics.Topics)
		value = kbin.AppendInt64(value, c.Topics.Revision)
		value = kbin.AppendInt64(value, c.Topics.At.UnixMilli())
		return record{key: consumerKey(keyRegex, group, c.Regex), value: noTags(value)}
	}
	return record{key: consumerKey(keyRegex, group, c.Regex)}
}

func noTags(value []byte) []byte { return append(value, 0) }

func appendStrings(out []byte, list []string) []byte {
	out = kbin.AppendCompactArrayLen(out, len(list))
	for _, s := range list {
		out = kbin.AppendCompactString(out, s)
	}
	return out
}

func appendSubscription(out []byte, s rebalance.Subscription) []byte {
	out = kbin.AppendCompactNullableString(out, s.InstanceID)
	out = kbin.AppendCompactNullableString(out, s.RackID)
	out = kbin.AppendCompactString(out, s.Client.ID)
	out = kbin.AppendCompactString(out, s.Client.Host)
	out = appendStrings(out, s.Topics)
	out = kbin.AppendCompactNullableString(out, optional(s.Regex))
	out = kbin.AppendInt32(out, int32(s.Rebalance.Milliseconds()))
	out = kbin.AppendCompactNullableString(out, optional(s.Assignor))
	if s.Classic == nil {
		return noTags(out)
	}
	classic := []byte{1} // not null
	classic = kbin.AppendInt32(classic, int32(s.Classic.Session.Milliseconds()))
	classic = kbin.AppendCompactArrayLen(classic, len(s.Classic.Protocols))
	for _, p := range s.Classic.Protocols {
		classic = kbin.AppendCompactString(classic, p.Name)
		classic = noTags(kbin.AppendCompactBytes(classic, p.Metadata))
	}
	classic = noTags(classic)
	out = append(out, 1, 0) // one tag, number 0
	return append(kbin.AppendUvarint(out, uint32(len(classic))), classic...)
}

func readClassic(r *kbin.Reader) *rebalance.ClassicMember {
	if r.Int8() < 0 {
		return nil
	}
	c := &rebalance.ClassicMember{Session: time.Duration(r.Int32()) * time.Millisecond}
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		c.Protocols = append(c.Protocols, rebalance.Protocol{Name: r.CompactString(), Metadata: r.CompactBytes()})
		skipTags(r)
	}
	skipTags(r)
	return c
}

func appendAssignment(out []byte, a rebalance.Assignment) []byte {
	topics := a.Topics()
	out = kbin.AppendCompactArrayLen(out, len(topics))
	for _, topic := range topics {
		out = kbin.AppendUuid(out, topic)
		out = kbin.AppendCompactArrayLen(out, len(a[topic]))
		for _, p := range a[topic] {
			out = kbin.AppendInt32(out, p)
		}
		out = noTags(out)
	}
	return out
}

// replayConsumer applies a record of a group of the consumer protocol.
func (c *impl) replayConsumer(g *group, r record) error {
	change, err := decodeChange(r)
	if err != nil {
		return fmt.Errorf("read a record of group %q: %w", g.id, err)
	}
	if r.value == nil && binary.BigEndian.Uint16(r.key) == keyEpoch {
		g.consumer, g.stored = nil, g.loaded != nil
		return nil
	}
	if g.consumer == nil {
		if r.value == nil {
			return nil // the rest of a group that is gone
		}
		g.consumer = rebalance.NewConsumer(c.consumerLimits(g.id))
	}
	g.stored = true
	g.consumer.Apply(change)
	return nil
}

// decodeChange reads a record. For the tombstones of epochs, which end the group, the change is empty.
func decodeChange(r record) (c rebalance.Change, err error) {
	kind := int16(binary.BigEndian.Uint16(r.key))
	key := kbin.Reader{Src: r.key[2:]}
	_ = key.String() // the group
	if kind != keyEpoch && kind != keyTarget {
		name := key.String()
		if c.Member = name; kind == keyRegex {
			c.Member, c.Regex = "", name
		}
	}
	if err := key.Complete(); err != nil {
		return c, fmt.Errorf("key of kind %d: %w", kind, err)
	}
	if r.value == nil {
		c.Gone, c.Unplan, c.Drop = kind == keyMember, kind == keyTargetMember, kind == keyCurrent
		if kind == keyTarget {
			c.Target = new(int32)
		}
		return c, nil
	}
	value := kbin.Reader{Src: r.value}
	if version := value.Int16(); version != 0 {
		return c, fmt.Errorf("value of kind %d: version %d is not known", kind, version)
	}
	switch kind {
	case keyEpoch:
		c.Epoch = &rebalance.EpochChange{Epoch: value.Int32(), Hash: readHash(&value)}
	case keyTarget:
		epoch := value.Int32()
		c.Target = &epoch
		skipTags(&value)
	case keyMember:
		c.Put = readSubscription(&value)
	case keyTargetMember:
		a := readAssignment(&value)
		c.Assign = &a
		skipTags(&value)
	case keyCurrent:
		c.Now = &rebalance.Current{Epoch: value.Int32(), Previous: value.Int32(), State: rebalance.MemberState(value.Int8()),
			Assigned: readAssignment(&value), Revoking: readAssignment(&value)}
		skipTags(&value)
	case keyRegex:
		c.Topics = &rebalance.Resolved{Topics: readStrings(&value), Revision: value.Int64(), At: time.UnixMilli(value.Int64())}
		skipTags(&value)
	}
	if err := value.Complete(); err != nil {
		return c, fmt.Errorf("value of kind %d: %w", kind, err)
	}
	return c, nil
}

// tags calls take with each tag, and stops where the bytes end.
func tags(r *kbin.Reader, take func(number uint32, value []byte)) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		number, size := r.Uvarint(), r.Uvarint()
		take(number, r.Span(int(size)))
	}
}

func skipTags(r *kbin.Reader) { tags(r, func(uint32, []byte) {}) }

func readHash(r *kbin.Reader) (hash int64) {
	tags(r, func(number uint32, value []byte) {
		if number == 0 && len(value) == 8 {
			hash = int64(binary.BigEndian.Uint64(value))
		}
	})
	return hash
}

func readSubscription(r *kbin.Reader) *rebalance.Subscription {
	s := &rebalance.Subscription{InstanceID: r.CompactNullableString(), RackID: r.CompactNullableString(),
		Client: rebalance.Client{ID: r.CompactString(), Host: r.CompactString()}, Topics: readStrings(r),
		Regex: deref(r.CompactNullableString()), Rebalance: time.Duration(r.Int32()) * time.Millisecond}
	s.Assignor = deref(r.CompactNullableString())
	tags(r, func(number uint32, value []byte) {
		if number == 0 {
			inner := kbin.Reader{Src: value}
			if s.Classic = readClassic(&inner); inner.Complete() != nil || s.Classic != nil && len(s.Classic.Protocols) == 0 {
				s.Classic = nil // no member that we could answer: it is treated as one that must begin anew
			}
		}
	})
	return s
}

func readStrings(r *kbin.Reader) []string {
	list := []string{}
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		list = append(list, r.CompactString())
	}
	return list
}

func readAssignment(r *kbin.Reader) rebalance.Assignment {
	a := rebalance.Assignment{}
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		topic := kafka.TopicID(r.Uuid())
		var list []int32
		for m := r.CompactArrayLen(); m > 0 && r.Ok(); m-- {
			list = append(list, r.Int32())
		}
		skipTags(r)
		a[topic] = sorted(list)
	}
	return a
}

// sortedNames is the names, rising, each once.
func sortedNames(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// sorted is the numbers, rising, each once.
func sorted(list []int32) []int32 { return slices.Compact(slices.Sorted(slices.Values(list))) }
