package config

import (
	"regexp"
	"strings"
)

// groupKeys are the group configs of Apache Kafka 4.1 (KIP-848, KIP-932, KIP-1071).
func groupKeys() []Key {
	const noShare, noStreams = "Kept as Kafka's; without effect: share groups are not offered.",
		"Kept as Kafka's; without effect: streams groups are not offered."
	return []Key{
		Key{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", BrokerKey: "group.consumer.heartbeat.interval.ms",
			Doc: "How often, in ms, members of the newer protocol are told to send heartbeats. Within the broker's group.consumer.min " +
				"and max."}.with(atLeast(1)),
		Key{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", BrokerKey: "group.consumer.session.timeout.ms",
			Doc: "Time in ms without heartbeat after which a member of the newer protocol is taken for dead. Within the broker's " +
				"group.consumer.min and max."}.with(atLeast(1)),
		Key{Name: "share.auto.offset.reset", Type: String, Default: "latest", Doc: noShare}.with(oneOf("latest", "earliest")),
		Key{Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Doc: noShare}.with(atLeast(1)),
		Key{Name: "share.isolation.level", Type: String, Default: "read_uncommitted",
			Doc: noShare}.with(oneOf("read_committed", "read_uncommitted")),
		Key{Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Doc: noShare}.with(atLeast(1000)),
		Key{Name: "share.session.timeout.ms", Type: Int, Default: "45000", Doc: noShare}.with(atLeast(1)),
		Key{Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Doc: noStreams}.with(atLeast(1)),
		Key{Name: "streams.num.standby.replicas", Type: Int, Default: "0", Doc: noStreams}.with(atLeast(0)),
		Key{Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Doc: noStreams}.with(atLeast(1)),
	}
}

func groupRules() []rule {
	return []rule{func(v Values) (string, string) {
		if v.Int("consumer.heartbeat.interval.ms") >= v.Int("consumer.session.timeout.ms") {
			return "consumer.heartbeat.interval.ms", "consumer.heartbeat.interval.ms must be less than consumer.session.timeout.ms"
		}
		return "", ""
	}}
}

// clientMetricsKeys are the configs of a client-metrics subscription (KIP-714).
func clientMetricsKeys() []Key {
	const none = " Kept as Kafka's; without effect: this broker asks no client for metrics."
	return []Key{
		Key{Name: "interval.ms", Type: Int, Default: "300000",
			Doc: "How often, in ms, clients would send metrics." + none}.with(between(100, 3600000)),
		{Name: "match", Type: List, Default: "", Check: checkMatch, Allowed: "name=expression, comma separated",
			Doc: "Which clients are meant." + none},
		{Name: "metrics", Type: List, Default: "", Doc: "Prefixes of the metrics' names." + none},
	}
}

// matched are the names that a client can be matched by.
var matched = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version",
	"client_source_address", "client_source_port"}

func checkMatch(text string) error {
	for _, item := range splitList(text) {
		name, expression, ok := strings.Cut(item, "=")
		known := false
		for _, one := range matched {
			known = known || one == strings.TrimSpace(name)
		}
		if _, err := regexp.Compile(expression); !ok || !known || err != nil {
			return errorf("Illegal client matching pattern: %s", item)
		}
	}
	return nil
}
