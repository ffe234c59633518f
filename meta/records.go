// Package meta is what the cluster has agreed on: topics, partition roles,
// links, mirrors, configs, over etcd, embedded or external. broker opens it;
// link, handler and rest read its Image and write through Update. It knows no
// record batches: consumer offsets and transactions live in the log.
package meta

import (
	"github.com/hawserio/hawser/kafka"
)

// Cluster is who this cluster is. Drawn once; the incarnation and the producer
// prefix anew after a restore or with --new-identity (protocol rule P3).
type Cluster struct {
	ID             string `json:"id"`              // Kafka's cluster.id, 22 characters
	Incarnation    string `json:"incarnation"`     // 22 characters
	ProducerPrefix uint32 `json:"producer_prefix"` // 31 bits, never 0: the high half of the producer ids handed out
}

// Topic is a topic as its owner made it. Configs hold only what was set, by
// Kafka's names; defaults are package config's.
type Topic struct {
	ID                kafka.TopicID     `json:"id"`
	Name              string            `json:"name"`
	Partitions        int32             `json:"partitions"`
	ReplicationFactor int16             `json:"replication_factor"`
	Configs           map[string]string `json:"configs,omitempty"`
	CreatedMs         int64             `json:"created_ms"` // Unix ms
	// Origin is what the topic last mirrored over a link that is deleted since; nil where it never did. A mirror record of it, if there is
	// one, is newer.
	Origin *Origin `json:"origin,omitempty"`
}

// Origin is what outlives a mirror's record (rule T4): with the lineages, which are with the partitions, it allows to restore the topic
// that was mirrored over a link that is made later.
type Origin struct {
	Cluster   string        `json:"cluster"` // of the topic that was mirrored
	Topic     kafka.TopicID `json:"topic"`
	Name      string        `json:"name"`
	StoppedMs int64         `json:"stopped_ms"` // Unix ms at which the mirror was stopped
	// Withdrawn and Kin are as in Mirror.
	Withdrawn *Pledge `json:"withdrawn,omitempty"`
	Kin       []Kin   `json:"kin,omitempty"`
}

// Role is what a partition is open for. Stored by name.
type Role string

// The roles. A partition is open for at most one of Append and AppendMirrored.
const (
	RoleOpen   Role = "open"   // producers append
	RoleMirror Role = "mirror" // a fetcher appends the source's bytes
	RoleFrozen Role = "frozen" // nobody appends: a reversal or a stop is under way
)

// Partition is one entry of a partition's ordered, guarded stream: the latest
// says all. Entries are written by the partition's owner only, under a compare
// with the version it read (protocol rules C3, C10, DESIGN section 3).
type Partition struct {
	Role Role `json:"role"`
	// Generation rises with each change of role, truncation or jump; an append that
	// names another one is refused (rule D3).
	Generation int64 `json:"generation"`
	// Epoch is the published leader epoch: at least every epoch in the log, never
	// falling, and strictly greater after every truncation of a visible offset (rules E2-E4).
	Epoch kafka.LeaderEpoch `json:"epoch"`
	// Stop is where a mirror stopped, written once per stop, never recomputed (rule D1).
	Stop *StopPoint `json:"stop,omitempty"`
	// Frozen is the end stated for a reversal, written once (rule R3).
	Frozen *Freeze `json:"frozen,omitempty"`
	// Truncations counts truncations of visible offsets.
	Truncations int64 `json:"truncations,omitempty"`
	// Cuts lists epochs that a truncation removed, for OffsetForLeaderEpoch (rule E1).
	Cuts []Cut `json:"cuts,omitempty"`
	// Cutting is set while a stored truncation may not be done yet: the log must be
	// cut to end at most there before anybody appends. Exclusive end.
	Cutting *kafka.Offset `json:"cutting,omitempty"`
	// Jumps lists the holes that a mirror passed over because its source had removed
	// the records (rules D4, D5), rising; holes below the log start are dropped.
	Jumps []Jump `json:"jumps,omitempty"`
	// Lineage is who minted the epochs of this log (rule T4), rising.
	Lineage []Lineage `json:"lineage,omitempty"`
	// Home is the id under which the store keeps the log: the topic's own where it is zero, else that of the copy which took its
	// place (rule T3). Left is the home before, until its directory is removed.
	Home kafka.TopicID  `json:"home,omitzero"`
	Left *kafka.TopicID `json:"left,omitempty"`
}

// LogID is where the store keeps the log of a topic's partition.
func (p *Partition) LogID(id kafka.PartitionID) kafka.PartitionID {
	if !p.Home.IsZero() {
		id.Topic = p.Home
	}
	return id
}

