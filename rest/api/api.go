// Package api is the JSON of the REST door: one Go type per shape, with the
// names that Kafka REST v3 clients read. rest writes them, rest/client and cli
// read them. It knows no HTTP and decides nothing.
package api

// Metadata is what stands beside a single resource.
type Metadata struct {
	Self         string  `json:"self"`
	ResourceName *string `json:"resource_name,omitempty"`
}

// ListMetadata is what stands beside a list. Next is always null: lists are complete.
type ListMetadata struct {
	Self string  `json:"self"`
	Next *string `json:"next"`
}

// List is the envelope of every list. Data is never null.
type List[T any] struct {
	Kind     string       `json:"kind"`
	Metadata ListMetadata `json:"metadata"`
	Data     []T          `json:"data"`
}

// Related points at another resource.
type Related struct {
	Related string `json:"related"`
}

// Error is the body of every answer that is not a success. Code is the HTTP
// status, or the status and two more digits where clients tell cases apart, as 40002.
type Error struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
}

// ConfigData is one config in a request; a null value means "not set".
type ConfigData struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// AlterConfig is one change of a batch. A missing operation means SET.
type AlterConfig struct {
	Name      string  `json:"name"`
	Value     *string `json:"value,omitempty"`
	Operation *string `json:"operation,omitempty"`
}

// The operations of an AlterConfig.
const (
	OperationSet    = "SET"
	OperationDelete = "DELETE"
)

// AlterConfigsRequest is the body of …/configs:alter. ValidateOnly is the body's
// spelling of the query of the same name; either is enough.
type AlterConfigsRequest struct {
	Data         []AlterConfig `json:"data"`
	ValidateOnly bool          `json:"validate_only,omitempty"`
}

// UpdateConfigRequest is the body of PUT …/configs/{name}.
type UpdateConfigRequest struct {
	Value *string `json:"value"`
}

// The values of a config's source.
const (
	SourceDefault     = "DEFAULT_CONFIG"
	SourceDynamicLink = "DYNAMIC_CLUSTER_LINK_CONFIG"
	SourceTopic       = "DYNAMIC_TOPIC_CONFIG"
	SourceStatic      = "STATIC_BROKER_CONFIG"
)
