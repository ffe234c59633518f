package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/config"
)

var rewrite = flag.Bool("rewrite", false, "write the generated documents anew")

func TestDocsAreFresh(t *testing.T) {
	path := filepath.Join("..", "docs", "config.md")
	want := config.Markdown()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("docs/config.md is not what the tables say: go test ./config -run Docs -rewrite")
	}
}

// ours are keys whose default or values differ from Kafka's on purpose.
var ours = map[string]string{
	"node.id":                               "has a default",
	"log.dir":                               "not in /tmp",
	"group.coordinator.rebalance.protocols": "no streams groups",
	"sasl.enabled.mechanisms":               "no GSSAPI",
}

// TestTablesAgreeWithKafka compares with what Apache Kafka 4.1's own tables say.
func TestTablesAgreeWithKafka(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "kafka_4.1_configs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]*config.Table{"topic": config.Topic, "broker": config.Broker}
	topics := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		kind, name, typ, def := f[0], f[1], f[2], f[3]
		k, ok := tables[kind].Key(name)
		if !ok {
			if kind == "topic" || !config.KafkaOnly(name) {
				t.Errorf("%s key %s is missing", kind, name)
			}
			continue
		}
		if kind == "broker" && config.KafkaOnly(name) {
			t.Errorf("%s is both ours and Kafka's alone", name)
		}
		if kind == "topic" {
			topics++
		}
		if got := strings.ToUpper(k.Type.String()); got != typ {
			t.Errorf("%s is of type %s, in Kafka %s", name, got, typ)
		}
		if ours[name] != "" {
			continue
		}
		if k.Unset != (def == "<null>") || !k.Unset && k.Default != def {
			t.Errorf("%s has default %q (unset: %v), in Kafka %q", name, k.Default, k.Unset, def)
		}
	}
	if topics != len(config.Topic.Keys()) {
		t.Errorf("%d of our %d topic keys are Kafka's", topics, len(config.Topic.Keys()))
	}
}

// TestKeysWithoutAReaderSayThatTheyHaveNoEffect looks for each key's name, or that of the topic key it is the default of, in the
// code that obeys configs: one that nobody reads must say so to whoever sets it.
func TestKeysWithoutAReaderSayThatTheyHaveNoEffect(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"broker", "handler", "partition", "link", "cli", "cmd/hawser"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	// Read by parts of their names, by the table's own rules, or by flags that stand for them.
	elsewhere := []string{"group.consumer.max.", "group.consumer.min.", "controller.quota.window.", "hawser.metadata.ssl.", "log.retention.hours", "log.retention.minutes",
		"log.roll.hours", "internal.segment.bytes", "remote.storage.enable"}
	read := func(name string) bool { return strings.Contains(code.String(), strconv.Quote(name)) }
	for _, k := range append(config.Broker.Keys(), config.Topic.Keys()...) {
		obeyed := read(k.Name) || slices.ContainsFunc(elsewhere, func(part string) bool { return strings.HasPrefix(k.Name, part) })
		for _, topic := range config.Topic.Keys() {
			obeyed = obeyed || topic.BrokerKey == k.Name && read(topic.Name)
		}
		if k.Idle == obeyed {
			t.Errorf("%s: read somewhere: %v, said to be without effect: %v", k.Name, obeyed, k.Idle)
		}
		if k.Idle != strings.Contains(strings.ToLower(k.Doc), "without effect") {
			t.Errorf("%s is without effect: %v, its words: %s", k.Name, k.Idle, k.Doc)
		}
	}
}

func TestTablesAreSound(t *testing.T) {
	for _, table := range []*config.Table{config.Broker, config.Topic, config.Link} {
		last := ""
		for _, k := range table.Keys() {
			if k.Name <= last {
				t.Errorf("%s comes after %s", k.Name, last)
			}
			last = k.Name
			if !k.Unset {
				if err := table.CheckOne(k.Name, k.Default); err != nil {
					t.Errorf("the default is not allowed: %v", err)
				}
			}
			if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
				t.Errorf("%s has no sentence of documentation", k.Name)
			}
			if (k.Check == nil) != (k.Allowed == "") {
				t.Errorf("%s: a check needs its words, and words a check", k.Name)
			}
			if k.Type == config.Password && !k.Sensitive {
				t.Errorf("%s is a password but not sensitive", k.Name)
			}
			if k.BrokerKey != "" {
				b, ok := config.Broker.Key(k.BrokerKey)
				if !ok {
					t.Errorf("%s names broker key %s, which is not there", k.Name, k.BrokerKey)
				} else if !b.Unset && b.Default != k.Default {
					t.Errorf("%s has default %q, its broker key %q", k.Name, k.Default, b.Default)
				}
			}
		}
		if err := table.Check(nil); err != nil {
			t.Errorf("nothing set is not allowed: %v", err)
		}
	}
}

