package api

// Kinds of link answers.
const (
	KindLink           = "KafkaLinkData"
	KindLinkList       = "KafkaLinkDataList"
	KindLinkConfig     = "KafkaLinkConfigData"
	KindLinkConfigList = "KafkaLinkConfigDataList"
)

// CreateLinkRequest is the body of POST …/links; the name is the query link_name.
// One of the three cluster ids says what the other side is expected to be.
type CreateLinkRequest struct {
	SourceClusterID      string       `json:"source_cluster_id,omitempty"`
	DestinationClusterID string       `json:"destination_cluster_id,omitempty"`
	RemoteClusterID      string       `json:"remote_cluster_id,omitempty"`
	ClusterLinkID        string       `json:"cluster_link_id,omitempty"`
	Configs              []ConfigData `json:"configs"`
}

// Link is a cluster link. Tasks is there only when it was asked for.
type Link struct {
	Kind                 string   `json:"kind"`
	Metadata             Metadata `json:"metadata"`
	SourceClusterID      *string  `json:"source_cluster_id"`
	DestinationClusterID *string  `json:"destination_cluster_id"`
	RemoteClusterID      *string  `json:"remote_cluster_id"`
	LinkName             string   `json:"link_name"`
	LinkID               string   `json:"link_id"`         // the same 16 bytes as a UUID, for older clients
	ClusterLinkID        string   `json:"cluster_link_id"` // 22 characters of URL-safe base64
	TopicNames           []string `json:"topic_names"`
	LinkError            string   `json:"link_error"`
	LinkErrorMessage     *string  `json:"link_error_message"`
	LinkState            string   `json:"link_state"`
	// of the half on the other cluster, or the error code of why it is not known
	RemoteLinkState   string          `json:"remote_link_state,omitempty"`
	RemoteLinkMessage string          `json:"remote_link_error_message,omitempty"` // the error's words
	Tasks             *[]Task         `json:"tasks,omitempty"`
	CategoryCounts    []CategoryCount `json:"category_counts"`
}

// Task is one of a link's periodic jobs.
type Task struct {
	TaskName string       `json:"task_name"`
	State    string       `json:"state"`
	Errors   []CodedError `json:"errors"`
}

// CodedError is an error name of the closed list with its words.
type CodedError struct {
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message"`
}

// CategoryCount counts the mirror partitions in one state category.
type CategoryCount struct {
	StateCategory string `json:"state_category"`
	Count         int32  `json:"count"`
}

// LinkConfig is one config of a link. The booleans stand there twice because
// clients of the two product lines read different names.
type LinkConfig struct {
	Kind        string   `json:"kind"`
	Metadata    Metadata `json:"metadata"`
	ClusterID   string   `json:"cluster_id"`
	LinkName    string   `json:"link_name"`
	Name        string   `json:"name"`
	Value       *string  `json:"value"` // null where unset or sensitive
	IsDefault   bool     `json:"is_default"`
	IsReadOnly  bool     `json:"is_read_only"`
	IsSensitive bool     `json:"is_sensitive"`
	Default     bool     `json:"default"`
	ReadOnly    bool     `json:"read_only"`
	Sensitive   bool     `json:"sensitive"`
	Source      string   `json:"source"`
	Synonyms    []string `json:"synonyms"`
}

// LinkStates is the closed list of link_state.
var LinkStates = []string{"ACTIVE", "FAILED", "PAUSED", "UNAVAILABLE", "UNKNOWN"}