// Jump says that the log goes on at To after it had ended at From. Transactions
// open at From ended there as aborted, without a marker.
type Jump struct {
	From kafka.Offset `json:"from"`
	To   kafka.Offset `json:"to"`
	// Reset says that what lay below To was removed as well: the log starts at To.
	Reset bool `json:"reset,omitempty"`
}

// StopPoint is the offset (exclusive end) and source leader epoch at which a mirror stopped.
type StopPoint struct {
	Offset kafka.Offset      `json:"offset"`
	Epoch  kafka.LeaderEpoch `json:"epoch"`
	Link   string            `json:"link"` // id of the link it stopped from
	// LastBatches is the last 64 batches at most below Offset, newest last (rule T5).
	LastBatches []BatchMark `json:"last_batches,omitempty"`
}

// BatchMark identifies a batch.
type BatchMark struct {
	Base  kafka.Offset      `json:"base"`
	Epoch kafka.LeaderEpoch `json:"epoch"`
	CRC   uint32            `json:"crc"`
}

// Freeze is a frozen end (exclusive) stated for a reversal.
type Freeze struct {
	Reversal string       `json:"reversal"`
	End      kafka.Offset `json:"end"`
}

// Cut says that epochs above Last and up to Highest were removed above Offset (exclusive end of what is common).
type Cut struct {
	Offset kafka.Offset        `json:"offset"`
	Last   kafka.LeaderEpoch   `json:"last"`
	Dead   []kafka.LeaderEpoch `json:"dead"`
	AtMs   int64               `json:"at_ms"`
}

// Lineage says that from Start on, up to the next entry, batches were minted by
// Cluster, the first of them in Epoch (NoEpoch where it was not known yet). What lies below the first
// entry came from the source of the first link; a topic without entries that never was a mirror is all its own.
type Lineage struct {
	Start   kafka.Offset      `json:"start"`
	Epoch   kafka.LeaderEpoch `json:"epoch"`
	Cluster string            `json:"cluster"`
}

// Partitions is the partitions of one topic, packed into one record (rule C10).
type Partitions struct {
	Topic kafka.TopicID `json:"topic"`
	List  []Partition   `json:"list"` // by partition number
	// CopyOf is the topic that this is a copy of (rule T3); zero for the partitions of a topic.
	CopyOf kafka.TopicID `json:"copy_of,omitzero"`
}

// Link is a cluster link. Its id, name, mode, connection mode, prefix and remote
// cluster never change after it was made.
type Link struct {
	ID              kafka.TopicID     `json:"id"` // 16 random bytes, shown as 22 characters
	Name            string            `json:"name"`
	RemoteClusterID string            `json:"remote_cluster_id"`
	Configs         map[string]string `json:"configs"` // only what was set; plain values
	Secrets         map[string]Secret `json:"secrets"` // only what was set; sensitive values
	CreatedMs       int64             `json:"created_ms"`
}

// Mirror is a mirror topic, or what was one: STOPPED mirrors stay while their link exists.
type Mirror struct {
	Topic         kafka.TopicID `json:"topic"` // the mirror topic on this cluster
	Link          kafka.TopicID `json:"link"`
	SourceTopic   string        `json:"source_topic"`
	SourceTopicID kafka.TopicID `json:"source_topic_id"` // zero where the source has none
	State         string        `json:"state"`           // link/mirror's name of the stored state
	Paused        bool          `json:"paused"`          // the pause order, where it is no state of its own
	StateMs       int64         `json:"state_ms"`        // Unix ms at which State was stored
	Error         string        `json:"error,omitempty"` // a mirror_topic_error name
	ErrorText     string        `json:"error_text,omitempty"`
	StartSpec     string        `json:"start_spec"` // mirror.start.offset.spec when it was made
	// Kin are the topics, beside the source, whose history this one's is: what the source was copied from when the mirror was made, and
	// what this one followed before. Each may be restored from this one, as from any mirror (rule T10). At most KinMax.
	Kin []Kin `json:"kin,omitempty"`
	// Turn is the reversal or restore that the topic is in or was in last; Turns counts those that it ordered itself.
	Turn  *Turn `json:"turn,omitempty"`
	Turns int64 `json:"turns,omitempty"`
	// TurnsStopped is Turns when the topic last became an ordinary one: since those turns it may have been written to.
	TurnsStopped int64 `json:"turns_stopped,omitempty"`
	// Completed are reversals that this side completed, by the link they went over, before it got into another turn: the old source of each
	// may not have heard of it yet (rule R1). The last of each link, at most CompletedMax.
	Completed []Completed `json:"completed,omitempty"`
	// Pledge is set while another cluster's topic is being restored from this one.
	Pledge *Pledge `json:"pledge,omitempty"`
	// Withdrawn is the last pledge that an operator took back; SinceMs is when. Neither that restore nor an earlier one of its topic gets
	// one again.
	Withdrawn *Pledge `json:"withdrawn,omitempty"`
	// LastSourceFetchOffset by partition, written when it stops; -1 for never.
	LastSourceFetchOffset []kafka.Offset `json:"last_source_fetch_offset,omitempty"`
	// Lost counts records that the source removed before they were mirrored, by partition (case C03).
	Lost []int64 `json:"lost,omitempty"`
	// LevelMs is the Unix time in ms at which a mirror of a compacted topic stood at its source's end, as last stored; 0 for never.
	LevelMs int64 `json:"level_ms,omitempty"`
	// Recopy is set while the topic is copied from its source anew, as deletions may be missing.
	Recopy *Recopy `json:"recopy,omitempty"`
	// Synced holds configs taken from the source, by Kafka's names; Overrides what was set on the mirror.
	Overrides map[string]string `json:"overrides,omitempty"`
}