func TestCheckNamesAllFaults(t *testing.T) {
	err := config.Topic.Check(map[string]string{
		"retenton.ms":         "5",
		"retention.ms":        "-2",
		"segment.bytes":       "3",
		"cleanup.policy":      "compact,remove",
		"preallocate":         "maybe",
		"compression.type":    "zip",
		"min.insync.replicas": "1",
		"flush.ms":            "9223372036854775808",
	})
	if err == nil {
		t.Fatal("all of it passed")
	}
	text := err.Error()
	for _, want := range []string{
		"Unknown topic config name: retenton.ms (did you mean retention.ms?)",
		`Invalid value "-2" for configuration retention.ms: Value must be at least -1`,
		"segment.bytes: Value must be at least 1048576",
		`"remove" is not`, "preallocate: Expected value to be either true or false",
		"compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
		"flush.ms: Not a number of type LONG",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if got := strings.Count(text, "\n") + 1; got != 7 {
		t.Errorf("%d lines, want 7:\n%s", got, text)
	}
	if err := config.Topic.Check(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}); err == nil {
		t.Error("min.compaction.lag.ms above max passed")
	}
}

func TestFaultsHideSecrets(t *testing.T) {
	err := config.Link.Check(map[string]string{"ssl.key.password": "hunter2", "nonsense.key": "x", "link.mode": "hunter3"})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "hunter3") {
		t.Fatalf("faults: %v", err)
	}
}

func TestValues(t *testing.T) {
	set := map[string]string{"retention.ms": " -1 ", "cleanup.policy": "compact , delete", "segment.ms": "9223372036854775807"}
	v := config.Topic.Values(set, config.TopicDefaults(map[string]string{
		"log.retention.hours": "1", "log.roll.jitter.hours": "2", "message.max.bytes": "77", "log.cleaner.min.cleanable.ratio": "0.25",
	}))
	if v.Millis("retention.ms") != -1 || v.Millis("segment.ms") < 200*365*24*time.Hour {
		t.Errorf("retention %v, segment %v", v.Millis("retention.ms"), v.Millis("segment.ms"))
	}
	if got := v.List("cleanup.policy"); len(got) != 2 || got[0] != "compact" || got[1] != "delete" {
		t.Errorf("list = %q", got)
	}
	if v.Millis("segment.jitter.ms") != 2*time.Hour || v.Int("max.message.bytes") != 77 || v.Float("min.cleanable.dirty.ratio") != 0.25 {
		t.Errorf("broker's defaults do not show: %v %v", v.Millis("segment.jitter.ms"), v.Int("max.message.bytes"))
	}
	if !v.IsDefault("flush.ms") || v.IsDefault("retention.ms") {
		t.Error("IsDefault is wrong")
	}
	if got := config.TopicDefaults(map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3"})["retention.ms"]; got != "180000" {
		t.Errorf("retention.ms = %s: minutes come before hours", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown name did not panic")
		}
	}()
	v.Text("nonsense")
}

