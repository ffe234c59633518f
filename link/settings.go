package link

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hawserio/hawser/auth/stores"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// Keys of link configs that this package decides by.
const (
	keyMode            = "link.mode"
	keyConnection      = "connection.mode"
	keyPrefix          = "cluster.link.prefix"
	keyPrefixAlias     = "link.prefix"
	keyPaused          = "cluster.link.paused"
	keyBootstrap       = "bootstrap.servers"
	keyLocalListener   = "local.listener.name"
	keySetupTimeout    = "reverse.connection.setup.timeout.ms"
	keyAddressMap      = "bootstrap.address.map"
	keyOffsetSync      = "consumer.offset.sync.enable"
	keyOffsetSyncMs    = "consumer.offset.sync.ms"
	keyGroupFilters    = "consumer.offset.group.filters"
	keyGroupPrefix     = "consumer.group.prefix.enable"
	keyACLSync         = "acl.sync.enable"
	keyACLSyncMs       = "acl.sync.ms"
	keyACLFilters      = "acl.filters"
	keyAutoCreate      = "auto.create.mirror.topics.enable"
	keyAutoCreateMs    = "auto.create.mirror.topics.interval.ms"
	keyTopicFilters    = "auto.create.mirror.topics.filters"
	keyConfigSyncMs    = "topic.config.sync.ms"
	keyConfigInclude   = "topic.config.sync.include"
	keyRecopy          = "mirror.recopy.enable"
	keyStartSpec       = "mirror.start.offset.spec"
	keyAvailabilityMs  = "availability.check.ms"
	keyAvailabilityMax = "availability.check.consecutive.failure.threshold"
	keyRetryTimeout    = "cluster.link.retry.timeout.ms"
	keyTurnGrace       = "reverse.transaction.grace.ms"
)

// Modes of a link.
const (
	modeDestination   = peer.Destination
	modeBidirectional = peer.Bidirectional
)

// settings is a link's configs, read.
type settings struct {
	mode         string
	connection   string // connection.mode
	prefix       string
	paused       bool
	offsetSync   bool
	offsetPeriod time.Duration
	groupFilters plan.Filters
	groupPrefix  string // "" unless consumer.group.prefix.enable
	autoCreate   bool
	autoPeriod   time.Duration
	topicFilters plan.Filters
	configPeriod time.Duration
	include      []string
	startSpec    string
	recopy       bool // mirror.recopy.enable
	aclSync      bool
	aclPeriod    time.Duration
	aclFilters   []config.ACLFilter
	probePeriod  time.Duration
	threshold    int
	retry        time.Duration
	source       source.Config
	// Of a half that opens connections for the other one: how it logs in to its own cluster, and how soon it dials again.
	local               source.Config
	localListener       string
	backoff, backoffMax time.Duration
	fetch               fetcher.Config
	turnGrace           time.Duration // how long a reversed source waits for open transactions
}

// all is a link's configs with its secrets in clear. It must not be logged.
func all(rec *meta.Link) map[string]string {
	set := maps.Clone(rec.Configs)
	if set == nil {
		set = map[string]string{}
	}
	for name, secret := range rec.Secrets {
		set[name] = secret.Reveal()
	}
	return set
}

// reader reads values of keys; one that the table does not have is empty.
type reader struct {
	v      config.Values
	prefix string // put before each name: "local." for the configs of the link's own cluster
}

// isTrue reads a boolean as Kafka does, in any case and with blanks around it: what config's check takes must count.
func isTrue(value string) bool { return strings.EqualFold(strings.TrimSpace(value), "true") }

func known(name string) bool { _, is := config.Link.Key(name); return is }

func (r reader) text(name string) string {
	name = r.prefix + name
	if !known(name) {
		return ""
	}
	return r.v.Text(name)
}

func (r reader) on(name string) bool { return isTrue(r.text(name)) }

func (r reader) number(name string, fallback int64) int64 {
	name = r.prefix + name
	if !known(name) {
		return fallback
	}
	return r.v.Int(name)
}

func (r reader) millis(name string, fallback time.Duration) time.Duration {
	name = r.prefix + name
	if !known(name) {
		return fallback
	}
	return r.v.Millis(name)
}

