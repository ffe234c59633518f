package config

import (
	"net"
	"strconv"
	"strings"
)

// brokerKeys are the broker configs of Apache Kafka 4.1 that mean something
// here, and our own, which begin with "hawser.".
func brokerKeys() []Key {
	var all []Key
	for _, group := range [][]Key{
		brokerServerKeys(), brokerSocketKeys(), brokerLogKeys(), brokerCleanerKeys(), brokerTopicKeys(),
		brokerGroupKeys(), brokerOffsetsKeys(), brokerTransactionKeys(), brokerSecurityKeys(), brokerQuotaKeys(), brokerOwnKeys(),
		brokerIdleKeys(),
	} {
		all = append(all, group...)
	}
	return idled(all)
}

func brokerServerKeys() []Key {
	return []Key{
		{Name: "advertised.listeners", Type: String, Unset: true, Fixed: true, Check: checkListeners,
			Allowed: "NAME://host:port, comma separated",
			Doc: "What clients are told to connect to, by listener name. Unset: the listeners themselves, with the machine's name " +
				"where they bind to all addresses."},
		{Name: "broker.rack", Type: String, Unset: true, Fixed: true,
			Doc: "Rack or zone of this broker, told to clients that fetch from the nearest."},
		{Name: "listener.security.protocol.map", Type: String, Fixed: true,
			Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", Check: checkProtocolMap,
			Allowed: "NAME:PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, comma separated",
			Doc:     "Which security protocol each listener name speaks."},
		{Name: "listeners", Type: String, Default: "PLAINTEXT://:9092", Fixed: true, Check: checkListeners,
			Allowed: "NAME://host:port, comma separated",
			Doc:     "Where the broker listens for Kafka clients. An empty host is every address; port 0 is any free one."},
		Key{Name: "log.dir", Type: String, Default: "hawser-data", Fixed: true,
			Doc: "Directory of all data, where log.dirs is not set."}.with(notEmpty("a directory")),
		{Name: "log.dirs", Type: String, Unset: true, Fixed: true,
			Doc: "Directory of all data. One is used; naming more is refused at start."},
		Key{Name: "node.id", Type: Int, Default: "1", Fixed: true,
			Doc: "Number of this broker in the cluster. Kafka has no default for it."}.with(atLeast(0)),
		Key{Name: "broker.id", Type: Int, Default: "-1", Fixed: true,
			Doc: "Older name of node.id; -1 is unset."}.with(atLeast(-1)),
	}
}

func brokerSocketKeys() []Key {
	return []Key{
		{Name: "connections.max.idle.ms", Type: Long, Default: "600000", Fixed: true,
			Doc: "Time in ms after which a connection without requests is closed."},
		Key{Name: "connection.failed.authentication.delay.ms", Type: Int, Default: "100", Fixed: true,
			Doc: "How long, in ms, the answer to a failed login is held back, against guessing."}.with(atLeast(0)),
		{Name: "connections.max.reauth.ms", Type: Long, Default: "0",
			Doc: "Longest time in ms that a SASL login is good for; 0 is for as long as the connection."},
		Key{Name: "max.connections", Type: Int, Default: "2147483647",
			Doc: "Most connections at a time; more are closed as they come."}.with(atLeast(0)),
		Key{Name: "max.connections.per.ip", Type: Int, Default: "2147483647",
			Doc: "Most connections at a time from one address."}.with(atLeast(0)),
		{Name: "max.connections.per.ip.overrides", Type: String, Default: "", Check: checkOverrides, Allowed: "host:number, comma separated",
			Doc: "Exceptions from max.connections.per.ip."},
		Key{Name: "max.connection.creation.rate", Type: Int, Default: "2147483647",
			Doc: "Most new connections per second."}.with(atLeast(0)),
		{Name: "queued.max.request.bytes", Type: Long, Default: "-1", Fixed: true, Check: atLeast(1).orMinusOne().check,
			Allowed: atLeast(1).orMinusOne().words,
			Doc: "Most bytes of memory that requests in flight hold together beyond the first 64 KiB of each; further ones wait in " +
				"their sockets, 30 s at most. -1 is 536870912. It is at least socket.request.max.bytes."},
		Key{Name: "queued.max.requests", Type: Int, Default: "500", Fixed: true,
			Doc: "Most requests that wait to be handled; further ones stay in their sockets."}.with(atLeast(1)),
		Key{Name: "socket.listen.backlog.size", Type: Int, Default: "50", Fixed: true,
			Doc: "Connections that may wait to be accepted; the system has a limit of its own."}.with(atLeast(1)),
		{Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400", Fixed: true,
			Doc: "Receive buffer of a client's socket in bytes; -1 is the system's, which grows by itself."},
		{Name: "socket.send.buffer.bytes", Type: Int, Default: "102400", Fixed: true,
			Doc: "Send buffer of a client's socket in bytes; -1 is the system's, which grows by itself."},
		Key{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Fixed: true,
			Doc: "Largest request in bytes; a connection that announces more is closed."}.with(atLeast(1)),
		Key{Name: "fetch.max.bytes", Type: Int, Default: "57671680", Fixed: true,
			Doc: "Most bytes in one answer to a fetch, whatever the consumer asks; a first batch that is larger is sent all the same."}.
			with(atLeast(1024)),
		Key{Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Fixed: true,
			Doc: "Most incremental fetch sessions that are kept; 0 turns them off."}.with(atLeast(0)),
		Key{Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Fixed: true,
			Doc: "Most partitions in one answer of DescribeTopicPartitions."}.with(atLeast(1)),
	}
}

