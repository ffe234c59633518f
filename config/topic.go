package config

import (
	"math"
	"strconv"
	"strings"
)

const (
	day    = "86400000"
	week   = "604800000"
	noEnd  = "9223372036854775807" // Kafka's way to say never
	noEndD = math.MaxInt64
)

// topicKeys are the topic configs of Apache Kafka 4.1.
func topicKeys() []Key {
	return idled(append(topicLogKeys(), topicOtherKeys()...))
}

func topicLogKeys() []Key {
	return []Key{
		Key{Name: "cleanup.policy", Type: List, Default: "delete", BrokerKey: "log.cleanup.policy",
			Doc: "What happens to old records: delete removes whole segments by age or size, compact keeps the newest record of each " +
				"key. Both may be named; an empty list keeps everything."}.with(someOf("compact", "delete")),
		Key{Name: "delete.retention.ms", Type: Long, Default: day, BrokerKey: "log.cleaner.delete.retention.ms",
			Doc: "How long a compacted topic keeps a tombstone, in ms, so that a consumer that began at the start still sees the deletion."}.
			with(atLeast(0)),
		Key{Name: "file.delete.delay.ms", Type: Long, Default: "60000", BrokerKey: "log.segment.delete.delay.ms",
			Doc: "How long a removed segment's files stay on disk, in ms, for readers that still hold them."}.with(atLeast(0)),
		Key{Name: "flush.messages", Type: Long, Default: noEnd, BrokerKey: "log.flush.interval.messages",
			Doc: "Accepted as Kafka's. The broker syncs every write before it shows it, so no number of records needs to be set here."}.
			with(atLeast(1)),
		Key{Name: "flush.ms", Type: Long, Default: noEnd, BrokerKey: "log.flush.interval.ms",
			Doc: "Accepted as Kafka's. The broker syncs every write before it shows it, so no time in ms needs to be set here."}.with(atLeast(0)),
		Key{Name: "index.interval.bytes", Type: Int, Default: "4096", BrokerKey: "log.index.interval.bytes",
			Doc: "Bytes of log between two entries of the offset index. Smaller makes the index larger and the search shorter."}.with(atLeast(0)),
		{Name: "internal.segment.bytes", Type: Int, Unset: true,
			Doc: "Segment size in bytes for tests, below what segment.bytes allows."},
		Key{Name: "max.compaction.lag.ms", Type: Long, Default: noEnd, BrokerKey: "log.cleaner.max.compaction.lag.ms",
			Doc: "How long a record of a compacted topic may stay uncompacted, in ms."}.with(atLeast(1)),
		Key{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", BrokerKey: "log.cleaner.min.cleanable.ratio",
			Doc: "Part of a log that must be uncompacted before the cleaner takes it."}.with(ratio()),
		Key{Name: "min.compaction.lag.ms", Type: Long, Default: "0", BrokerKey: "log.cleaner.min.compaction.lag.ms",
			Doc: "How long a record of a compacted topic is left alone, in ms."}.with(atLeast(0)),
		{Name: "preallocate", Type: Bool, Default: "false", BrokerKey: "log.preallocate",
			Doc: "Whether a new segment's file gets its whole size at once."},
		{Name: "retention.bytes", Type: Long, Default: "-1", BrokerKey: "log.retention.bytes",
			Doc: "Size in bytes above which a partition's oldest segments are removed under cleanup.policy delete; -1 is no limit. It " +
				"counts for each partition, not the topic."},
		Key{Name: "retention.ms", Type: Long, Default: week, BrokerKey: "log.retention.ms",
			Doc: "Age in ms after which records are removed under cleanup.policy delete, by the newest timestamp of their segment; -1 " +
				"keeps them for ever."}.with(atLeast(-1)),
		Key{Name: "segment.bytes", Type: Int, Default: "1073741824", BrokerKey: "log.segment.bytes",
			Doc: "Size of a segment file in bytes. Retention and compaction work on whole segments."}.with(atLeast(1 << 20)),
		Key{Name: "segment.index.bytes", Type: Int, Default: "10485760", BrokerKey: "log.index.size.max.bytes",
			Doc: "Largest size of a segment's offset index in bytes; a segment is rolled when it is full."}.with(atLeast(4)),
		Key{Name: "segment.jitter.ms", Type: Long, Default: "0", BrokerKey: "log.roll.jitter.ms",
			Doc: "Largest random time in ms taken off segment.ms, so that many segments are not rolled at once."}.with(atLeast(0)),
		Key{Name: "segment.ms", Type: Long, Default: week, BrokerKey: "log.roll.ms",
			Doc: "Age in ms at which a segment is rolled although it is not full."}.with(atLeast(1)),
	}
}