func (r reader) list(name string) []string {
	if r.text(name) == "" {
		return nil
	}
	return r.v.List(r.prefix + name)
}

// readSettings reads configs that have passed the table's check. The error says which cannot be used.
func readSettings(name string, set map[string]string) (settings, error) {
	r := reader{v: config.Link.Values(set)}
	s := settings{
		mode:         r.text(keyMode),
		connection:   orDefault(set, keyConnection, peer.Outbound),
		prefix:       prefixOf(set),
		paused:       r.on(keyPaused),
		offsetSync:   r.on(keyOffsetSync),
		offsetPeriod: r.millis(keyOffsetSyncMs, 30*time.Second),
		autoCreate:   r.on(keyAutoCreate),
		autoPeriod:   r.millis(keyAutoCreateMs, 5*time.Minute),
		configPeriod: r.millis(keyConfigSyncMs, 5*time.Second),
		include:      r.list(keyConfigInclude),
		startSpec:    r.text(keyStartSpec),
		recopy:       r.on(keyRecopy),
		aclSync:      r.on(keyACLSync),
		aclPeriod:    r.millis(keyACLSyncMs, 5*time.Second),
		probePeriod:  r.millis(keyAvailabilityMs, 5*time.Second),
		threshold:    int(r.number(keyAvailabilityMax, 3)),
		retry:        r.millis(keyRetryTimeout, 5*time.Minute),
		turnGrace:    r.millis(keyTurnGrace, 10*time.Second),
	}
	if s.mode == "" {
		s.mode = peer.Destination
	}
	if r.on(keyGroupPrefix) {
		s.groupPrefix = s.prefix
	}
	var err error
	if s.groupFilters, err = plan.ParseGroupFilters(r.text(keyGroupFilters)); err != nil {
		return s, err
	}
	if s.topicFilters, err = plan.ParseTopicFilters(r.text(keyTopicFilters)); err != nil {
		return s, err
	}
	if s.aclFilters, err = config.ParseACLFilters(r.text(keyACLFilters)); err != nil {
		return s, err
	}
	if _, err := parseStart(s.startSpec); err != nil {
		return s, err
	}
	s.fetch = readFetch(r, s.include)
	if s.source, err = readSource(name, r); err != nil {
		return s, err
	}
	if s.connection == peer.Inbound {
		// Nothing is dialled: the connections that come have logged in already, on the other cluster.
		s.source.Bootstrap, s.source.Map, s.source.Security = []string{anyBroker}, nil, source.Security{}
		s.source.DialTimeout = r.millis(keySetupTimeout, 30*time.Second)
		return s, nil
	}
	return s, s.readLocal(r)
}

// readLocal reads how the link reaches its own cluster.
func (s *settings) readLocal(r reader) error {
	security, err := readSecurity(reader{r.v, "local."})
	if err != nil {
		return fmt.Errorf("local.: %w", err)
	}
	s.local = s.source
	s.local.Bootstrap, s.local.Map, s.local.Security = nil, nil, security
	s.localListener = r.text(keyLocalListener)
	s.backoff, s.backoffMax = r.millis("reconnect.backoff.ms", 50*time.Millisecond), r.millis("reconnect.backoff.max.ms", time.Second)
	return nil
}

func prefixOf(set map[string]string) string {
	if p := set[keyPrefix]; p != "" {
		return p
	}
	return set[keyPrefixAlias]
}

func readFetch(r reader, include []string) fetcher.Config {
	return fetcher.Config{
		Fetchers:     int(r.number("num.cluster.link.fetchers", 1)),
		MaxWait:      r.millis("replica.fetch.wait.max.ms", 500*time.Millisecond),
		MinBytes:     int(r.number("replica.fetch.min.bytes", 1)),
		PartitionMax: int(r.number("replica.fetch.max.bytes", 5<<20)),
		ResponseMax:  int(r.number("replica.fetch.response.max.bytes", 10<<20)),
		RateMax:      r.number("link.max.bytes.per.second", -1),
		Backoff:      r.millis("replica.fetch.backoff.ms", time.Second),
		MetadataAge:  r.millis("metadata.max.age.ms", 10*time.Second),
		KeepHoles:    !plan.FollowsLogStart(include),
	}
}

