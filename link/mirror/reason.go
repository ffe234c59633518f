package mirror

// Reason is why a mirror is not as it should be: mirror_topic_error's and the
// state-transition errors' names on REST. The list is closed.
type Reason string

// The reasons.
const (
	NoError                    Reason = "NO_ERROR"
	SourceTopicMayBeDeleted    Reason = "SOURCE_TOPIC_MAY_BE_DELETED"
	SourceTopicIDChanged       Reason = "SOURCE_TOPIC_ID_CHANGED"
	SourcePartitionsDecreased  Reason = "SOURCE_PARTITIONS_DECREASED"
	NonMonotonicSourceEpoch    Reason = "NON_MONOTONIC_SOURCE_EPOCH"
	NonMonotonicLogAppendEpoch Reason = "NON_MONOTONIC_LOG_APPEND_EPOCH"
	UnexpectedTruncation       Reason = "UNEXPECTED_TRUNCATION"
	UnsupportedMessageFormat   Reason = "UNSUPPORTED_MESSAGE_FORMAT"
	IllegalState               Reason = "ILLEGAL_STATE"
	UnsupportedMirrorState     Reason = "UNSUPPORTED_MIRROR_STATE"
	Authentication             Reason = "AUTHENTICATION_ERROR"
	Authorization              Reason = "AUTHORIZATION_ERROR"
	TLSError                   Reason = "TLS_ERROR"
	BrokerAuthentication       Reason = "BROKER_AUTHENTICATION_ERROR"
	BrokerAuthorization        Reason = "BROKER_AUTHORIZATION_ERROR"
	Misconfiguration           Reason = "MISCONFIGURATION_ERROR"
	Unresolvable               Reason = "UNRESOLVABLE_BOOTSTRAP_ERROR"
	TCPConnectionFailed        Reason = "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
	Timeout                    Reason = "TIMEOUT_ERROR"
	SourceUnreachable          Reason = "SOURCE_UNREACHABLE"
	CorruptBatch               Reason = "CORRUPT_BATCH"
	OverlappingBatch           Reason = "OVERLAPPING_BATCH"
	StorageError               Reason = "STORAGE_ERROR"
	NoRoom                     Reason = "NO_ROOM"
	DeletionsMissed            Reason = "DELETIONS_MAY_BE_MISSING"
	LagNotZero                 Reason = "MIRROR_LAG_NOT_ZERO"
	ConsumerGroupInUse         Reason = "CONSUMER_GROUP_IN_USE_ERROR"
	PolicyViolation            Reason = "POLICY_VIOLATION_ERROR"
	TopicExists                Reason = "TOPIC_EXISTS_ERROR"
	InvalidTopic               Reason = "INVALID_TOPIC"
	InvalidRequest             Reason = "INVALID_REQUEST_ERROR"
	UnknownTopicOrPartition    Reason = "UNKNOWN_TOPIC_OR_PARTITION_ERROR"
	SecurityDisabled           Reason = "SECURITY_DISABLED_ERROR"
	ACLLimitExceeded           Reason = "ACL_LIMIT_EXCEEDED"
	LinkNotFound               Reason = "LINK_NOT_FOUND_ERROR"
	RemoteLinkNotFound         Reason = "REMOTE_LINK_NOT_FOUND_ERROR"
	RemoteMirrorNotFound       Reason = "REMOTE_MIRROR_NOT_FOUND_ERROR"
	Pledged                    Reason = "PLEDGED_TO_RESTORE"
	PledgeWithdrawn            Reason = "PLEDGE_WITHDRAWN"
	Suppressed                 Reason = "SUPPRESSED_ERRORS"
	InternalError              Reason = "INTERNAL_ERROR"
	Unknown                    Reason = "UNKNOWN"
)

// Explained is a reason with its cause and what to do about it.
type Explained struct {
	Reason Reason
	Cause  string
	Remedy string
}

