package config

func brokerGroupKeys() []Key {
	const most = "2147483647"
	return []Key{
		Key{Name: "group.consumer.assignors", Type: List, Default: "uniform,range", Fixed: true,
			Doc: "Assignors of groups of the newer protocol (KIP-848); the first is the default."}.with(someOf("uniform", "range")),
		Key{Name: "group.consumer.heartbeat.interval.ms", Type: Int, Default: "5000",
			Doc: "How often, in ms, members of the newer protocol are told to send heartbeats."}.with(atLeast(1)),
		Key{Name: "group.consumer.max.heartbeat.interval.ms", Type: Int, Default: "15000", Fixed: true,
			Doc: "Longest heartbeat interval in ms that a group may set."}.with(atLeast(1)),
		Key{Name: "group.consumer.max.session.timeout.ms", Type: Int, Default: "60000", Fixed: true,
			Doc: "Longest session timeout in ms that a group of the newer protocol may set."}.with(atLeast(1)),
		Key{Name: "group.consumer.max.size", Type: Int, Default: most, Fixed: true,
			Doc: "Most members of a group of the newer protocol."}.with(atLeast(1)),
		Key{Name: "group.consumer.migration.policy", Type: String, Default: "bidirectional", Fixed: true,
			Doc: "Whether groups may move between the older and the newer protocol while they live."}.with(oneOfFold("DISABLED", "DOWNGRADE",
			"UPGRADE", "BIDIRECTIONAL")),
		Key{Name: "group.consumer.min.heartbeat.interval.ms", Type: Int, Default: "5000", Fixed: true,
			Doc: "Shortest heartbeat interval in ms that a group may set."}.with(atLeast(1)),
		Key{Name: "group.consumer.min.session.timeout.ms", Type: Int, Default: "45000", Fixed: true,
			Doc: "Shortest session timeout in ms that a group of the newer protocol may set."}.with(atLeast(1)),
		Key{Name: "group.consumer.regex.refresh.interval.ms", Type: Int, Default: "600000", Fixed: true,
			Doc: "How often, in ms, subscriptions by pattern are matched with new topics at the latest."}.with(atLeast(10000)),
		Key{Name: "group.consumer.session.timeout.ms", Type: Int, Default: "45000",
			Doc: "Time in ms without heartbeat after which a member of the newer protocol is taken for dead."}.with(atLeast(1)),
		Key{Name: "group.coordinator.rebalance.protocols", Type: List, Default: "classic,consumer", Fixed: true,
			Doc: "Group protocols that are offered. Kafka's default also has streams."}.with(someOf("classic", "consumer")),
		{Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000", Fixed: true,
			Doc: "How long, in ms, a new group of the older protocol waits for more members."},
		{Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000", Fixed: true,
			Doc: "Longest session timeout in ms that a member of the older protocol may ask for."},
		Key{Name: "group.max.size", Type: Int, Default: most, Fixed: true,
			Doc: "Most members of a group of the older protocol."}.with(atLeast(1)),
		{Name: "group.min.session.timeout.ms", Type: Int, Default: "6000", Fixed: true,
			Doc: "Shortest session timeout in ms that a member of the older protocol may ask for."},
	}
}

func brokerOffsetsKeys() []Key {
	return []Key{
		{Name: "offset.metadata.max.bytes", Type: Int, Default: "4096", Fixed: true,
			Doc: "Most bytes of text that a group may store beside a committed offset."},
		Key{Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", Fixed: true,
			Doc: "How long, in ms, an offset commit may wait to be synced."}.with(atLeast(1)),
		Key{Name: "offsets.load.buffer.size", Type: Int, Default: "5242880", Fixed: true,
			Doc: "Bytes read at a time when committed offsets are loaded at start."}.with(atLeast(1)),
		Key{Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", Fixed: true,
			Doc: "How often, in ms, expired offsets are looked for."}.with(atLeast(1)),
		Key{Name: "offsets.retention.minutes", Type: Int, Default: "10080", Fixed: true,
			Doc: "How long, in minutes, a group without members keeps its offsets."}.with(atLeast(1)),
		Key{Name: "offsets.topic.num.partitions", Type: Int, Default: "50", Fixed: true,
			Doc: "Partitions of the topic of committed offsets; counts when it is made."}.with(atLeast(1)),
		Key{Name: "offsets.topic.replication.factor", Type: Short, Default: "3", Fixed: true,
			Doc: "Accepted as Kafka's; without effect."}.with(atLeast(1)),
		Key{Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", Fixed: true,
			Doc: "Segment size in bytes of the topic of committed offsets."}.with(atLeast(1)),
	}
}

