package group

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// record is a key and value of the offsets topic, in Kafka's formats (OffsetCommitKey 1 and
// OffsetCommitValue 1 or 4, GroupMetadataKey 2 and GroupMetadataValue 3, as Kafka 4.1 writes them).
// A nil value is a tombstone.
type record struct {
	key, value []byte
	position   kafka.Offset // where it is in its partition, once it is there
}

// The versions in keys tell what a record is about.
const (
	keyOffset       = 1 // 0 is its older form
	keyGroup        = 2
	keyEpoch        = 3 // of a group of the consumer protocol, as are those below
	keyTopics       = 4 // written by Kafka 4.0 and older; of no use here
	keyMember       = 5
	keyTarget       = 6
	keyTargetMember = 7
	keyCurrent      = 8
	keyRegex        = 16
)

// commit is a committed offset.
type commit struct {
	offset   kafka.Offset
	epoch    kafka.LeaderEpoch
	metadata string
	at       int64         // Unix ms of the commit
	expires  int64         // Unix ms, from clients that state a retention (v2-4); -1 if not stated
	topic    kafka.TopicID // id of the topic committed on; zero if unknown
	position kafka.Offset  // of the record in the offsets topic
}

func offsetKey(group string, tp kafka.TopicPartition) []byte {
	key := kmsg.OffsetCommitKey{Version: keyOffset, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	return key.AppendTo(make([]byte, 0, len(group)+len(tp.Topic)+10)) // version, two lengths and the number are 10
}

func offsetRecord(group string, tp kafka.TopicPartition, c commit) record {
	value := kmsg.OffsetCommitValue{Version: 4, Offset: int64(c.offset), LeaderEpoch: int32(c.epoch),
		Metadata: c.metadata, CommitTimestamp: c.at, TopicID: c.topic}
	if c.expires >= 0 {
		value.Version, value.ExpireTimestamp = 1, c.expires
	}
	return record{key: offsetKey(group, tp), value: value.AppendTo(make([]byte, 0, len(c.metadata)+48))} // all else takes at most 48
}

func offsetTombstone(group string, tp kafka.TopicPartition) record {
	return record{key: offsetKey(group, tp)}
}

func groupKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: keyGroup, Group: group}
	return key.AppendTo(nil)
}

func groupRecord(group string, s rebalance.Snapshot) record {
	value := kmsg.GroupMetadataValue{Version: 3, ProtocolType: s.ProtocolType, Generation: s.Generation,
		Protocol: optional(s.Protocol), Leader: optional(s.Leader), CurrentStateTimestamp: -1}
	if !s.Since.IsZero() {
		value.CurrentStateTimestamp = s.Since.UnixMilli()
	}
	for _, m := range s.Members {
		subscription := []byte{}
		for _, p := range m.Protocols {
			if p.Name == s.Protocol {
				subscription = p.Metadata
			}
		}
		value.Members = append(value.Members, kmsg.GroupMetadataValueMember{MemberID: m.ID, InstanceID: m.InstanceID,
			ClientID: m.Client.ID, ClientHost: m.Client.Host, RebalanceTimeoutMillis: int32(m.Rebalance.Milliseconds()),
			SessionTimeoutMillis: int32(m.Session.Milliseconds()), Subscription: subscription, Assignment: m.Assignment})
	}
	return record{key: groupKey(group), value: value.AppendTo(nil)}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// groupOf is the group that a record is about; "" and false for kinds that we do not know.
func groupOf(key []byte) (string, bool) {
	if len(key) < 4 {
		return "", false
	}
	if version := binary.BigEndian.Uint16(key); version > keyCurrent && version != keyRegex || version == keyTopics {
		return "", false
	}
	size := int(int16(binary.BigEndian.Uint16(key[2:])))
	if size < 0 || size > len(key)-4 {
		return "", false
	}
	return string(key[4 : 4+size]), true
}

// replay applies a record to its group. It is the one place where what is stored changes in memory.
// The group's lock is held, or nobody else knows the group yet.
func (c *impl) replay(g *group, r record, by producer) error {
	if len(r.key) < 2 {
		return fmt.Errorf("read a record of %s: its key is %d bytes long", kafka.ConsumerOffsetsTopic, len(r.key))
	}
	switch version := binary.BigEndian.Uint16(r.key); {
	case version < keyGroup:
		return c.replayOffset(g, r, by)
	case version == keyGroup:
		return g.replayGroup(r)
	}
	return c.replayConsumer(g, r)
}

func (c *impl) replayOffset(g *group, r record, by producer) error {
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(r.key); err != nil {
		return fmt.Errorf("read an offset's key: %w", err)
	}
	tp := kafka.TopicPartition{Topic: key.Topic, Partition: key.Partition}
	if r.value == nil {
		g.drop(tp)
		return nil
	}
	var value kmsg.OffsetCommitValue
	if err := value.ReadFrom(r.value); err != nil {
		return fmt.Errorf("read the offset of group %q on %s: %w", key.Group, tp, err)
	}
	committed := commit{offset: kafka.Offset(value.Offset), epoch: kafka.NoEpoch, metadata: value.Metadata,
		at: value.CommitTimestamp, expires: -1, topic: value.TopicID, position: r.position}
	if value.Version >= 3 {
		committed.epoch = kafka.LeaderEpoch(value.LeaderEpoch)
	}
	if value.Version == 1 && value.ExpireTimestamp >= 0 {
		committed.expires = value.ExpireTimestamp
	}
	if by.transactional {
		g.hold(by, tp, committed)
		g.shard.holds(by.id, g.id)
		return nil
	}
	g.put(tp, committed)
	return nil
}

// replayGroup notes the newest stored form; load makes the group of it. While the group is in memory
// its own state is ahead of that and Stored has moved it on.
func (g *group) replayGroup(r record) error {
	g.stored = r.value != nil || g.consumer != nil
	if g.core != nil {
		return nil
	}
	g.loaded = nil
	if r.value == nil {
		return nil
	}
	var value kmsg.GroupMetadataValue
	if err := value.ReadFrom(r.value); err != nil {
		return fmt.Errorf("read the metadata of group %q: %w", g.id, err)
	}
	g.loaded = &value
	return nil
}

func snapshotOf(value *kmsg.GroupMetadataValue) rebalance.Snapshot {
	s := rebalance.Snapshot{ProtocolType: value.ProtocolType, Generation: value.Generation,
		Protocol: deref(value.Protocol), Leader: deref(value.Leader), Since: time.UnixMilli(value.CurrentStateTimestamp)}
	if value.CurrentStateTimestamp < 0 {
		s.Since = time.Time{} // version 1 and older do not say: offsets then expire by their own times
	}
	for _, m := range value.Members {
		member := &rebalance.Member{ID: m.MemberID, InstanceID: m.InstanceID, Client: rebalance.Client{ID: m.ClientID, Host: m.ClientHost},
			Rebalance: time.Duration(m.RebalanceTimeoutMillis) * time.Millisecond,
			Session:   time.Duration(m.SessionTimeoutMillis) * time.Millisecond, Assignment: m.Assignment,
			Protocols: []rebalance.Protocol{{Name: s.Protocol, Metadata: m.Subscription}}}
		if m.RebalanceTimeoutMillis < 0 {
			member.Rebalance = member.Session // version 0 has only one
		}
		s.Members = append(s.Members, member)
	}
	return s
}