func topicOtherKeys() []Key {
	return []Key{
		Key{Name: "compression.gzip.level", Type: Int, Default: "-1", BrokerKey: "compression.gzip.level",
			Doc: "Level used where this topic's batches are compressed with gzip here; -1 is the codec's own."}.with(between(1, 9).orMinusOne()),
		Key{Name: "compression.lz4.level", Type: Int, Default: "9", BrokerKey: "compression.lz4.level",
			Doc: "Level used where this topic's batches are compressed with lz4 here."}.with(between(1, 17)),
		Key{Name: "compression.type", Type: String, Default: "producer", BrokerKey: "compression.type",
			Doc: "How batches are stored: as the producer compressed them, or compressed anew. Mirrored batches are never compressed anew."}.
			with(oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
		Key{Name: "compression.zstd.level", Type: Int, Default: "3", BrokerKey: "compression.zstd.level",
			Doc: "Level used where this topic's batches are compressed with zstd here."}.with(between(-131072, 22)),
		Key{Name: "follower.replication.throttled.replicas", Type: List, Default: "",
			Doc: "Accepted as Kafka's. Nothing is throttled: this cluster has no followers that copy from leaders."}.with(throttledReplicas()),
		Key{Name: "leader.replication.throttled.replicas", Type: List, Default: "",
			Doc: "Accepted as Kafka's. Nothing is throttled: this cluster has no followers that copy from leaders."}.with(throttledReplicas()),
		Key{Name: "local.retention.bytes", Type: Long, Default: "-2", BrokerKey: "log.local.retention.bytes",
			Doc: "Accepted as Kafka's tiered storage setting, in bytes; without effect here."}.with(atLeast(-2)),
		Key{Name: "local.retention.ms", Type: Long, Default: "-2", BrokerKey: "log.local.retention.ms",
			Doc: "Accepted as Kafka's tiered storage setting, in ms; without effect here."}.with(atLeast(-2)),
		Key{Name: "max.message.bytes", Type: Int, Default: "1048588", BrokerKey: "message.max.bytes",
			Doc: "Largest record batch taken from a producer, in bytes, after compression."}.with(atLeast(0)),
		Key{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", BrokerKey: "log.message.timestamp.after.max.ms",
			Doc: "How far, in ms, a record's timestamp may lie ahead of the broker's clock under CreateTime."}.with(atLeast(0)),
		Key{Name: "message.timestamp.before.max.ms", Type: Long, Default: noEnd, BrokerKey: "log.message.timestamp.before.max.ms",
			Doc: "How far, in ms, a record's timestamp may lie behind the broker's clock under CreateTime."}.with(atLeast(0)),
		Key{Name: "message.timestamp.type", Type: String, Default: "CreateTime", BrokerKey: "log.message.timestamp.type",
			Doc: "Whether a record keeps its producer's timestamp or gets the time of its append. Mirrored records keep the source's."}.
			with(oneOf("CreateTime", "LogAppendTime")),
		Key{Name: "min.insync.replicas", Type: Int, Default: "1", BrokerKey: "min.insync.replicas",
			Doc: "Accepted as Kafka's. A write with acks=all is answered when it is synced, whatever stands here."}.with(atLeast(1)),
		{Name: "remote.log.copy.disable", Type: Bool, Default: "false",
			Doc: "Accepted as Kafka's tiered storage setting; without effect here."},
		{Name: "remote.log.delete.on.disable", Type: Bool, Default: "false",
			Doc: "Accepted as Kafka's tiered storage setting; without effect here."},
		Key{Name: "remote.storage.enable", Type: Bool, Default: "false",
			Doc: "Tiered storage as in Kafka is not offered; only false is taken."}.with(oneOf("false")),
		{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", BrokerKey: "unclean.leader.election.enable",
			Doc: "Accepted as Kafka's. No leader that lacks acknowledged records is ever chosen, whatever stands here."},
	}
}

func topicRules() []rule {
	return []rule{func(v Values) (string, string) {
		low, high := v.Int("min.compaction.lag.ms"), v.Int("max.compaction.lag.ms")
		if low <= high {
			return "", ""
		}
		return "min.compaction.lag.ms", "conflict topic config setting min.compaction.lag.ms (" + strconv.FormatInt(low, 10) +
			") > max.compaction.lag.ms (" + strconv.FormatInt(high, 10) + ")"
	}}
}

// throttledReplicas are pairs of partition and broker, or * for all.
func throttledReplicas() allow {
	const words = "[partitionId]:[brokerId],[partitionId]:[brokerId],... or *"
	return allow{words, func(text string) error {
		if strings.TrimSpace(text) == "*" {
			return nil
		}
		for _, item := range splitList(text) {
			partition, broker, ok := strings.Cut(item, ":")
			if !ok || checkInteger(partition, 32, "int") != nil || checkInteger(broker, 32, "int") != nil {
				return errorf("Value must be %s", words)
			}
		}
		return nil
	}}
}

// Synonym is a broker key that gives a topic key its default, as Kafka orders them.
type Synonym struct {
	Name     string
	perValue int64 // what one of the broker key's units is in the topic key's
}

// coarser lists the broker keys of coarser units that stand in where Key.BrokerKey is not set.
var coarser = map[string][]Synonym{
	"retention.ms":      {{"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}},
	"segment.ms":        {{"log.roll.hours", 3_600_000}},
	"segment.jitter.ms": {{"log.roll.jitter.hours", 3_600_000}},
	"flush.ms":          {{"log.flush.scheduler.interval.ms", 1}},
}

// Synonyms lists the broker keys that give a topic key its default, first come first served.
func Synonyms(topicKey string) []Synonym {
	k, ok := Topic.Key(topicKey)
	if !ok || k.BrokerKey == "" {
		return nil
	}
	return append([]Synonym{{k.BrokerKey, 1}}, coarser[topicKey]...)
}

// TopicDefaults are the defaults of topics that follow from what is set on a
// broker: the layer that comes after a topic's own configs. What was set must
// have passed Broker.Check. Topic keys whose broker keys are not set are not in it.
func TopicDefaults(broker ...map[string]string) map[string]string {
	defaults := map[string]string{}
	for _, k := range Topic.keys {
		if value, ok := TopicDefault(k.Name, broker...); ok {
			defaults[k.Name] = value
		}
	}
	return defaults
}

// TopicDefault is what TopicDefaults has for one key, and whether it has it.
func TopicDefault(topicKey string, broker ...map[string]string) (string, bool) {
	for _, s := range Synonyms(topicKey) {
		for _, layer := range broker {
			value, ok := layer[s.Name]
			if !ok {
				continue
			}
			if s.perValue == 1 {
				return value, true
			}
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			switch {
			case err != nil:
				continue
			case n < 0:
				return "-1", true
			case n > noEndD/s.perValue:
				return noEnd, true
			}
			return strconv.FormatInt(n*s.perValue, 10), true
		}
	}
	return "", false
}
