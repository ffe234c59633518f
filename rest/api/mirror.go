package api

// Kinds of mirror answers.
const (
	KindMirror           = "KafkaMirrorData"
	KindMirrorList       = "KafkaMirrorDataList"
	KindAlterMirrors     = "AlterMirrorsData"
	KindAlterMirrorsList = "KafkaAlterMirrorsDataList"
)

// CreateMirrorRequest is the body of POST …/mirrors.
type CreateMirrorRequest struct {
	SourceTopicName   string       `json:"source_topic_name"`
	MirrorTopicName   string       `json:"mirror_topic_name,omitempty"`
	ReplicationFactor *int32       `json:"replication_factor,omitempty"`
	Configs           []ConfigData `json:"configs"`
}

// AlterMirrorsRequest is the body of every verb: topics by name, or by a regular
// expression that must match a whole name.
type AlterMirrorsRequest struct {
	MirrorTopicNames       []string `json:"mirror_topic_names,omitempty"`
	MirrorTopicNamePattern string   `json:"mirror_topic_name_pattern,omitempty"`
}

// Mirror is a mirror topic, or what was one: STOPPED mirrors stay listed while
// their link exists. mirror_topic_error_message and the last three fields of a
// lag are hawser's own.
type Mirror struct {
	Kind                        string        `json:"kind"`
	Metadata                    Metadata      `json:"metadata"`
	LinkName                    string        `json:"link_name"`
	MirrorTopicName             string        `json:"mirror_topic_name"`
	SourceTopicName             string        `json:"source_topic_name"`
	NumPartitions               int32         `json:"num_partitions"`
	MirrorLags                  []MirrorLag   `json:"mirror_lags"` // by partition
	MirrorStatus                string        `json:"mirror_status"`
	MirrorTopicError            string        `json:"mirror_topic_error"`
	MirrorTopicErrorMessage     string        `json:"mirror_topic_error_message,omitempty"`
	StateTimeMs                 int64         `json:"state_time_ms"` // Unix ms
	MirrorStateTransitionErrors *[]CodedError `json:"mirror_state_transition_errors,omitempty"`
}

// MirrorLag is one partition's distance from its source.
type MirrorLag struct {
	Partition             int32  `json:"partition"`
	Lag                   int64  `json:"lag"`                      // records; -1 where the source was heard once and is silent now
	LastSourceFetchOffset int64  `json:"last_source_fetch_offset"` // -1 where nothing was fetched
	PartitionState        string `json:"partition_state,omitempty"`
	ErrorMessage          string `json:"error_message,omitempty"`
	RecordsLost           int64  `json:"records_lost,omitempty"` // removed at the source before they were mirrored
	// SourceEndOffset is the source's high watermark when it was last heard, exclusive; CaughtUpMs is the last moment, in Unix
	// ms, at which all that the source had then is here. Null while not known. Both are hawser's own.
	SourceEndOffset *int64 `json:"source_end_offset,omitempty"`
	CaughtUpMs      *int64 `json:"caught_up_ms,omitempty"`
	// Recopy, hawser's own, is how far the partition is copied from its source anew, as deletions may be missing.
	Recopy *Recopy `json:"recopy,omitempty"`
}

// Recopy is a copy of a mirror's partition beside it, which takes its place once it has all that the mirror has.
type Recopy struct {
	State        string `json:"state"`         // WAITING, COPYING, DONE
	CopiedOffset int64  `json:"copied_offset"` // the copy holds what lies below
	EndOffset    int64  `json:"end_offset"`    // the mirror's high watermark, exclusive
}