func brokerTransactionKeys() []Key {
	return []Key{
		Key{Name: "producer.id.expiration.check.interval.ms", Type: Int, Default: "600000", Fixed: true,
			Doc: "How often, in ms, forgotten producers are looked for."}.with(atLeast(1)),
		Key{Name: "producer.id.expiration.ms", Type: Int, Default: day,
			Doc: "How long, in ms, a partition remembers a producer that writes no more."}.with(atLeast(1)),
		Key{Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: Int, Default: "10000", Fixed: true,
			Doc: "How often, in ms, transactions past their time are looked for."}.with(atLeast(1)),
		Key{Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", Fixed: true,
			Doc: "Longest transaction.timeout.ms that a producer may ask for."}.with(atLeast(1)),
		{Name: "transaction.partition.verification.enable", Type: Bool, Default: "true",
			Doc: "Accepted as Kafka's. A transactional batch is always checked with the coordinator, whatever stands here."},
		Key{Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: Int, Default: "3600000", Fixed: true,
			Doc: "How often, in ms, expired transactional ids are looked for."}.with(atLeast(1)),
		Key{Name: "transaction.state.log.load.buffer.size", Type: Int, Default: "5242880", Fixed: true,
			Doc: "Bytes read at a time when transactions are loaded at start."}.with(atLeast(1)),
		Key{Name: "transaction.state.log.min.isr", Type: Int, Default: "2", Fixed: true,
			Doc: "Accepted as Kafka's; without effect."}.with(atLeast(1)),
		Key{Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", Fixed: true,
			Doc: "Partitions of the topic of transactions; counts when it is made."}.with(atLeast(1)),
		Key{Name: "transaction.state.log.replication.factor", Type: Short, Default: "3", Fixed: true,
			Doc: "Accepted as Kafka's; without effect."}.with(atLeast(1)),
		Key{Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600", Fixed: true,
			Doc: "Segment size in bytes of the topic of transactions."}.with(atLeast(1)),
		Key{Name: "transactional.id.expiration.ms", Type: Int, Default: week, Fixed: true,
			Doc: "How long, in ms, an unused transactional id is remembered."}.with(atLeast(1)),
	}
}