func TestLinkValues(t *testing.T) {
	const jaas = `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
	for _, c := range []struct {
		name string
		set  map[string]string
		want string // part of the fault; "" for none
	}{
		{"source half dials", map[string]string{"link.mode": "SOURCE", "connection.mode": "INBOUND"}, "connection.mode must be OUTBOUND"},
		{"group prefix both ways", map[string]string{"link.mode": "BIDIRECTIONAL", "consumer.group.prefix.enable": "true"}, "consumer.group.prefix.enable"},
		{"prefix with a slash", map[string]string{"cluster.link.prefix": "a/b"}, "cluster.link.prefix"},
		{"long prefix", map[string]string{"cluster.link.prefix": strings.Repeat("a", 200)}, ""},
		{"login without password", map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is needed"},
		{"login by default mechanism", map[string]string{"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas}, "GSSAPI is not offered"},
		{"login", map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}, ""},
		{"include without an always-synced one", map[string]string{"topic.config.sync.include": "max.message.bytes,cleanup.policy"}, "always synced"},
		{"include with a typing error", map[string]string{"topic.config.sync.include": "retention.mss"}, "did you mean retention.ms"},
		{"include as older sources name it", map[string]string{"topic.config.sync.include": "max.message.bytes,cleanup.policy,message.timestamp.type,message.timestamp.difference.max.ms,min.compaction.lag.ms,max.compaction.lag.ms"}, ""},
		{"start by time", map[string]string{"mirror.start.offset.spec": "2024-05-01T12:00:00Z"}, ""},
		{"start somewhere", map[string]string{"mirror.start.offset.spec": "yesterday"}, "want earliest, latest"},
		{"address map", map[string]string{"bootstrap.address.map": "b1:9092=10.0.0.1:1,b2:9092=10.0.0.1:2"}, ""},
		{"bad address map", map[string]string{"bootstrap.address.map": "b1:9092"}, "advertised:port=reachable:port"},
		{"bootstrap with a protocol", map[string]string{"bootstrap.servers": "SASL_SSL://b1:9092, b2:9092"}, ""},
		{"bootstrap without a port", map[string]string{"bootstrap.servers": "b1"}, "want host:port"},
		{"bad filters", map[string]string{"auto.create.mirror.topics.filters": `{"topicFilters":[]}`}, "at least one filter"},
		{"bad group filters", map[string]string{"consumer.offset.group.filters": `{"groupFilters":[{"name":"a","patternType":"SUFFIX","filterType":"INCLUDE"}]}`}, "LITERAL or PREFIXED"},
		{"ACL filters", map[string]string{"acl.filters": `{"aclFilters":[{"resourceFilter":{"resourceType":"any","patternType":"any"},"accessFilter":{"operation":"any","permissionType":"any"}}]}`}, ""},
		{"bad ACL filters", map[string]string{"acl.filters": `{"aclFilters":[{"resourceFilter":{"resourceType":"tpoic"}}]}`}, "resourceType"},
		{"zero period", map[string]string{"consumer.offset.sync.ms": "0"}, "at least"},
	} {
		err := config.Link.Check(c.set)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	err := config.Link.CheckFixed(map[string]string{"link.mode": "DESTINATION"}, map[string]string{"cluster.link.prefix": "x", "acl.sync.ms": "1000"})
	if err == nil || !strings.Contains(err.Error(), "cluster.link.prefix") || strings.Contains(err.Error(), "acl.sync.ms") || strings.Contains(err.Error(), "link.mode") {
		t.Errorf("CheckFixed: %v", err)
	}
}

func TestBrokerListeners(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"listeners": "PLAINTEXT://:0"}, ""},
		{map[string]string{"listeners": "INTERNAL://:9092"}, "no entry in listener.security.protocol.map"},
		{map[string]string{"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_SSL", "advertised.listeners": "B://h:3"}, ""},
		{map[string]string{"listeners": "A://:1", "listener.security.protocol.map": "A:PLAINTEXT", "advertised.listeners": "B://h:3"}, "not among listeners"},
		{map[string]string{"listeners": "A://:1", "listener.security.protocol.map": "A:TLS"}, "must be one of"},
		{map[string]string{"listeners": "9092"}, "NAME://host:port"},
		{map[string]string{"listener.name.external.ssl.keystore.location": "/x", "listener.name.external.plain.sasl.jaas.config": "y"}, ""},
		{map[string]string{"listener.name.external.num.partitions": "3"}, "Unknown broker config name"},
		{map[string]string{"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"}, "must not be more than"},
	} {
		err := config.Broker.Check(c.set)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v; want %q", c.set, err, c.want)
		}
	}
	v := config.Broker.Values(map[string]string{"listener.name.external.plain.sasl.jaas.config": "one", "sasl.jaas.config": "all"})
	if v.ListenerText("EXTERNAL", "PLAIN", "sasl.jaas.config") != "one" || v.ListenerText("INTERNAL", "PLAIN", "sasl.jaas.config") != "all" {
		t.Error("a listener's own value does not come first")
	}
}

func TestACLFilters(t *testing.T) {
	acl := config.ACL{ResourceType: "TOPIC", PatternType: "PREFIXED", Name: "pay", Operation: "READ", Permission: "ALLOW", Principal: "User:a", Host: "*"}
	for _, c := range []struct {
		filter string
		want   bool
	}{
		{`{"resourceFilter":{"resourceType":"any","patternType":"any"},"accessFilter":{"operation":"any","permissionType":"any"}}`, true},
		{`{"resourceFilter":{"resourceType":"topic","patternType":"match","name":"payments"}}`, true},
		{`{"resourceFilter":{"resourceType":"topic","patternType":"match","name":"orders"}}`, false},
		{`{"resourceFilter":{"resourceType":"topic","patternType":"literal","name":"pay"}}`, false},
		{`{"resourceFilter":{"resourceType":"topic","patternType":"prefixed","name":"pay"}}`, true},
		{`{"resourceFilter":{"resourceType":"group"}}`, false},
		{`{"accessFilter":{"principal":"User:b"}}`, false},
		{`{"accessFilter":{"operation":"read","permissionType":"allow","principal":"User:a","host":"*"}}`, true},
	} {
		filters, err := config.ParseACLFilters(`{"aclFilters":[` + c.filter + `]}`)
		if err != nil {
			t.Fatalf("%s: %v", c.filter, err)
		}
		if got := slices.ContainsFunc(filters, func(f config.ACLFilter) bool { return f.Match(acl) }); got != c.want {
			t.Errorf("%s: %v, want %v", c.filter, got, c.want)
		}
	}
	for _, bad := range []string{`{}`, `[]`, `{"aclFilters":[{"x":1}]}`, `{"aclFilters":[{"accessFilter":{"principal":"bob"}}]}`, `{"aclFilters":[{}]} {}`} {
		if _, err := config.ParseACLFilters(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestStartSpecWithoutZoneIsUTC(t *testing.T) {
	s, err := config.ParseStartSpec("2024-05-01T12:00:00.5")
	if err != nil || s.At.UnixMilli() != time.Date(2024, 5, 1, 12, 0, 0, 5e8, time.UTC).UnixMilli() {
		t.Fatalf("%+v, %v", s, err)
	}
}
