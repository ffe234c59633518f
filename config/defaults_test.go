package config

import "testing"

// TestLinkDefaults states what a link does that was told nothing.
func TestLinkDefaults(t *testing.T) {
	for name, want := range map[string]string{
		"auto.create.mirror.topics.enable":      "false",
		"auto.create.mirror.topics.filters":     "",
		"auto.create.mirror.topics.interval.ms": "300000",
		"consumer.offset.sync.enable":           "false",
		"consumer.offset.group.filters":         "",
		"consumer.group.prefix.enable":          "false",
		"acl.sync.enable":                       "false",
		"cluster.link.retry.timeout.ms":         "300000",
		"cluster.link.paused":                   "false",
		"mirror.start.offset.spec":              "earliest",
		"link.mode":                             "DESTINATION",
		"connection.mode":                       "OUTBOUND",
	} {
		key, is := Link.Key(name)
		if !is || key.Default != want {
			t.Errorf("%s is %q by default, want %q (known: %v)", name, key.Default, want, is)
		}
		if err := Link.CheckOne(name, "maybe"); want == "false" && err == nil {
			t.Errorf("%s is a boolean and takes maybe", name)
		}
	}
}