func brokerSecurityKeys() []Key {
	return []Key{
		{Name: "allow.everyone.if.no.acl.found", Type: Bool, Default: "false", Fixed: true,
			Doc: "Whether a resource without any ACL is open to all, where an authorizer is on."},
		Key{Name: "authorizer.class.name", Type: String, Default: "", Fixed: true,
			Doc: "Empty: everybody may do everything. Kafka's StandardAuthorizer, by its class name, turns the ACLs on."}.with(oneOf("",
			StandardAuthorizer)),
		{Name: "sasl.enabled.mechanisms", Type: List, Default: "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			Check: someOf(saslMechanisms...).check, Allowed: someOf(saslMechanisms...).words,
			Doc: "SASL mechanisms offered to clients. Kafka's default is GSSAPI alone, which is not offered here."},
		{Name: "sasl.jaas.config", Type: Password, Unset: true,
			Doc: "Users of the PLAIN mechanism, as user_NAME=\"password\" options of PlainLoginModule. It may stand as " +
				"listener.name.NAME.plain.sasl.jaas.config too."},
		Key{Name: "sasl.oauthbearer.clock.skew.seconds", Type: Int, Default: "30", Fixed: true,
			Doc: "How far, in seconds, the clocks of the tokens' issuer and of this machine may differ."}.with(between(0, 86400)),
		{Name: "sasl.oauthbearer.expected.audience", Type: List, Unset: true, Fixed: true,
			Doc: "Audiences (aud) of which a token must name one. Unset: tokens with an audience are refused."},
		{Name: "sasl.oauthbearer.expected.issuer", Type: String, Unset: true, Fixed: true,
			Doc: "Issuer (iss) that a token must name. Unset: any whose key is in the JWKS."},
		Key{Name: "sasl.oauthbearer.jwks.endpoint.refresh.ms", Type: Long, Default: "3600000", Fixed: true,
			Doc: "How old, in ms, the keys that tokens are checked with may grow before they are fetched again. An unknown key id " +
				"fetches them at once."}.with(atLeast(1)),
		Key{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type: Long, Default: "10000", Fixed: true,
			Doc: "Longest wait in ms before the keys are fetched again after failures."}.with(atLeast(1)),
		Key{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type: Long, Default: "100", Fixed: true,
			Doc: "First wait in ms before the keys are fetched again after a failure; it doubles."}.with(atLeast(1)),
		{Name: "sasl.oauthbearer.jwks.endpoint.url", Type: String, Unset: true, Fixed: true, Check: checkJWKS,
			Allowed: "https://host/path, http://host/path or file:///path",
			Doc:     "Where the keys are that tokens of OAUTHBEARER are signed with, as a JSON Web Key Set."},
		Key{Name: "sasl.oauthbearer.scope.claim.name", Type: String, Default: "scope", Fixed: true,
			Doc: "Claim of a token that holds its scopes."}.with(notEmpty("a claim's name")),
		Key{Name: "sasl.oauthbearer.sub.claim.name", Type: String, Default: "sub", Fixed: true,
			Doc: "Claim of a token that names who logs in: the principal is User: and its text."}.with(notEmpty("a claim's name")),
		{Name: "sasl.server.max.receive.size", Type: Int, Default: "524288", Fixed: true, Doc: "Largest message of a login in bytes."},
		Key{Name: "ssl.client.auth", Type: String, Default: "none",
			Doc: "Whether clients of TLS listeners must, should or need not show a certificate."}.with(oneOf("required", "requested", "none")),
		{Name: "ssl.enabled.protocols", Type: List, Default: "TLSv1.2,TLSv1.3", Check: someOf("TLSv1.2", "TLSv1.3").check,
			Allowed: "a list of TLSv1.2, TLSv1.3",
			Doc:     "TLS versions that are spoken."},
		{Name: "ssl.key.password", Type: Password, Unset: true, Doc: "Password of the key, where it is encrypted and the store's is another."},
		{Name: "ssl.keystore.certificate.chain", Type: Password, Unset: true, Doc: "The broker's certificate and those above it, as PEM text."},
		{Name: "ssl.keystore.key", Type: Password, Unset: true, Doc: "The broker's private key, as PEM text."},
		{Name: "ssl.keystore.location", Type: String, Unset: true,
			Doc: "PEM, JKS or PKCS12 file with the broker's key and certificates, in place of the two above; read again when it changes."},
		{Name: "ssl.keystore.password", Type: Password, Unset: true, Doc: "Password of a JKS or PKCS12 key store."},
		Key{Name: "ssl.keystore.type", Type: String, Default: "JKS",
			Doc: "Format of the key store. The file itself tells which it is, whatever stands here."}.with(oneOf("JKS", "PKCS12", "PEM")),
		{Name: "ssl.principal.mapping.rules", Type: String, Default: "DEFAULT", Fixed: true,
			Doc: "How a certificate's name becomes a principal: DEFAULT, or RULE:pattern/replacement/[LU], comma separated."},
		{Name: "ssl.truststore.certificates", Type: Password, Unset: true,
			Doc: "Certificates of the authorities that clients' certificates are checked with, as PEM text."},
		{Name: "ssl.truststore.location", Type: String, Unset: true,
			Doc: "PEM, JKS or PKCS12 file with them, in place of the text; read again when it changes."},
		{Name: "ssl.truststore.password", Type: Password, Unset: true, Doc: "Password of a JKS or PKCS12 trust store."},
		Key{Name: "ssl.truststore.type", Type: String, Default: "JKS",
			Doc: "Format of the trust store. The file itself tells which it is, whatever stands here."}.with(oneOf("JKS", "PKCS12", "PEM")),
		{Name: "super.users", Type: String, Default: "", Fixed: true,
			Doc: "Principals that may do everything, as User:name, separated by semicolons."},
	}
}

// StandardAuthorizer is Kafka's name for an authorizer that keeps ACLs in the metadata; ours answers to it.
const StandardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

var saslMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}