func brokerLogKeys() []Key {
	return []Key{
		Key{Name: "log.cleanup.policy", Type: List, Default: "delete",
			Doc: "Default of topics' cleanup.policy."}.with(someOf("compact", "delete")),
		Key{Name: "log.flush.interval.messages", Type: Long, Default: noEnd,
			Doc: "Default of topics' flush.messages, which has no effect."}.with(atLeast(1)),
		{Name: "log.flush.interval.ms", Type: Long, Unset: true, Doc: "Default of topics' flush.ms, which has no effect."},
		{Name: "log.flush.scheduler.interval.ms", Type: Long, Default: noEnd, Fixed: true, Doc: "Accepted as Kafka's; without effect."},
		Key{Name: "log.index.interval.bytes", Type: Int, Default: "4096", Doc: "Default of topics' index.interval.bytes."}.with(atLeast(0)),
		Key{Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Doc: "Default of topics' segment.index.bytes."}.with(atLeast(4)),
		Key{Name: "log.local.retention.bytes", Type: Long, Default: "-2",
			Doc: "Default of topics' local.retention.bytes, which has no effect."}.with(atLeast(-2)),
		Key{Name: "log.local.retention.ms", Type: Long, Default: "-2",
			Doc: "Default of topics' local.retention.ms, which has no effect."}.with(atLeast(-2)),
		Key{Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000",
			Doc: "Default of topics' message.timestamp.after.max.ms."}.with(atLeast(0)),
		Key{Name: "log.message.timestamp.before.max.ms", Type: Long, Default: noEnd,
			Doc: "Default of topics' message.timestamp.before.max.ms."}.with(atLeast(0)),
		Key{Name: "log.message.timestamp.type", Type: String, Default: "CreateTime",
			Doc: "Default of topics' message.timestamp.type."}.with(oneOf("CreateTime", "LogAppendTime")),
		{Name: "log.preallocate", Type: Bool, Default: "false", Doc: "Default of topics' preallocate."},
		{Name: "log.retention.bytes", Type: Long, Default: "-1", Doc: "Default of topics' retention.bytes."},
		Key{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Fixed: true,
			Doc: "How often, in ms, logs are looked through for segments to remove."}.with(atLeast(1)),
		{Name: "log.retention.hours", Type: Int, Default: "168", Fixed: true,
			Doc: "Default of topics' retention.ms, in hours, where neither log.retention.ms nor log.retention.minutes is set."},
		{Name: "log.retention.minutes", Type: Int, Unset: true, Fixed: true,
			Doc: "Default of topics' retention.ms, in minutes, where log.retention.ms is not set."},
		{Name: "log.retention.ms", Type: Long, Unset: true, Doc: "Default of topics' retention.ms; -1 keeps records for ever."},
		Key{Name: "log.roll.hours", Type: Int, Default: "168", Fixed: true,
			Doc: "Default of topics' segment.ms, in hours, where log.roll.ms is not set."}.with(atLeast(1)),
		Key{Name: "log.roll.jitter.hours", Type: Int, Default: "0", Fixed: true,
			Doc: "Default of topics' segment.jitter.ms, in hours, where log.roll.jitter.ms is not set."}.with(atLeast(0)),
		{Name: "log.roll.jitter.ms", Type: Long, Unset: true, Doc: "Default of topics' segment.jitter.ms."},
		{Name: "log.roll.ms", Type: Long, Unset: true, Doc: "Default of topics' segment.ms."},
		Key{Name: "log.segment.bytes", Type: Int, Default: "1073741824", Doc: "Default of topics' segment.bytes."}.with(atLeast(1 << 20)),
		Key{Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Doc: "Default of topics' file.delete.delay.ms."}.with(atLeast(0)),
		Key{Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2",
			Doc: "How many logs are recovered at a time after a crash."}.with(atLeast(1)),
	}
}

