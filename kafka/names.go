package kafka

// TopicNameMax is the longest topic name, in bytes (Kafka's Topic.MAX_NAME_LENGTH).
const TopicNameMax = 249

// Internal topics, as Kafka names them.
const (
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
)

// CheckTopicName says why a name cannot be a topic's, by Kafka's rule.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return Errorf(InvalidTopicException, "Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return Errorf(InvalidTopicException, "Topic name is invalid: %q is not allowed", name)
	case len(name) > TopicNameMax:
		return Errorf(InvalidTopicException, "Topic name is invalid: the length of %q is longer than the max allowed length %d",
			name, TopicNameMax)
	}
	for i := range len(name) {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return Errorf(InvalidTopicException,
				"Topic name is invalid: %q contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

// IsInternal reports whether the name belongs to the broker's own topics.
func IsInternal(name string) bool {
	return name == ConsumerOffsetsTopic || name == TransactionStateTopic
}

// CollisionKey is equal for two names that Kafka holds to collide: its metric
// names turn '.' into '_', so `a.b` and `a_b` may not live side by side.
func CollisionKey(name string) string {
	key := []byte(name)
	for i, c := range key {
		if c == '.' {
			key[i] = '_'
		}
	}
	return string(key)
}

// UnknownTopicError is the error for a topic that is not there.
func UnknownTopicError(name string) error {
	return Errorf(UnknownTopicOrPartition, "Topic '%s' does not exist.", name)
}