func brokerOwnKeys() []Key {
	return []Key{
		{Name: "hawser.audit.log", Type: String, Unset: true, Fixed: true,
			Doc: "File to which every order to links and mirrors is added as a line of JSON. Unset: audit.log in the data directory; empty: none."},
		{Name: "hawser.cluster.id", Type: String, Unset: true, Fixed: true, Check: checkClusterID, Allowed: "1 to 64 letters, digits, - and _",
			Doc: "Id of a cluster that is made anew. Unset draws one; for a cluster that exists it must be the same."},
		{Name: "hawser.http.advertised", Type: String, Unset: true, Fixed: true, Check: checkURL,
			Allowed: "http://host:port or https://host:port",
			Doc:     "Where tools find the HTTP port, told to them by the Kafka listener. Unset: from hawser.http.listener and the machine's name."},
		Key{Name: "hawser.http.authentication", Type: String, Default: "auto", Fixed: true,
			Doc: "Whether REST and the console ask for a login. auto: with an authorizer, who does not log in is User:ANONYMOUS and the " +
				"ACLs say what that may do; without one, everybody must log in as soon as any listener asks for a login (SASL, or " +
				"ssl.client.auth=required). " +
				"required: everybody must log in. none: nobody need. Health, metrics and the API's description never ask. Who logs in " +
				"without an authorizer may do everything, as at the listeners."}.with(oneOf("auto", "required", "none")),
		{Name: "hawser.http.listener", Type: String, Default: "127.0.0.1:8090", Fixed: true, Check: checkAddress, Allowed: "host:port, or empty",
			Doc: "Where REST, console, metrics and health answer. Port 0 is any free one; empty turns them off."},
		{Name: "hawser.http.profiles.enable", Type: Bool, Default: "false", Fixed: true,
			Doc: "Whether the HTTP port answers /debug/pprof/ with Go's profiles of this process, to whom the authorizer lets alter the " +
				"cluster, or to everyone where there is none."},
		Key{Name: "hawser.http.security.protocol", Type: String, Default: "PLAINTEXT", Fixed: true,
			Doc: "SSL makes the HTTP port speak HTTPS, with the ssl.* configs, or those that stand as listener.name.http.ssl.*. Who " +
				"shows a certificate (ssl.client.auth) needs no other login."}.with(oneOf("PLAINTEXT", "SSL")),
		Key{Name: "hawser.link.memory.bytes", Type: Long, Default: "268435456", Fixed: true,
			Doc: "Most bytes that all links together hold between their sources' sockets and the log. Each has an equal part, of 4194304 " +
				"bytes at the least."}.with(atLeast(16 << 20)),
		{Name: "hawser.link.token.files", Type: List, Default: "", Fixed: true,
			Doc: "Files, as file:///path, that a link's sasl.oauthbearer.token.endpoint.url may name. What is in them is sent to the " +
				"source, so no other file is read."},
		{Name: "hawser.metadata.endpoints", Type: List, Default: "", Fixed: true,
			Doc: "Addresses of an external etcd, as host:port. Empty: the one inside this process."},
		Key{Name: "hawser.metadata.compaction.interval.ms", Type: Long, Default: "300000", Fixed: true,
			Doc: "How much history, in ms, an external etcd keeps at the least; what is older is removed. 0 leaves it alone, for an etcd " +
				"that its operator compacts."}.with(atLeast(0)),
		{Name: "hawser.metadata.password", Type: Password, Unset: true, Fixed: true, Doc: "Password of hawser.metadata.username."},
		Key{Name: "hawser.metadata.security.protocol", Type: String, Default: "PLAINTEXT", Fixed: true,
			Doc: "Whether an external etcd is spoken to by TLS."}.with(oneOf("PLAINTEXT", "SSL")),
		{Name: "hawser.metadata.ssl.key.password", Type: Password, Unset: true, Fixed: true,
			Doc: "Password of the key, where it is encrypted and the store's is another."},
		{Name: "hawser.metadata.ssl.keystore.location", Type: String, Unset: true, Fixed: true,
			Doc: "PEM, JKS or PKCS12 file with the certificate and key that are shown to an external etcd."},
		{Name: "hawser.metadata.ssl.keystore.password", Type: Password, Unset: true, Fixed: true, Doc: "Password of that file."},
		{Name: "hawser.metadata.ssl.truststore.location", Type: String, Unset: true, Fixed: true,
			Doc: "PEM, JKS or PKCS12 file with the authorities of an external etcd. Unset: the system's."},
		{Name: "hawser.metadata.ssl.truststore.password", Type: Password, Unset: true, Fixed: true, Doc: "Password of that file."},
		{Name: "hawser.metadata.username", Type: String, Unset: true, Fixed: true,
			Doc: "User that logs in to an external etcd; it needs to read and write keys that begin with /hawser/."},
		Key{Name: "hawser.metadata.quota.bytes", Type: Long, Default: "8589934592", Fixed: true,
			Doc: "Most bytes of the embedded metadata store. At 70 % ordinary changes are refused, at 100 % all."}.with(atLeast(16 << 20)),
		{Name: "hawser.sasl.oauthbearer.unsecured.enable", Type: Bool, Default: "false", Fixed: true,
			Doc: "Whether OAUTHBEARER takes tokens without a signature too, which anybody can write. For trying things out alone. Kafka " +
				"takes them wherever no key set is configured."},
		Key{Name: "hawser.sync.bytes", Type: Long, Default: "33554432", Fixed: true,
			Doc: "Unsynced bytes of all partitions that start a sync at once."}.with(atLeast(1)),
		Key{Name: "hawser.sync.delay.ms", Type: Long, Default: "10", Fixed: true,
			Doc: "How long, in ms, mirrored bytes may wait for the shared sync. What producers write does not wait."}.with(between(0, 10000)),
		{Name: "hawser.sync.enable", Type: Bool, Default: "true", Fixed: true,
			Doc: "Whether records are synced to disk before anybody sees them. false is for comparisons alone: a power loss takes " +
				"acknowledged records."},
		Key{Name: "hawser.unsynced.max.bytes", Type: Long, Default: "67108864", Fixed: true,
			Doc: "Unsynced bytes of all partitions at which appends wait."}.with(atLeast(1 << 20)),
	}
}