func brokerCleanerKeys() []Key {
	return []Key{
		Key{Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000",
			Doc: "How long, in ms, the cleaner waits when there is nothing to compact."}.with(atLeast(0)),
		Key{Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728",
			Doc: "Bytes of memory for the keys of the log that is being compacted."}.with(atLeast(1 << 20)),
		Key{Name: "log.cleaner.delete.retention.ms", Type: Long, Default: day, Doc: "Default of topics' delete.retention.ms."}.with(atLeast(0)),
		{Name: "log.cleaner.enable", Type: Bool, Default: "true", Fixed: true, Doc: "Whether logs are compacted at all."},
		{Name: "log.cleaner.io.max.bytes.per.second", Type: Double, Default: "1.7976931348623157E308",
			Doc: "Most bytes per second that the cleaner reads and writes."},
		Key{Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: noEnd,
			Doc: "Default of topics' max.compaction.lag.ms."}.with(atLeast(1)),
		Key{Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5",
			Doc: "Default of topics' min.cleanable.dirty.ratio."}.with(ratio()),
		Key{Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0",
			Doc: "Default of topics' min.compaction.lag.ms."}.with(atLeast(0)),
		Key{Name: "log.cleaner.threads", Type: Int, Default: "1",
			Doc: "0 pauses compaction. One log is compacted at a time, whatever larger number stands here."}.with(atLeast(0)),
	}
}

