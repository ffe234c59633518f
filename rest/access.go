package rest

import "net/http"

// Access decides who comes in and what they may do, by the same ACLs as the Kafka door.
type Access interface {
	// Login names who sent the request. An error with the code SaslAuthenticationFailed
	// is answered with 401.
	Login(r *http.Request) (principal string, err error)
	// Allowed reports whether the principal may do op on the resource.
	Allowed(r *http.Request, principal string, op Operation, res Resource) bool
}

// Operation is an ACL operation, by Kafka's name.
type Operation string

// The operations that this door asks for.
const (
	Alter           Operation = "ALTER"
	AlterConfigs    Operation = "ALTER_CONFIGS"
	Create          Operation = "CREATE"
	Delete          Operation = "DELETE"
	Describe        Operation = "DESCRIBE"
	DescribeConfigs Operation = "DESCRIBE_CONFIGS"
)

// Resource is what an operation is done to.
type Resource struct {
	Type string // CLUSTER, TOPIC, GROUP
	Name string // empty for the cluster
}

func topicResource(name string) Resource { return Resource{"TOPIC", name} }
func groupResource(name string) Resource { return Resource{"GROUP", name} }

// right is one row of what a route needs. The resource's name comes from the path.
type right struct {
	op       Operation
	resource string // CLUSTER, TOPIC, GROUP
}

// What routes need. Rights on topics that are named in a body are asked for by the
// handler, one topic at a time.
var (
	open             []right
	describeCluster  = []right{{Describe, "CLUSTER"}}
	alterCluster     = []right{{Alter, "CLUSTER"}}
	orderMirrors     = []right{{Alter, "CLUSTER"}, {Describe, "CLUSTER"}}
	createMirrors    = []right{{Alter, "CLUSTER"}, {AlterConfigs, "CLUSTER"}}
	readBrokers      = []right{{DescribeConfigs, "CLUSTER"}}
	writeBrokers     = []right{{AlterConfigs, "CLUSTER"}}
	describeTopic    = []right{{Describe, "TOPIC"}}
	alterTopic       = []right{{Alter, "TOPIC"}}
	deleteTopicRight = []right{{Delete, "TOPIC"}}
	readTopicConfig  = []right{{DescribeConfigs, "TOPIC"}}
	writeTopicConfig = []right{{AlterConfigs, "TOPIC"}}
	describeGroup    = []right{{Describe, "GROUP"}}
)

// login finds out who asks and checks what the route itself needs.
func (c *call) login(needs []right) error {
	if c.Access == nil {
		return nil
	}
	principal, err := c.Access.Login(c.r)
	if err != nil {
		return unauthenticated(err)
	}
	c.principal = principal
	for _, need := range needs {
		res := Resource{Type: need.resource}
		switch need.resource {
		case "TOPIC":
			res.Name = c.r.PathValue("topic_name")
		case "GROUP":
			res.Name = c.r.PathValue("consumer_group_id")
		}
		if err := c.allow(need.op, res); err != nil {
			return err
		}
	}
	return nil
}

// allow refuses what the caller may not do, with words that name the missing ACL.
func (c *call) allow(op Operation, res Resource) error {
	if c.allowed(op, res) {
		return nil
	}
	return forbidden(c.principal, op, res)
}

func (c *call) allowed(op Operation, res Resource) bool {
	return c.Access == nil || c.Access.Allowed(c.r, c.principal, op, res)
}