func readSource(name string, r reader) (source.Config, error) {
	addresses, err := parseAddressMap(r.text(keyAddressMap))
	if err != nil {
		return source.Config{}, err
	}
	security, err := readSecurity(r)
	if err != nil {
		return source.Config{}, err
	}
	return source.Config{
		Bootstrap:      r.list(keyBootstrap),
		Map:            addresses,
		Security:       security,
		ClientID:       "hawser-link-" + name,
		RequestTimeout: r.millis("request.timeout.ms", 30*time.Second),
		DialTimeout:    r.millis("socket.connection.setup.timeout.ms", 10*time.Second),
		ReceiveBuffer:  int(r.number("replica.socket.receive.buffer.bytes", -1)),
		MaxReadBytes:   maxReadBytes,
		MetadataAge:    r.millis("metadata.max.age.ms", 10*time.Second),
	}, nil
}

// maxReadBytes bounds one answer of the source: a batch may be as large as max.message.bytes lets it.
const maxReadBytes = 256 << 20

func readSecurity(r reader) (source.Security, error) {
	s := source.Security{
		Protocol:  r.text("security.protocol"),
		Mechanism: r.text("sasl.mechanism"),
		JAAS:      r.text("sasl.jaas.config"),
		OAuth: source.OAuth{
			Endpoint:     r.text("sasl.oauthbearer.token.endpoint.url"),
			ClientID:     r.text("sasl.oauthbearer.client.credentials.client.id"),
			ClientSecret: r.text("sasl.oauthbearer.client.credentials.client.secret"),
			Scope:        r.text("sasl.oauthbearer.scope"),
			EscapeHeader: r.on("sasl.oauthbearer.header.urlencode"),
		},
		KeyStore: stores.Store{
			Certificates: r.text("ssl.keystore.certificate.chain"), Key: r.text("ssl.keystore.key"), Location: r.text("ssl.keystore.location"),
			Password: r.text("ssl.keystore.password"), KeyPassword: r.text("ssl.key.password"),
		},
		TrustStore: stores.Store{
			Certificates: r.text("ssl.truststore.certificates"), Location: r.text("ssl.truststore.location"),
			Password: r.text("ssl.truststore.password"),
		},
		Versions:    r.list("ssl.enabled.protocols"),
		Ciphers:     r.list("ssl.cipher.suites"),
		NoHostCheck: r.text("ssl.endpoint.identification.algorithm") == "",
	}
	if s.KeyStore.Given() {
		if _, err := s.KeyStore.KeyPair(); err != nil {
			return s, fmt.Errorf("read ssl.keystore: %w", err)
		}
	}
	if s.TrustStore.Given() {
		if _, err := s.TrustStore.Roots(); err != nil {
			return s, fmt.Errorf("read ssl.truststore: %w", err)
		}
	}
	return s, nil
}

// parseAddressMap reads bootstrap.address.map: advertised=dialed pairs with commas between.
func parseAddressMap(text string) (map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	m := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		from, to, is := strings.Cut(strings.TrimSpace(pair), "=")
		if !is || from == "" || to == "" {
			return nil, fmt.Errorf("%s: %q is not advertised-host:port=host:port", keyAddressMap, pair)
		}
		m[from] = to
	}
	return m, nil
}

// Specs of ListOffsets.
const (
	startEarliest = -2
	startLatest   = -1
)

// parseStart reads mirror.start.offset.spec into a ListOffsets spec: -2 earliest, -1 latest, else Unix ms.
func parseStart(spec string) (int64, error) {
	switch strings.ToLower(strings.TrimSpace(spec)) {
	case "", "earliest":
		return startEarliest, nil
	case "latest":
		return startLatest, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02"} {
		if t, err := time.Parse(layout, strings.TrimSpace(spec)); err == nil {
			if ms := t.UnixMilli(); ms >= 0 {
				return ms, nil
			}
			return 0, fmt.Errorf("%s: %q lies before 1970", keyStartSpec, spec)
		}
	}
	return 0, fmt.Errorf("%s: %q is neither earliest, latest nor an ISO-8601 time like 2026-01-31T00:00:00Z", keyStartSpec, spec)
}
