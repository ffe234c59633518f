package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hawserio/hawser/link/plan"
)

// The values of link.mode and connection.mode.
const (
	ModeDestination   = "DESTINATION"
	ModeSource        = "SOURCE"
	ModeBidirectional = "BIDIRECTIONAL"
	Outbound          = "OUTBOUND"
	Inbound           = "INBOUND"
)

func linkKeys() []Key {
	var all []Key
	for _, group := range [][]Key{
		linkIdentityKeys(), linkTaskKeys(), linkAvailabilityKeys(), linkFetchKeys(),
		linkSecurityKeys(""), linkSecurityKeys("local."),
	} {
		all = append(all, group...)
	}
	return all
}

func linkIdentityKeys() []Key {
	return []Key{
		{Name: "bootstrap.address.map", Type: List, Default: "", Check: checkAddressMap,
			Allowed: "advertised:port=reachable:port, comma separated",
			Doc:     "Addresses to dial in place of those that the source advertises, where they cannot be reached from here."},
		{Name: "bootstrap.servers", Type: List, Unset: true, Check: checkBootstrap, Allowed: "host:port, comma separated",
			Doc: "Brokers of the other cluster to ask first. Required where this side dials, without effect where it does not."},
		Key{Name: "client.dns.lookup", Type: String, Default: "use_all_dns_ips",
			Doc: "Whether all addresses of a name are tried in turn, or bootstrap names are first resolved to their canonical ones."}.
			with(oneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
		{Name: "cluster.link.paused", Type: Bool, Default: "false",
			Doc: "Pauses the whole link: data, configs, offsets and ACLs."},
		{Name: "cluster.link.prefix", Type: String, Unset: true, Fixed: true, Check: checkPrefix, Allowed: "letters, digits, '.', '_' and '-'",
			Doc: "Put in front of the source topic's name as it is to make the mirror topic's. Nothing is added between."},
		Key{Name: "connection.mode", Type: String, Default: Outbound, Fixed: true,
			Doc: "Which side opens connections: OUTBOUND is this one, INBOUND the other."}.with(oneOf(Outbound, Inbound)),
		Key{Name: "link.mode", Type: String, Default: ModeDestination, Fixed: true,
			Doc: "What this side is: DESTINATION holds mirrors, SOURCE only dials for its other half, BIDIRECTIONAL may be both."}.
			with(oneOf(ModeDestination, ModeSource, ModeBidirectional)),
		{Name: "link.prefix", Type: String, Unset: true, Fixed: true, Check: checkPrefix, Allowed: "letters, digits, '.', '_' and '-'",
			Doc: "Another name of cluster.link.prefix, taken when a link is created."},
		{Name: "local.listener", Type: String, Unset: true,
			Doc: "Accepted for tools that set it beside local.* credentials; local.listener.name is what counts."},
		{Name: "local.listener.name", Type: String, Unset: true,
			Doc: "Listener of this cluster by which the other side asks, over connections that this one opens for it. Unset: the first " +
				"with local.security.protocol."},
		Key{Name: "remote.link.connection.mode", Type: String, Unset: true, Fixed: true,
			Doc: "Accepted for tools that say what the other half's connection.mode is; the other half itself says so, and that is what " +
				"counts."}.with(oneOf(Outbound, Inbound)),
		{Name: "reverse.connection.setup.timeout.ms", Type: Int, Default: "30000", Check: atLeast(1).check, Allowed: atLeast(1).words,
			Doc: "How long, in ms, a side that does not dial waits for a connection that the other one opens."},
	}
}

func linkTaskKeys() []Key {
	const hint = " Nothing is matched while it is empty."
	return []Key{
		{Name: "acl.filters", Type: String, Default: "", Check: checkACLFilters,
			Allowed: `{"aclFilters":[{"resourceFilter":{…},"accessFilter":{…}}]}`,
			Doc:     "Which ACLs of the source are copied, as JSON." + hint},
		{Name: "acl.sync.enable", Type: Bool, Default: "false",
			Doc: "Whether ACLs are copied. Turning it off clears acl.filters; copied ACLs stay."},
		Key{Name: "acl.sync.ms", Type: Int, Default: "5000", Doc: "How often ACLs are copied, in ms."}.with(atLeast(100)),
		{Name: "auto.create.mirror.topics.enable", Type: Bool, Default: "false",
			Doc: "Whether mirrors are made by themselves for source topics that the filters match. Turning it off clears the filters; " +
				"mirrors stay."},
		{Name: "auto.create.mirror.topics.filters", Type: String, Default: "", Check: checkTopicFilters,
			Allowed: `{"topicFilters":[{"name":…,"patternType":"LITERAL|PREFIXED","filterType":"INCLUDE|EXCLUDE"}]}`,
			Doc:     "Which source topics, by their names there, are mirrored by themselves, as JSON." + hint},
		Key{Name: "auto.create.mirror.topics.interval.ms", Type: Long, Default: "300000",
			Doc: "How often, in ms, new source topics are looked for; also at once when the filters change."}.with(atLeast(100)),
		{Name: "consumer.group.prefix.enable", Type: Bool, Default: "false",
			Doc: "Whether the link's prefix is put in front of the names of groups whose offsets are copied. Not on bidirectional links."},
		{Name: "consumer.offset.group.filters", Type: String, Default: "", Check: checkGroupFilters,
			Allowed: `{"groupFilters":[{"name":…,"patternType":"LITERAL|PREFIXED","filterType":"INCLUDE|EXCLUDE",` +
				`"topicTypes":["LOCAL_MIRROR","REMOTE_MIRROR"]}]}`,
			Doc: "Which groups' offsets are copied, as JSON." + hint},
		{Name: "consumer.offset.sync.enable", Type: Bool, Default: "false",
			Doc: "Whether committed offsets are copied. Turning it off clears the filters; copied offsets stay."},
		Key{Name: "consumer.offset.sync.ms", Type: Int, Default: "30000",
			Doc: "How often committed offsets are copied, in ms."}.with(atLeast(100)),
		{Name: "mirror.recopy.enable", Type: Bool, Default: "true",
			Doc: "Whether a mirror of a compacted topic that was away from its source's end for longer than delete.retention.ms is " +
				"copied again, beside what is there, so that keys go whose deletion it may have missed. Where not, or where the disk has no " +
				"room for it, such a mirror only shows DELETIONS_MAY_BE_MISSING."},
		{Name: "mirror.start.offset.spec", Type: String, Default: "earliest", Check: checkStartSpec,
			Allowed: "earliest, latest, or a time as 2024-05-01T12:00:00Z",
			Doc:     "Where mirrors made from now on begin in the source topic."},
		{Name: "topic.config.sync.include", Type: List, Default: strings.Join(append(plan.AlwaysSynced(), plan.DefaultSynced()...), ","),
			Check:   checkInclude,
			Allowed: "topic config names, among them " + strings.Join(plan.AlwaysSynced(), ", "),
			Doc: "Which topic configs follow the source on all mirrors of the link. Those of one cluster's machines (replicas, " +
				"tiering, schemas) are skipped."},
		Key{Name: "topic.config.sync.ms", Type: Int, Default: "5000",
			Doc: "How often topic configs are compared with the source, in ms."}.with(atLeast(100)),
	}
}

func linkAvailabilityKeys() []Key {
	return []Key{
		Key{Name: "availability.check.consecutive.failure.threshold", Type: Int, Default: "3",
			Doc: "Failed checks in a row after which the source counts as unavailable."}.with(atLeast(1)),
		Key{Name: "availability.check.ms", Type: Int, Default: "5000",
			Doc: "How often, in ms, it is checked that the source answers."}.with(atLeast(100)),
		Key{Name: "cluster.link.retry.timeout.ms", Type: Int, Default: "300000",
			Doc: "How long, in ms, a mirror whose topic is gone or forbidden is tried again before it is FAILED. What the network heals " +
				"is tried for ever."}.with(atLeast(0)),
		Key{Name: "reverse.transaction.grace.ms", Type: Int, Default: "10000",
			Doc: "How long, in ms, a source that is being reversed waits for open transactions before it aborts them."}.with(between(0, 900000)),
	}
}

func linkFetchKeys() []Key {
	bytes := atLeast(1)
	return []Key{
		Key{Name: "connections.max.idle.ms", Type: Long, Default: "600000",
			Doc: "Time in ms after which an unused connection to the source is closed; -1 is never."}.with(atLeast(-1)),
		Key{Name: "default.api.timeout.ms", Type: Int, Default: "60000",
			Doc: "How long, in ms, a question to the source may take with all its retries."}.with(atLeast(1)),
		Key{Name: "link.max.bytes.per.second", Type: Long, Default: "-1",
			Doc: "Most bytes of records per second that this link fetches, on each broker for all mirrors together; a second's worth may " +
				"come at once. Changes count at once. -1 is no limit."}.with(atLeast(1).orMinusOne()),
		Key{Name: "metadata.max.age.ms", Type: Long, Default: "10000",
			Doc: "How often, in ms, the source is asked for its topics, partitions and leaders; new partitions are found so."}.with(atLeast(100)),
		Key{Name: "num.cluster.link.fetchers", Type: Int, Default: "1",
			Doc: "Connections that fetch from each broker of the source."}.with(between(1, 64)),
		Key{Name: "reconnect.backoff.max.ms", Type: Long, Default: "1000",
			Doc: "Longest wait in ms before a broker of the source is dialled again."}.with(atLeast(1)),
		Key{Name: "reconnect.backoff.ms", Type: Long, Default: "50",
			Doc: "First wait in ms before a broker of the source is dialled again; it grows."}.with(atLeast(1)),
		Key{Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000",
			Doc: "Wait in ms before a partition is fetched again after an error."}.with(atLeast(1)),
		Key{Name: "replica.fetch.max.bytes", Type: Int, Default: "5242880",
			Doc: "Most bytes of one partition in an answer; a first batch that is larger comes all the same."}.with(bytes),
		Key{Name: "replica.fetch.min.bytes", Type: Int, Default: "1", Doc: "Bytes that the source waits for before it answers."}.with(bytes),
		Key{Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760",
			Doc: "Most bytes in one answer. On long lines the link asks for more within its memory."}.with(bytes),
		Key{Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500",
			Doc: "How long, in ms, the source holds a fetch that finds too little."}.with(atLeast(1)),
		Key{Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "-1",
			Doc: "Receive buffer of a fetch connection in bytes; -1 is the system's, which grows by itself."}.with(bytes.orMinusOne()),
		Key{Name: "replica.socket.timeout.ms", Type: Int, Default: "30000",
			Doc: "How long, in ms, a fetch may take beyond what the source may hold it."}.with(atLeast(1)),
		Key{Name: "request.timeout.ms", Type: Int, Default: "30000",
			Doc: "How long, in ms, one request to the source may take."}.with(atLeast(1)),
		Key{Name: "retry.backoff.max.ms", Type: Long, Default: "1000",
			Doc: "Longest wait in ms before a failed request is made again."}.with(atLeast(0)),
		Key{Name: "retry.backoff.ms", Type: Long, Default: "100",
			Doc: "First wait in ms before a failed request is made again; it grows."}.with(atLeast(0)),
		Key{Name: "socket.connection.setup.timeout.max.ms", Type: Long, Default: "30000",
			Doc: "Longest time in ms for a connection to come about, as it grows with failures."}.with(atLeast(1)),
		Key{Name: "socket.connection.setup.timeout.ms", Type: Long, Default: "10000",
			Doc: "First time in ms for a connection to come about."}.with(atLeast(1)),
	}
}

func securityProtocols() allow { return oneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL") }

// linkSecurityKeys are the security configs for the source, and with "local."
// those for this cluster, which the other side uses on a link that we dial for it.
func linkSecurityKeys(prefix string) []Key {
	whose := "the source cluster"
	if prefix != "" {
		whose = "this cluster, used by the other side over connections that this one opens"
	}
	keys := []Key{
		Key{Name: "sasl.mechanism", Type: String, Default: "GSSAPI",
			Doc: "SASL mechanism for " + whose + ". GSSAPI, the default as in Kafka, is not offered: name another with SASL."}.
			with(oneOf("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")),
		{Name: "sasl.jaas.config", Type: Password, Unset: true, Doc: "User and password for " + whose + ", as a Java client writes them."},
		{Name: "sasl.client.callback.handler.class", Type: Class, Unset: true, Doc: "Accepted for Java clients' configs; without effect."},
		{Name: "sasl.login.callback.handler.class", Type: Class, Unset: true, Doc: "Accepted for Java clients' configs; without effect."},
		{Name: "sasl.oauthbearer.client.credentials.client.id", Type: String, Unset: true,
			Doc: "Client id that tokens are asked for with. The older clientId in sasl.jaas.config is taken too."},
		{Name: "sasl.oauthbearer.client.credentials.client.secret", Type: Password, Unset: true,
			Doc: "The client's secret. The older clientSecret in sasl.jaas.config is taken too."},
		{Name: "sasl.oauthbearer.header.urlencode", Type: Bool, Default: "false",
			Doc: "Whether client id and secret are URL-encoded where they are sent."},
		{Name: "sasl.oauthbearer.scope", Type: String, Unset: true, Doc: "Scope that tokens are asked for with."},
		{Name: "sasl.oauthbearer.token.endpoint.url", Type: String, Unset: true, Check: checkJWKS,
			Allowed: "https://host/path, http://host/path or file:///path",
			Doc: "Where tokens for OAUTHBEARER are fetched, by client credentials; or a file that holds one, if the broker's " +
				"hawser.link.token.files names it."},
		Key{Name: "security.protocol", Type: String, Default: "PLAINTEXT", Doc: "Security protocol for " + whose + "."}.with(securityProtocols()),
		{Name: "ssl.cipher.suites", Type: List, Unset: true, Doc: "TLS 1.2 cipher suites to offer, by their IANA names. Unset: the secure ones."},
		Key{Name: "ssl.enabled.protocols", Type: List, Default: "TLSv1.2,TLSv1.3",
			Doc: "TLS versions to offer."}.with(someOf("TLSv1.2", "TLSv1.3")),
		Key{Name: "ssl.endpoint.identification.algorithm", Type: String, Default: "https",
			Doc: "https: the certificate must be for the host dialled. Empty: it need not."}.with(oneOf("https", "")),
		{Name: "ssl.key.password", Type: Password, Unset: true, Doc: "Password of the key, where it is encrypted and the store's is another."},
		{Name: "ssl.keystore.certificate.chain", Type: Password, Unset: true, Doc: "Own certificate and those above it, as PEM text."},
		{Name: "ssl.keystore.key", Type: Password, Unset: true, Doc: "Own private key, as PEM text."},
		{Name: "ssl.keystore.location", Type: String, Unset: true,
			Doc: "PEM, JKS or PKCS12 file with own key and certificates; read again when it changes. The path must be good on every broker."},
		{Name: "ssl.keystore.password", Type: Password, Unset: true, Doc: "Password of a JKS or PKCS12 key store."},
		Key{Name: "ssl.keystore.type", Type: String, Default: "JKS",
			Doc: "Format of the key store. The file itself tells which it is, whatever stands here."}.with(oneOf("JKS", "PKCS12", "PEM")),
		Key{Name: "ssl.protocol", Type: String, Default: "TLSv1.3", Doc: "Newest TLS version to use."}.with(oneOf("TLSv1.3", "TLSv1.2")),
		{Name: "ssl.truststore.certificates", Type: Password, Unset: true,
			Doc: "Certificates of the authorities to trust, as PEM text. Unset: the system's."},
		{Name: "ssl.truststore.location", Type: String, Unset: true,
			Doc: "PEM, JKS or PKCS12 file with them; read again when it changes. The path must be good on every broker."},
		{Name: "ssl.truststore.password", Type: Password, Unset: true, Doc: "Password of a JKS or PKCS12 trust store."},
		Key{Name: "ssl.truststore.type", Type: String, Default: "JKS",
			Doc: "Format of the trust store. The file itself tells which it is, whatever stands here."}.with(oneOf("JKS", "PKCS12", "PEM")),
	}
	for i := range keys {
		keys[i].Name = prefix + keys[i].Name
	}
	return keys
}

func linkRules() []rule {
	return []rule{
		func(v Values) (string, string) {
			if v.Text("link.mode") == ModeSource && v.Text("connection.mode") == Inbound {
				return "connection.mode", "connection.mode must be OUTBOUND where link.mode is SOURCE: the source half dials"
			}
			return "", ""
		},
		func(v Values) (string, string) {
			if v.Text("link.mode") == ModeBidirectional && v.Bool("consumer.group.prefix.enable") {
				return "consumer.group.prefix.enable",
					"consumer.group.prefix.enable cannot be true on a BIDIRECTIONAL link: groups would be prefixed anew at each turn"
			}
			return "", ""
		},
		func(v Values) (string, string) {
			a, b := v.Text("cluster.link.prefix"), v.Text("link.prefix")
			if a != "" && b != "" && a != b {
				return "link.prefix", "link.prefix is another name of cluster.link.prefix: give one of them, or the same value"
			}
			return "", ""
		},
		saslRule(""), saslRule("local."),
	}
}

func saslRule(prefix string) rule {
	return func(v Values) (string, string) {
		if !strings.HasPrefix(v.Text(prefix+"security.protocol"), "SASL_") {
			return "", ""
		}
		mechanism := prefix + "sasl.mechanism"
		switch name := v.Text(mechanism); {
		case name == "GSSAPI":
			return mechanism, mechanism + " GSSAPI is not offered: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM"
		case name == "OAUTHBEARER" && v.Text(prefix+"sasl.oauthbearer.token.endpoint.url") == "":
			key := prefix + "sasl.oauthbearer.token.endpoint.url"
			return key, key + " is needed with " + mechanism + " OAUTHBEARER"
		case name == "OAUTHBEARER", name == "AWS_MSK_IAM":
			return "", ""
		case v.Text(prefix+"sasl.jaas.config") == "":
			return prefix + "sasl.jaas.config", prefix + "sasl.jaas.config is needed with " + prefix + "security.protocol " +
				v.Text(prefix+"security.protocol")
		}
		return "", ""
	}
}

func checkPrefix(text string) error { return plan.CheckPrefix(text) }

func checkBootstrap(text string) error {
	list := splitList(text)
	if len(list) == 0 {
		return errorf("want at least one host:port")
	}
	for _, item := range list {
		if _, bare, ok := strings.Cut(item, "://"); ok {
			item = bare // some tools put the security protocol in front
		}
		if err := checkAddress(item); err != nil {
			return err
		}
	}
	return nil
}

func checkAddress(text string) error {
	if text == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errorf("%q is no address: want host:port", text)
	}
	return nil
}

// ParseAddressMap reads bootstrap.address.map.
func ParseAddressMap(text string) (map[string]string, error) {
	m := map[string]string{}
	for _, item := range splitList(text) {
		from, to, ok := strings.Cut(item, "=")
		if !ok || from == "" || to == "" || checkAddress(from) != nil || checkAddress(to) != nil {
			return nil, errorf("%q is no pair: want advertised:port=reachable:port", item)
		}
		m[from] = to
	}
	return m, nil
}

func checkAddressMap(text string) error {
	_, err := ParseAddressMap(text)
	return err
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errorf("want http://host:port or https://host:port")
	}
	return nil
}