// Kin names a topic for ever: its id, and the cluster that gave it.
type Kin struct {
	Cluster string        `json:"cluster"`
	Topic   kafka.TopicID `json:"topic"`
}

// KinMax bounds what is remembered of a topic's kin.
const KinMax = 16

// Recopy is a copy of a mirror's partitions beside them, which takes their places one by one (rule T3).
type Recopy struct {
	// ID is under which the copy's partitions have their entries and their logs; there is no topic of that id. Entry p is of
	// no more use once the topic's own names ID as its home.
	ID      kafka.TopicID `json:"id"`
	SinceMs int64         `json:"since_ms"` // Unix ms at which it began: deletions from then on are seen
}

// Turn is a reversal or a restore, on any side of it. What effects found is stored once (rule D9).
type Turn struct {
	ID      string `json:"id"`                // link/plan.TurnID; also the name under which partitions are frozen
	Restore bool   `json:"restore,omitempty"` // else a reversal
	Paused  bool   `json:"paused,omitempty"`  // the new mirror begins paused
	Over    bool   `json:"over,omitempty"`    // ended without a turn
	Handed  bool   `json:"handed,omitempty"`  // reversal, mirror's side: the source handed over
	Plain   bool   `json:"plain,omitempty"`   // the topic had no mirror record before: it goes when nothing came of the turn
	SinceMs int64  `json:"since_ms"`          // Unix ms at which it was ordered, or heard of
	From    string `json:"from,omitempty"`    // restore: the other side's reversal that the topic was frozen for before
	// Release is set from the restore's order on, until the pledge is known to be gone.
	Release bool `json:"release,omitempty"`
	// Ends are the frozen ends that the source stated (mirror's side), by partition, exclusive.
	Ends []kafka.Offset `json:"ends,omitempty"`
	// Cuts are what the restore does to each partition.
	Cuts []RestoreCut `json:"cuts,omitempty"`
	// Quarantine is the topic that keeps the tails.
	Quarantine string `json:"quarantine,omitempty"`
}

// CompletedMax bounds how many links' completed reversals a record keeps.
const CompletedMax = 8

// Completed is a reversal that was completed on the mirror's side.
type Completed struct {
	ID     string         `json:"id"` // link/plan.TurnID
	Link   kafka.TopicID  `json:"link"`
	Paused bool           `json:"paused,omitempty"` // the old source begins paused
	Ends   []kafka.Offset `json:"ends"`             // by partition, exclusive: the frozen ends, at which this side stopped
}

// RestoreCut is what a restore does to one partition.
type RestoreCut struct {
	To   kafka.Offset `json:"to"`   // exclusive end of what stays; NoOffset: emptied and copied again
	Tail kafka.Offset `json:"tail"` // what is quarantined is [Tail, End)
	// Groups is where group offsets above are taken back to, at most Tail.
	Groups kafka.Offset `json:"groups"`
	End    kafka.Offset `json:"end"`            // the frozen end
	Kept   bool         `json:"kept,omitempty"` // the tail is in the quarantine, durably
}

// Pledge says that the topic stays as it is while topic Topic of cluster Cluster is restored from it (rule T1).
type Pledge struct {
	ID      string        `json:"id"` // link/plan.TurnID
	Topic   kafka.TopicID `json:"topic"`
	Name    string        `json:"name"` // of that topic
	Cluster string        `json:"cluster"`
	SinceMs int64         `json:"since_ms"`
}

// Deletion remembers that a topic was deleted, so that its directories may be
// removed after a crash (rule D7). It goes when they are gone.
type Deletion struct {
	Topic      kafka.TopicID `json:"topic"`
	Name       string        `json:"name"`
	Partitions int32         `json:"partitions"`
}