func brokerTopicKeys() []Key {
	return []Key{
		{Name: "auto.create.topics.enable", Type: Bool, Default: "true", Fixed: true,
			Doc: "Whether a topic is created when a client first asks for it and wishes so."},
		Key{Name: "compression.gzip.level", Type: Int, Default: "-1",
			Doc: "Default of topics' compression.gzip.level."}.with(between(1, 9).orMinusOne()),
		Key{Name: "compression.lz4.level", Type: Int, Default: "9", Doc: "Default of topics' compression.lz4.level."}.with(between(1, 17)),
		Key{Name: "compression.type", Type: String, Default: "producer",
			Doc: "Default of topics' compression.type."}.with(oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
		Key{Name: "compression.zstd.level", Type: Int, Default: "3",
			Doc: "Default of topics' compression.zstd.level."}.with(between(-131072, 22)),
		{Name: "default.replication.factor", Type: Int, Default: "1", Fixed: true,
			Doc: "Replication factor told of topics created without one. It changes nothing in how records are kept."},
		{Name: "delete.topic.enable", Type: Bool, Default: "true", Fixed: true, Doc: "Whether topics can be deleted."},
		Key{Name: "message.max.bytes", Type: Int, Default: "1048588", Doc: "Default of topics' max.message.bytes."}.with(atLeast(0)),
		Key{Name: "min.insync.replicas", Type: Int, Default: "1",
			Doc: "Default of topics' min.insync.replicas, which has no effect."}.with(atLeast(1)),
		Key{Name: "num.partitions", Type: Int, Default: "1", Fixed: true, Doc: "Partitions of topics created without a number."}.with(atLeast(1)),
		{Name: "unclean.leader.election.enable", Type: Bool, Default: "false",
			Doc: "Default of topics' unclean.leader.election.enable, which has no effect."},
	}
}

func brokerRules() []rule {
	pair := func(low, high string) rule {
		return func(v Values) (string, string) {
			if v.Int(low) <= v.Int(high) {
				return "", ""
			}
			return low, low + " (" + v.Text(low) + ") must not be more than " + high + " (" + v.Text(high) + ")"
		}
	}
	return []rule{
		pair("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
		pair("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
		pair("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
		pair("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
		pair("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
		pair("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
		pair("hawser.sync.bytes", "hawser.unsynced.max.bytes"),
		listenersAgree,
	}
}

// Listener is one place to listen at, or to be told to clients.
type Listener struct {
	Name string // upper case
	Host string // "" is every address
	Port int
}

// Address is host:port.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// ParseListeners reads listeners and advertised.listeners: NAME://host:port, comma separated.
func ParseListeners(text string) ([]Listener, error) {
	var all []Listener
	seen := map[string]bool{}
	for _, item := range splitList(text) {
		name, address, ok := strings.Cut(item, "://")
		host, portText, err := net.SplitHostPort(address)
		port, errPort := strconv.ParseUint(portText, 10, 16)
		if !ok || name == "" || err != nil || errPort != nil {
			return nil, errorf("%q is no listener: want NAME://host:port", item)
		}
		name = strings.ToUpper(name)
		if seen[name] {
			return nil, errorf("listener %s is named twice", name)
		}
		seen[name] = true
		all = append(all, Listener{name, host, int(port)})
	}
	if len(all) == 0 {
		return nil, errorf("want at least one NAME://host:port")
	}
	return all, nil
}

func checkListeners(text string) error {
	_, err := ParseListeners(text)
	return err
}

// ParseProtocolMap reads listener.security.protocol.map: which protocol each listener name speaks.
func ParseProtocolMap(text string) (map[string]string, error) {
	protocols := map[string]string{}
	for _, item := range splitList(text) {
		name, protocol, ok := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || name == "" {
			return nil, errorf("%q is no pair: want NAME:PROTOCOL", item)
		}
		if err := securityProtocols().check(protocol); err != nil {
			return nil, errorf("listener %s: %w", name, err)
		}
		protocols[name] = protocol
	}
	return protocols, nil
}

func checkProtocolMap(text string) error {
	_, err := ParseProtocolMap(text)
	return err
}

func listenersAgree(v Values) (string, string) {
	protocols, err := ParseProtocolMap(v.Text("listener.security.protocol.map"))
	if err != nil {
		return "listener.security.protocol.map", err.Error()
	}
	listeners, err := ParseListeners(v.Text("listeners"))
	if err != nil {
		return "listeners", err.Error()
	}
	known := map[string]bool{}
	for _, l := range listeners {
		known[l.Name] = true
		if protocols[l.Name] == "" {
			return "listeners", "listener " + l.Name + " has no entry in listener.security.protocol.map"
		}
	}
	if !v.Set("advertised.listeners") {
		return "", ""
	}
	advertised, err := ParseListeners(v.Text("advertised.listeners"))
	if err != nil {
		return "advertised.listeners", err.Error()
	}
	for _, l := range advertised {
		if !known[l.Name] {
			return "advertised.listeners", "advertised listener " + l.Name + " is not among listeners"
		}
		if l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::" {
			return "advertised.listeners", "advertised listener " + l.Name + " needs a host that clients can reach"
		}
	}
	return "", ""
}

func checkOverrides(text string) error {
	for _, item := range splitList(text) {
		host, n, err := net.SplitHostPort(item)
		if err != nil || host == "" || checkInteger(n, 32, "int") != nil {
			return errorf("%q is no pair: want host:number", item)
		}
	}
	return nil
}