// checkJWKS wants a URL that keys can be fetched from, or the file that holds them.
func checkJWKS(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Scheme == "file" && u.Path != "" {
		return nil
	}
	if err != nil || checkURL(text) != nil {
		return errorf("want https://host/path, http://host/path or file:///path")
	}
	return nil
}

var clusterID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkClusterID(text string) error {
	if !clusterID.MatchString(text) {
		return errorf("want 1 to 64 letters, digits, '-' and '_'")
	}
	return nil
}

// checkInclude wants the always-synced configs named, as the vendor's does, and finds typing errors.
func checkInclude(text string) error {
	const older = "message.timestamp.difference.max.ms"
	list := splitList(text)
	for _, name := range list {
		_, known := Topic.Key(name)
		if !known && name != older && name != "replication.factor" && !strings.HasPrefix(name, "confluent.") {
			return errorf("%s", Topic.unknown(name))
		}
	}
	for _, name := range plan.AlwaysSynced() {
		stood := slices.Contains(list, older) && strings.HasPrefix(name, "message.timestamp.") && name != "message.timestamp.type"
		if !stood && !slices.Contains(list, name) {
			return errorf("%s is always synced and must be in the list; also: %s", name, strings.Join(plan.AlwaysSynced(), ", "))
		}
	}
	return nil
}

// StartSpec is where a mirror begins.
type StartSpec struct {
	Latest bool
	At     time.Time // zero: not by time; with Latest false too: at the earliest offset
}

// ParseStartSpec reads mirror.start.offset.spec: earliest, latest, or an ISO
// 8601 time, which without a zone is UTC.
func ParseStartSpec(text string) (StartSpec, error) {
	switch text = strings.TrimSpace(text); text {
	case "earliest":
		return StartSpec{}, nil
	case "latest":
		return StartSpec{Latest: true}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return StartSpec{At: at}, nil
		}
	}
	return StartSpec{}, errorf("want earliest, latest, or a time as 2024-05-01T12:00:00Z")
}

func checkStartSpec(text string) error {
	_, err := ParseStartSpec(text)
	return err
}
