package api

// Kinds of ACL answers.
const (
	KindACL     = "KafkaAcl"
	KindACLList = "KafkaAclList"
)

// ACL is one access rule. Words are Kafka's, upper case, as TOPIC, PREFIXED, READ, ALLOW.
type ACL struct {
	Kind         string   `json:"kind"`
	Metadata     Metadata `json:"metadata"`
	ClusterID    string   `json:"cluster_id"`
	ResourceType string   `json:"resource_type"`
	ResourceName string   `json:"resource_name"`
	PatternType  string   `json:"pattern_type"`
	Principal    string   `json:"principal"`
	Host         string   `json:"host"`
	Operation    string   `json:"operation"`
	Permission   string   `json:"permission"`
}

// CreateACLRequest is the body of POST …/acls.
type CreateACLRequest struct {
	ResourceType string `json:"resource_type"`
	ResourceName string `json:"resource_name"`
	PatternType  string `json:"pattern_type"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permission"`
}

// CreateACLsRequest is the body of POST …/acls:batch.
type CreateACLsRequest struct {
	Data []CreateACLRequest `json:"data"`
}

// DeletedACLs is what DELETE …/acls took away.
type DeletedACLs struct {
	Data []ACL `json:"data"`
}