// AlteredMirror is what a verb did, or would do, to one topic. A null error_code means done.
type AlteredMirror struct {
	Kind                         string       `json:"kind"`
	Metadata                     Metadata     `json:"metadata"`
	MirrorTopicName              string       `json:"mirror_topic_name"`
	ErrorCode                    *int32       `json:"error_code"`
	ErrorMessage                 *string      `json:"error_message"`
	MirrorLags                   []MirrorLag  `json:"mirror_lags"`
	MessagesTruncated            *int64       `json:"messages_truncated"`
	PartitionLevelTruncationData []Truncation `json:"partition_level_truncation_data"`
	// What follows is hawser's own: the rest of the difference that the order makes, or would make.
	OpenTransactions []OpenTransaction `json:"open_transactions,omitempty"`     // what stopping, reversing or restoring aborts
	GroupOffsets     []GroupOffset     `json:"group_offsets_lowered,omitempty"` // by truncate-and-restore
	MissingACLs      []MissingACL      `json:"missing_acls,omitempty"`          // of a dry run
	// of a dry run of promote: what keeps the source from being asked
	WouldWaitFor    []CodedError     `json:"would_wait_for,omitempty"`
	PledgeWithdrawn *WithdrawnPledge `json:"pledge_withdrawn,omitempty"` // by a forced failover of a topic that is STOPPED
	// promote or failover of what is STOPPED: the error is that there is nothing to do
	AlreadyStopped bool `json:"already_stopped,omitempty"`
}

// WithdrawnPledge is a pledge to another cluster's restore that a forced failover takes back, or would take back.
type WithdrawnPledge struct {
	RestoreID   string `json:"restore_id"`
	ClusterID   string `json:"cluster_id"`   // which restores
	TopicName   string `json:"topic_name"`   // there
	SinceMs     int64  `json:"since_ms"`     // Unix ms at which it was given
	ClusterSays string `json:"cluster_says"` // LIVE, DEAD, or another word about the restore; SILENT where it does not answer
	Consequence string `json:"consequence"`
}

// MissingACL is a right on a topic of the source cluster that the order, or what it leads to, needs, and that the link's principal does
// not have there.
type MissingACL struct {
	Operation       string `json:"operation"`
	SourceTopicName string `json:"source_topic_name"`
	Need            string `json:"need"` // what does not work without it
}

// GroupOffset is a group's offset that a restore lowers to what both sides have: the group reads again from there.
type GroupOffset struct {
	GroupID     string `json:"group_id"`
	PartitionID int32  `json:"partition_id"`
	Offset      int64  `json:"offset"`
	LoweredTo   int64  `json:"lowered_to"`
}

// OpenTransaction is a transaction that is open in a mirror's log, or at the coordinator of the cluster that writes the topic:
// then its partition and first offset are -1, and it has its id.
type OpenTransaction struct {
	PartitionID     int32  `json:"partition_id"`
	ProducerID      int64  `json:"producer_id"`
	FirstOffset     int64  `json:"first_offset"`
	TransactionalID string `json:"transactional_id,omitempty"`
	OpenElsewhere   bool   `json:"open_elsewhere"` // also in a mirror that the order does not stop, and may still be committed there
}

// Truncation is one partition's part of a truncate-and-restore.
type Truncation struct {
	PartitionID       int32 `json:"partition_id"`
	OffsetTruncatedTo int64 `json:"offset_truncated_to"` // exclusive end of what both sides have
	MessagesTruncated int64 `json:"messages_truncated"`
	// FullCopy, hawser's own, says that all of the partition is copied again, and why.
	FullCopy       bool   `json:"full_copy,omitempty"`
	FullCopyReason string `json:"full_copy_reason,omitempty"`
}

// MirrorStatuses is the closed list of mirror_status. Generated clients refuse a
// whole answer over a value that is not in it.
var MirrorStatuses = []string{
	"ACTIVE", "FAILED", "LINK_FAILED", "LINK_PAUSED", "PAUSED", "PENDING_MIRROR",
	"PENDING_RESTORE", "PENDING_SETUP_FOR_RESTORE", "PENDING_STOPPED",
	"PENDING_SYNCHRONIZE", "SOURCE_UNAVAILABLE", "STOPPED",
}
