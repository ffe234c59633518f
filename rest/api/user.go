package api

// Kinds of answers about users. They are an addition of hawser.
const (
	KindUser     = "HawserUser"
	KindUserList = "HawserUserList"
)

// User is a user with SCRAM credentials. What they are made of is never shown.
type User struct {
	Kind        string       `json:"kind"`
	Metadata    Metadata     `json:"metadata"`
	ClusterID   string       `json:"cluster_id"`
	UserName    string       `json:"user_name"`
	Credentials []Credential `json:"credentials"`
}

// Credential is how a user may log in.
type Credential struct {
	Mechanism  string `json:"mechanism"` // SCRAM-SHA-256 or SCRAM-SHA-512
	Iterations int32  `json:"iterations"`
}

// SetUserRequest is the body of POST …/users: it makes a user, or gives one another
// password. Without mechanisms it is for both; without iterations 8192 are done.
type SetUserRequest struct {
	UserName   string   `json:"user_name"`
	Password   string   `json:"password"`
	Mechanisms []string `json:"mechanisms,omitempty"`
	Iterations *int32   `json:"iterations,omitempty"`
}
