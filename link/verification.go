package link

import (
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/verify"
)

// Verdict is what a verification found; a closed list.
type Verdict string

// The verdicts, best first. A verification's is the worst of its partitions'.
const (
	// Identical: the same bytes at the same offsets.
	Identical Verdict = "IDENTICAL"
	// Equivalent: the same but for what cleaners removed with reason, on a compacted topic.
	Equivalent Verdict = "EQUIVALENT"
	// Incomplete: not all could be compared.
	Incomplete Verdict = "INCOMPLETE"
	// Different: something in the mirror is not what the source holds.
	Different Verdict = "DIFFERENT"
)

// Verification is a comparison of a mirror with its source, under way or done.
type Verification struct {
	Link          string         `json:"link"`
	LinkID        kafka.TopicID  `json:"link_id"`
	Cluster       string         `json:"cluster_id"`
	SourceCluster string         `json:"source_cluster_id"`
	Topic         string         `json:"mirror_topic"`
	TopicID       kafka.TopicID  `json:"mirror_topic_id"`
	SourceTopic   string         `json:"source_topic"`
	SourceTopicID kafka.TopicID  `json:"source_topic_id"`
	Started       time.Time      `json:"started"`
	Finished      time.Time      `json:"finished"` // zero while it runs
	Verdict       Verdict        `json:"verdict"`
	Partitions    []VerifiedPart `json:"partitions"`
	Signed        string         `json:"-"` // the whole as a JWS, once finished
}

// VerifiedPart is one partition's part of a verification.
type VerifiedPart struct {
	Partition int32        `json:"partition"`
	From      kafka.Offset `json:"from"` // the first offset compared
	To        kafka.Offset `json:"to"`   // exclusive
	At        kafka.Offset `json:"at"`   // how far it has come, exclusive
	Verdict   Verdict      `json:"verdict"`
	Batches   int64        `json:"identical_batches"`
	Bytes     int64        `json:"identical_bytes"`
	// SHA256 is that of the identical batches' bytes, in order: of all of the range if the verdict is IDENTICAL.
	SHA256      string              `json:"sha256"`
	Records     int64               `json:"records_compared"`  // where cleaners have made the batches different
	Explained   int64               `json:"records_explained"` // removed with reason at one side
	Differences int64               `json:"differences"`
	First       []verify.Difference `json:"first_differences"` // 20 at most
	Error       string              `json:"error"`             // why it is incomplete
}

// worst is the verdict on the whole.
func worst(parts []VerifiedPart) Verdict {
	order := []Verdict{Identical, Equivalent, Incomplete, Different}
	most := Identical
	for _, p := range parts {
		if slices.Index(order, p.Verdict) > slices.Index(order, most) {
			most = p.Verdict
		}
	}
	return most
}

// verifications remembers the last one of each mirror.
type verifications struct {
	list    map[kafka.TopicID]*Verification // by topic id
	running int
}

const (
	verifyAtOnce    = 4    // verifications
	verifyParts     = 4    // partitions of one, side by side
	verifyRemembers = 1000 // results kept; the oldest go
)

// begin registers a verification, or says why it cannot be.
func (vs *verifications) begin(v *Verification) *Error {
	if now := vs.list[v.TopicID]; now != nil && now.Finished.IsZero() {
		return badRequest("Mirror topic '%s' is being verified already, since %s. Wait for it to end.", v.Topic,
			now.Started.UTC().Format(time.RFC3339))
	}
	if vs.running >= verifyAtOnce {
		return badRequest("%d mirror topics are being verified now, and no more are at once. Try again when one has ended.", vs.running)
	}
	if vs.list == nil {
		vs.list = map[kafka.TopicID]*Verification{}
	}
	if len(vs.list) >= verifyRemembers {
		vs.forgetOldest()
	}
	vs.list[v.TopicID] = v
	vs.running++
	return nil
}

func (vs *verifications) forgetOldest() {
	var oldest *Verification
	for _, v := range vs.list {
		if !v.Finished.IsZero() && (oldest == nil || v.Finished.Before(oldest.Finished)) {
			oldest = v
		}
	}
	if oldest != nil {
		delete(vs.list, oldest.TopicID)
	}
}

// copyOf is for who looks while it runs.
func (v *Verification) copyOf() Verification {
	out := *v
	out.Partitions = slices.Clone(v.Partitions)
	return out
}
