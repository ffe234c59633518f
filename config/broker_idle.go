package config

// Why keys have no effect. They end the documentation of each.
const (
	noThreads     = "Accepted as Kafka's; without effect: the work runs on as many processors as there are."
	noFollowers   = "Accepted as Kafka's; without effect: no broker copies from another here."
	noTiers       = "Accepted as Kafka's tiered storage setting; without effect: there is none."
	noSuchBuffer  = "Accepted as Kafka's; without effect: the cleaner takes what it needs for a batch."
	noSuchTimer   = "Accepted as Kafka's; without effect: it is done when it is due."
	noSocketWords = "Accepted as Kafka's; without effect: sockets have the system's buffers, which grow by themselves."
)

// brokerIdleKeys are keys that Kafka lets be changed while it runs, and tools change, and that have nothing to act on here.
func brokerIdleKeys() []Key {
	idle := func(name string, t Type, value, doc string, a allow) Key {
		return Key{Name: name, Type: t, Default: value, Idle: true, Doc: doc}.with(a)
	}
	keys := []Key{
		idle("background.threads", Int, "10", noThreads, atLeast(1)),
		idle("log.cleaner.io.buffer.load.factor", Double, "0.9", noSuchBuffer, ratio()),
		idle("log.cleaner.io.buffer.size", Int, "524288", noSuchBuffer, atLeast(0)),
		idle("num.io.threads", Int, "8", noThreads, atLeast(1)),
		idle("num.network.threads", Int, "3", noThreads, atLeast(1)),
		idle("num.replica.fetchers", Int, "1", noFollowers, atLeast(1)),
		idle("remote.fetch.max.wait.ms", Int, "500", noTiers, atLeast(1)),
		idle("remote.list.offsets.request.timeout.ms", Long, "30000", noTiers, atLeast(1)),
		idle("remote.log.index.file.cache.total.size.bytes", Long, "1073741824", noTiers, atLeast(1)),
		idle("remote.log.manager.copier.thread.pool.size", Int, "10", noTiers, atLeast(1)),
		idle("remote.log.manager.copy.max.bytes.per.second", Long, noEnd, noTiers, atLeast(1)),
		idle("remote.log.manager.expiration.thread.pool.size", Int, "10", noTiers, atLeast(1)),
		idle("remote.log.manager.fetch.max.bytes.per.second", Long, noEnd, noTiers, atLeast(1)),
		idle("remote.log.reader.threads", Int, "10", noTiers, atLeast(1)),
	}
	return keys
}

