package api

// KindEventList is the kind of a list of events.
const KindEventList = "HawserEventList"

// Event is something that happened. Events are hawser's own.
type Event struct {
	Sequence    int64  `json:"sequence"` // from 1, without gaps, anew after a restart
	TimeMs      int64  `json:"time_ms"`  // Unix ms
	Name        string `json:"name"`     // of the kind, as mirror_state_changed
	Level       string `json:"level"`    // INFO, or WARN where an operator should look
	Text        string `json:"text"`
	LinkName    string `json:"link_name,omitempty"`
	TopicName   string `json:"topic_name,omitempty"`
	PartitionID *int32 `json:"partition_id,omitempty"`
}
