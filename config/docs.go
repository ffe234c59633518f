package config

import (
	"fmt"
	"strings"
)

// Markdown is the reference of all keys, from the tables.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Configuration\n\nGenerated from the tables in package `config`; do not edit. " +
		"Names, types and defaults are Apache Kafka 4.1's where Kafka has the key.\n" +
		"*Fixed* keys cannot be changed after the thing was created or the broker was started. *Sensitive* values are stored sealed " +
		"and never shown.\n" +
		"Keys *without effect* are taken and shown as Kafka's, so that its tools and files work; the broker says so in its log when " +
		"one is set.\n")
	for _, part := range []struct {
		title, intro string
		table        *Table
	}{
		{"Topics", "Set when a topic is created, or later with IncrementalAlterConfigs. What is not set follows the broker key named " +
			"under *broker key*.", Topic},
		{"Groups", "Set with IncrementalAlterConfigs on a group, which need not exist yet. What is not set follows the broker key. " +
			"Keys of share groups are taken as by an Apache Kafka 4.1 on which share groups are not turned on.", Group},
		{"Client metrics", "Set with IncrementalAlterConfigs on a subscription, stored and shown. As on an Apache Kafka without a " +
			"plug-in that collects them, clients are not offered to push metrics (API keys 71 and 72), so that no key has an effect.",
			ClientMetrics},
		{"Links", "Set when a cluster link is created, or later with `configs:alter`.", Link},
		{"Broker", "Set in the properties file that `hawser serve --config` reads, or with `--set key=value`. " +
			"Security keys may stand for one listener as `listener.name.NAME.KEY`. What is not *fixed* can be changed while the broker " +
			"runs, with IncrementalAlterConfigs or REST: security keys as Kafka's for one listener of one broker alone, and for new " +
			"connections. Kafka's own keys that mean nothing here are left out with a warning.", Broker},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.title, part.intro)
		for _, k := range part.table.keys {
			k.markdown(&b)
		}
	}
	return b.String()
}

func (k Key) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n\n", k.Name, k.Doc)
	facts := []string{k.Type.String()}
	switch {
	case k.Unset:
		facts = append(facts, "unset by default")
	case k.Default == "":
		facts = append(facts, "empty by default")
	default:
		facts = append(facts, "default `"+k.Default+"`")
	}
	if k.Allowed != "" {
		facts = append(facts, "allowed: "+strings.ReplaceAll(k.Allowed, "|", "\\|"))
	}
	if k.BrokerKey != "" {
		facts = append(facts, "broker key `"+k.BrokerKey+"`")
	}
	if k.Fixed {
		facts = append(facts, "*fixed*")
	}
	if k.Idle {
		facts = append(facts, "*without effect*")
	}
	if k.Sensitive {
		facts = append(facts, "*sensitive*")
	}
	fmt.Fprintf(b, "%s\n", strings.Join(facts, " · "))
}