// reasons is the closed list, in the order of the docs.
var reasons = []Explained{
	{NoError, "Nothing is wrong.", "Nothing to do."},
	{SourceTopicMayBeDeleted, "The source has not shown the topic for cluster.link.retry.timeout.ms.",
		"If it was deleted, fail the mirror over or delete it; if it is there again, resume the mirror."},
	{SourceTopicIDChanged, "The source topic was deleted and made again under its name. Nothing of the new one was copied.",
		"Fail the mirror over to keep the old copy, or delete it and create the mirror again."},
	{SourcePartitionsDecreased, "The source topic has fewer partitions than were mirrored: it was made again.",
		"Fail the mirror over to keep the old copy, or delete it and create the mirror again."},
	{NonMonotonicSourceEpoch, "The source's leader epoch went back: the source was restored from an older state.",
		"Compare both logs; resume if the source is right again, else fail the mirror over."},
	{NonMonotonicLogAppendEpoch, "A fetched batch has a lower leader epoch than the one before it.",
		"Check the source's log; fail the mirror over, or create it again."},
	{UnexpectedTruncation,
		"The source's log is shorter than, or differs from, what was mirrored, and no change of leader explains it.",
		"Find out what the source lost; then fail the mirror over, or create it again."},
	{UnsupportedMessageFormat, "The source's log holds record sets of format v0 or v1, which have no offsets, epochs and CRC to be " +
		"copied by.", "Let the source rewrite or age out that data and create the mirror again, or fail the mirror over to keep what " +
		"was copied."},
	{IllegalState, "The mirror's own records contradict each other.", "Report it with the broker's log; failover makes it an ordinary topic."},
	{UnsupportedMirrorState, "The mirror is in a state that this version does not know.", "Run the newer version that wrote it."},
	{Authentication, "The source refused the link's credentials.",
		"Alter sasl.jaas.config (or the client certificate) on the link, or put the user right on the source."},
	{Authorization, "The link's principal may not READ or DESCRIBE_CONFIGS the source topic, or may not read the group.",
		"Grant it on the source; then it goes on by itself, or resume a FAILED mirror."},
	{TLSError, "The TLS handshake with the source failed.", "Alter ssl.truststore.certificates, the client certificate or the port " +
		"on the link."},
	{BrokerAuthentication, "This cluster refused the link's own credentials, those that start with local.",
		"Alter local.listener.name, local.security.protocol, local.sasl.jaas.config or the local.ssl. configs on the link's half that dials."},
	{BrokerAuthorization, "The link's own principal on this cluster, of the local. configs, may not do what the other cluster asks " +
		"for.", "Grant it on this cluster: READ and DESCRIBE_CONFIGS on the topics, DESCRIBE on the cluster."},
	{Misconfiguration, "The link's configuration cannot work: a wrong cluster answers, or a value cannot be used.",
		"Alter the link's configs as the message says."},
	{Unresolvable, "No name in bootstrap.servers can be resolved.", "Correct bootstrap.servers or DNS."},
	{TCPConnectionFailed, "No address in bootstrap.servers, or an advertised broker's, accepts connections.",
		"Start the source or open the port; where the source advertises addresses that cannot be reached from here, set bootstrap.address.map."},
	{Timeout, "The source did not answer in time.", "Check the network and the source's load; raise request.timeout.ms for a slow one."},
	{SourceUnreachable, "The broker that leads the partition on the source does not answer.",
		"It heals by itself once the broker or another leader answers."},
	{CorruptBatch, "The source serves a batch whose checksum is wrong. Nothing of it was stored.",
		"It is fetched again; check the disk of the source's leader."},
	{OverlappingBatch, "The source serves a batch that begins inside what is mirrored already. Nothing of it was stored.",
		"Check the source's log: two histories met in it."},
	{StorageError, "This broker's own log of the partition could not be read, written or synced: the partition is out of service, " +
		"the others go on.", "Do as the message says (docs/out-of-service.md); what is missing is fetched again."},
	{NoRoom, "The volume of the data directory is full up to what is kept free for metadata. Nothing was stored.",
		"Free or add space; then it goes on by itself."},
	{DeletionsMissed, "A mirror of a compacted topic was away from its source's end for longer than delete.retention.ms: the " +
		"source may have removed tombstones that were never mirrored, and the deleted keys are still here; and markers of " +
		"transactions, so that a commit which was missed counts as aborted if the mirror is stopped so.",
		"Nothing to do while the message says that it is copied from the source again: the mark goes by itself. Where it says that " +
			"there is no room, add space; where mirror.recopy.enable is false, turn it on, or compare with hawser mirror verify. Where " +
			"nothing is copied, pausing and resuming the mirror takes the mark away; a failover never does."},
	{LagNotZero, "The source has records that are not mirrored yet, or a transaction is open there.",
		"Stop the producers and end transactions on the source; failover does not wait."},
	{ConsumerGroupInUse, "The group has members on this cluster, so its offsets are not overwritten.",
		"Stop those consumers, or exclude the group in consumer.offset.group.filters."},
	{PolicyViolation, "This cluster refuses a value of the source.",
		"Change the value on the source, or leave the config out of topic.config.sync.include."},
	{TopicExists, "A topic of that name, which is no mirror of this link, is here already.",
		"Delete or rename it, or exclude it from the filters."},
	{InvalidTopic, "The mirror's name would not be a legal topic name.",
		"Use a shorter prefix on a new link, or exclude the topic from the filters."},
	{InvalidRequest, "The request is not legal.", "Do as the message says."},
	{UnknownTopicOrPartition, "The topic or partition is not there.", "Create it on the source, or delete the mirror."},
	{SecurityDisabled, "The source has no authorizer, so it has no ACLs.",
		"Turn acl.sync.enable off, or configure an authorizer on the source."},
	{ACLLimitExceeded, "This cluster takes no more ACLs.", "Narrow acl.filters."},
	{LinkNotFound, "The link is not on this cluster.", "Create it, or correct its name."},
	{RemoteLinkNotFound, "The other cluster has no link of this name.", "Create it there."},
	{RemoteMirrorNotFound, "The other cluster has no mirror of this topic.", "Create it there, or leave the topic alone."},
	{Pledged, "The topic of the other cluster is being restored from this one, which stays as it is until that is done: it takes " +
		"records, and is not restored, reversed or deleted.", "Wait until the restore is done, or fail it over there. If that cluster " +
		"is gone for good, failover with force takes the pledge back."},
	{PledgeWithdrawn, "An operator of the cluster that this topic is to be restored from took its pledge back, because this " +
		"cluster seemed to be gone. Nothing was removed here.", "Fail the topic over: it is what it was before. Then restore it anew, " +
		"where the other cluster's topic is STOPPED still."},
	{Suppressed, "There are more errors than are listed.", "Put the listed ones right first."},
	{InternalError, "Something failed here that should not.", "Report it with the broker's log."},
	{Unknown, "The cause has no name.", "Read the message."},
}

// Reasons is the closed list.
func Reasons() []Explained { return append([]Explained(nil), reasons...) }

// Explain finds a reason; one that is not in the list is explained as UNKNOWN.
func Explain(r Reason) Explained {
	for _, e := range reasons {
		if e.Reason == r {
			return e
		}
	}
	return Explained{r, reasons[len(reasons)-1].Cause, reasons[len(reasons)-1].Remedy}
}
