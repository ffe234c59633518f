// Package kafka holds the words of the protocol: offsets, epochs, ids, errors.
// Every other package speaks them; this one imports nothing of ours.
// It knows no bytes, no files and no network.
package kafka

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// Offset is a record's place in a partition, counted in records from 0.
// As the end of a range it is exclusive unless said otherwise.
type Offset int64

// NoOffset is what the protocol writes where there is no offset.
const NoOffset Offset = -1

// LeaderEpoch numbers the reigns of a partition's leaders. On a mirror the
// batches carry the source's.
type LeaderEpoch int32

// NoEpoch is what the protocol writes where there is no epoch.
const NoEpoch LeaderEpoch = -1

// EpochStart says that batches of Epoch begin at Start.
type EpochStart struct {
	Epoch LeaderEpoch
	Start Offset
}

// ProducerID names a producer to the partitions it writes to.
type ProducerID int64

// NoProducerID marks a batch of a producer that is not idempotent.
const NoProducerID ProducerID = -1

// TopicID is a topic's identity; it outlives nothing and is never reused (KIP-516).
type TopicID [16]byte

// NewTopicID draws a random id. Like Kafka it never returns one of the two
// reserved ids (zero, one) nor one whose text begins with '-'.
func NewTopicID() TopicID {
	for {
		var id TopicID
		if _, err := rand.Read(id[:]); err != nil {
			panic("BUG: the system's randomness failed: " + err.Error())
		}
		if id.String()[0] != '-' && id != (TopicID{}) && id != (TopicID{15: 1}) {
			return id
		}
	}
}

// IsZero reports whether the id is the one the protocol uses for "none".
func (id TopicID) IsZero() bool { return id == TopicID{} }

// String is Kafka's text form: 22 characters of unpadded URL-safe base64.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText writes the text form.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text form.
func (id *TopicID) UnmarshalText(text []byte) error {
	parsed, err := ParseTopicID(string(text))
	*id = parsed
	return err
}

// ParseTopicID reads the text form.
func ParseTopicID(text string) (TopicID, error) {
	var id TopicID
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return TopicID{}, fmt.Errorf("parse topic id %q: want 22 characters of URL-safe base64", text)
	}
	copy(id[:], raw)
	return id, nil
}

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is Kafka's usual form, topic-partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// PartitionID names a partition by its topic's id.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

// String is the id's text form and the partition.
func (p PartitionID) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Isolation is how much of an undecided transaction a reader may see.
type Isolation int8

// The two levels, with the protocol's numbers.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)