// idleDocs are the keys of the other tables that have no effect, with what to say of them in place of what Kafka's does.
var idleDocs = map[string]string{
	"compression.gzip.level": "Accepted as Kafka's; without effect: where batches are " +
		"compressed anew it is at the codec's own level.",
	"compression.lz4.level": "Accepted as Kafka's; without effect: where batches are " +
		"compressed anew it is at the codec's own level.",
	"compression.zstd.level": "Accepted as Kafka's; without effect: where batches are " +
		"compressed anew it is at the codec's own level.",
	"file.delete.delay.ms": "Accepted as Kafka's; without effect: a removed segment's file " +
		"is gone at once for new readers, and those that have it open read on.",
	"group.consumer.assignors": "Accepted as Kafka's; without effect: uniform and range are " +
		"offered, uniform is the default.",
	"group.consumer.regex.refresh.interval.ms": "Accepted as Kafka's; without effect: subscriptions by pattern " +
		"are matched when a topic is made.",
	"log.flush.interval.messages": "Default of topics' flush.messages; without effect: every write " +
		"is synced before it is shown.",
	"log.flush.interval.ms": "Default of topics' flush.ms; without effect: every write is " +
		"synced before it is shown.",
	"log.flush.scheduler.interval.ms": "Accepted as Kafka's; without effect: every write is synced " +
		"before it is shown.",
	"log.index.size.max.bytes": "Default of topics' segment.index.bytes; without effect.",
	"log.local.retention.bytes": "Default of topics' local.retention.bytes; without effect: " +
		"there is no tiered storage.",
	"log.local.retention.ms": "Default of topics' local.retention.ms; without effect: there " +
		"is no tiered storage.",
	"log.preallocate":             "Default of topics' preallocate; without effect.",
	"log.roll.jitter.hours":       "Default of topics' segment.jitter.ms, in hours; without effect.",
	"log.roll.jitter.ms":          "Default of topics' segment.jitter.ms; without effect.",
	"log.segment.delete.delay.ms": "Default of topics' file.delete.delay.ms; without effect.",
	"min.insync.replicas": "Accepted as Kafka's; without effect: a write with acks=all is " +
		"answered when it is synced.",
	"num.recovery.threads.per.data.dir": noThreads,
	"offsets.commit.timeout.ms": "Accepted as Kafka's; without effect: a commit is answered when " +
		"it is synced.",
	"offsets.load.buffer.size":            noSuchBuffer,
	"offsets.retention.check.interval.ms": noSuchTimer,
	"offsets.topic.replication.factor":    noFollowers,
	"offsets.topic.segment.bytes": "Accepted as Kafka's; without effect: the topic has the segment " +
		"size of others.",
	"preallocate": "Accepted as Kafka's; without effect: files grow as records come.",
	"producer.id.expiration.check.interval.ms": noSuchTimer,
	"producer.id.expiration.ms": "Accepted as Kafka's; without effect: a partition forgets no " +
		"producer before it knows 65536, then those that wrote nothing for a day and the idlest.",
	"queued.max.requests": "Accepted as Kafka's; without effect: queued.max.request.bytes " +
		"bounds what waits.",
	"segment.index.bytes": "Accepted as Kafka's; without effect: an index grows with its " +
		"segment, by an entry for each index.interval.bytes.",
	"segment.jitter.ms": "Accepted as Kafka's; without effect: segments roll by each " +
		"partition's own first record.",
	"socket.listen.backlog.size":  "Accepted as Kafka's; without effect: the system's own limit counts.",
	"socket.receive.buffer.bytes": noSocketWords,
	"socket.send.buffer.bytes":    noSocketWords,
	"ssl.keystore.type": "Accepted as Kafka's; without effect: the file itself tells " +
		"whether it is JKS, PKCS12 or PEM.",
	"ssl.truststore.type": "Accepted as Kafka's; without effect: the file itself tells " +
		"whether it is JKS, PKCS12 or PEM.",
	"transaction.partition.verification.enable": "Accepted as Kafka's; without effect: a transactional batch is " +
		"always checked with the coordinator.",
	"transaction.state.log.load.buffer.size":   noSuchBuffer,
	"transaction.state.log.min.isr":            noFollowers,
	"transaction.state.log.replication.factor": noFollowers,
	"transaction.state.log.segment.bytes": "Accepted as Kafka's; without effect: the topic has the segment " +
		"size of others.",
	"unclean.leader.election.enable": "Accepted as Kafka's; without effect: no leader that lacks " +
		"acknowledged records is ever chosen.",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": noSuchTimer,
	"transaction.remove.expired.transaction.cleanup.interval.ms":  noSuchTimer,
	"flush.messages": "Accepted as Kafka's; without effect: every write is synced before it is shown.",
	"flush.ms":       "Accepted as Kafka's; without effect: every write is synced before it is shown.",
	"follower.replication.throttled.replicas": noFollowers,
	"leader.replication.throttled.replicas":   noFollowers,
	"local.retention.bytes":                   noTiers,
	"local.retention.ms":                      noTiers,
	"remote.log.copy.disable":                 noTiers,
	"remote.log.delete.on.disable":            noTiers,
}

// idled says of keys that have no effect that they have none.
func idled(keys []Key) []Key {
	for i := range keys {
		if doc, ok := idleDocs[keys[i].Name]; ok {
			keys[i].Idle, keys[i].Doc = true, doc
		}
	}
	return keys
}
