package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/rest/resttest"
)

func TestMistakesAreExplained(t *testing.T) {
	_, url := aCluster(t)
	dir := t.TempDir()
	for _, row := range []struct {
		args  string
		words []string
	}{
		{"mirrors", []string{`unknown command "mirrors"`, `Did you mean "hawser mirror"?`}},
		{"link lst", []string{`unknown command "lst" for "hawser link"`, `Did you mean "hawser link list"?`}},
		{"mirror premote orders", []string{`"hawser mirror promote"`}},
		{"link configuration set", []string{`unknown command "set"`, "hawser link configuration --help"}},
		{"link describe", []string{"<link> is missing", "Usage: hawser link describe <link>"}},
		{"link describe a b", []string{`"b" is one argument too many`}},
		{"link list extra", []string{`"extra" is one argument too many`}},
		{"link delete", []string{"<link> is missing"}},
		{"link list --outputt json", []string{"unknown flag: --outputt", "'hawser link list --help'"}},
		{"link list -o xml", []string{`"xml" is unknown`, "-o human, -o json, -o yaml"}},
		{"link describe gone", []string{"Cluster link 'gone' does not exist"}},
		{"link create new", []string{"where is the other cluster?", "--source-bootstrap-server HOST:PORT"}},
		{"link create new --source-cluster x --remote-cluster y", []string{"both name the other cluster"}},
		{"link create new --source-bootstrap-server a:1 --config link.mode=SOURCE", []string{"is for link.mode=DESTINATION, but the configs say link.mode=SOURCE"}},
		{"link create new --source-bootstrap-server a:1 --source-api-key k", []string{"--source-api-key and --source-api-secret go together"}},
		{"link create new --source-bootstrap-server a:1 --local-api-secret k", []string{"--local-api-key and --local-api-secret go together"}},
		{"link create my-link --source-bootstrap-server a:1", []string{"Cluster link 'my-link' already exists"}},
		{"link create a/b --source-bootstrap-server a:1", []string{"Invalid Cluster Link Name"}},
		{"link create new --source-bootstrap-server a:1 --config no.such=1", []string{"Unknown link config 'no.such'"}},
		{"link create new --config " + dir + "/missing.properties", []string{"neither key=value nor a file", "no such file"}},
		{"link create new --config-file " + dir, []string{"is a directory"}},
		{"link create new --config =x", []string{"is not key=value"}},
		{"link update my-link", []string{"nothing to change", "--config key=value"}},
		{"link update my-link --config link.mode=SOURCE", []string{"Create a new link"}},
		{"mirror create t", []string{"--link is missing", "hawser link list"}},
		{"mirror create t --link gone", []string{"Cluster link 'gone' does not exist"}},
		{"mirror create orders --link my-link", []string{"Topic 'orders' already exists"}},
		{"mirror create t --link my-link --replication-factor 0", []string{"'replication_factor' is 0"}},
		{"mirror describe gone", []string{`no link has a mirror topic "gone"`, "hawser mirror list"}},
		{"mirror promote", []string{"<mirror-topic> is missing"}},
		{"mirror promote orders --pattern x", []string{"Give one"}},
		{"mirror promote --pattern .*", []string{"Say which with --link"}},
		{"mirror promote --pattern ( --link my-link", []string{"no regular expression"}},
		{"mirror list --mirror-status happy", []string{"must be one of ACTIVE"}},
		{"mirror state-transition-error orders", []string{`Did you mean "hawser mirror state-transition-error list orders"?`}},
		{"mirror update orders", []string{"nothing to change"}},
		{"mirror update gone --config retention.ms=1", []string{`no link has a mirror topic "gone"`}},
		{"mirror create orders --link my-link --dry-run", []string{"Topic 'orders' already exists"}},
		{"mirror top -o json", []string{"hawser mirror list -o json"}},
		{"mirror top --interval 1ms", []string{"100ms at least"}},
		{"mirror list --cluster other", []string{"Cluster other cannot be found. This cluster is"}},
		{"mirror list --bootstrap-server 127.0.0.1:1 --url " + url, []string{"both given"}},
		{"mirror list --bootstrap-server nowhere", []string{"is not HOST:PORT"}},
		{"mirror list --bootstrap-server ,", []string{"--bootstrap-server is empty"}},
		{"mirror list --command-config /no/such.properties", []string{"--command-config", "no such file"}},
		{"mirror list --certificate-authority-path /no/such.pem", []string{"CA's certificates", "no such file"}},
		{"mirror list --client-cert-path x.pem", []string{"go together"}},
		{"produce t --acks 2 --bootstrap-server 127.0.0.1:1", []string{"it must be all, 1 or 0"}},
		{"produce t --compression brotli", []string{"none, gzip, snappy, lz4 or zstd"}},
		{"produce t --header x", []string{"is not name=value"}},
		{"consume t --offset 5", []string{"Say which with --partition"}},
		{"consume t --group g --partition 1", []string{"--group and --partition"}},
		{"consume t --group g -e", []string{"--group and --exit-at-end"}},
		{"consume t --offset 1 --partition 0 --from-beginning", []string{"Give one"}},
		{"kafka-mirrors", []string{"say what to do with one of --create, --list"}},
		{"kafka-mirrors --list --promote", []string{"both given"}},
		{"kafka-mirrors --create --mirror-topic t", []string{"--create needs --mirror-topic and --link"}},
		{"kafka-mirrors --describe --topics gone", []string{"Topic 'gone' is no mirror topic"}},
		{"kafka-mirrors --list-state-transition-errors", []string{"needs --topics"}},
		{"kafka-cluster-links --create", []string{"--create needs --link"}},
		{"kafka-cluster-links --delete --link my-link", []string{"orders"}},
		{"topic describe gone", []string{"Topic 'gone' does not exist"}},
		{"topic create t --partitions 0", []string{"'partitions_count' is 0"}},
		{"topic create t --partitions many", []string{"invalid argument"}},
		{"topic update gone", []string{"nothing to change"}},
		{"topic update t --partitions 3 --dry-run --config a.b=c", []string{"does not go with"}},
		{"topic delete", []string{"<topic> is missing"}},
		{"group describe gone", []string{"'gone' cannot be found"}},
		{"serve", []string{"built without a broker"}},
		{"demo", []string{"built without a broker"}},
		{"link list --url ftp://x", []string{"want http://HOST:PORT", "HAWSER_REST_URL"}},
		{"link list --url " + url + "/elsewhere", []string{"there is nothing at /elsewhere/v3/clusters"}},
	} {
		r := hawser(t, url, strings.Fields(row.args)...)
		if r.code != 1 || r.out != "" || !strings.HasPrefix(r.err, "Error: ") {
			t.Errorf("hawser %s: exit %d, out %q, err %q", row.args, r.code, r.out, r.err)
		}
		for _, words := range row.words {
			if !strings.Contains(r.err, words) {
				t.Errorf("hawser %s: %q is not in %q", row.args, words, r.err)
			}
		}
	}
}

func TestNoAnswerSaysWhichURLAndHowToSetIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	r := hawser(t, url, "link", "list")
	for _, words := range []string{url, "connection refused", "hawser serve", "--url", "HAWSER_REST_URL"} {
		if r.code != 1 || !strings.Contains(r.err, words) {
			t.Errorf("%q is not in %q", words, r.err)
		}
	}
	c := resttest.New(t)
	if got := ok(t, url, "link", "list", "--url", c.Serve(t)); got != "None found.\n" {
		t.Errorf("--url does not win over the environment: %s", got)
	}
}

// served runs `hawser serve` with the arguments and answers what the hook was given.
func served(t *testing.T, args ...string) (cli.ServeOptions, string, int) {
	t.Helper()
	var got cli.ServeOptions
	var out, err bytes.Buffer
	code := cli.Main(t.Context(), append([]string{"serve"}, args...), &out, &err, cli.Hooks{Serve: func(_ context.Context, opts cli.ServeOptions) error {
		got = opts
		return nil
	}})
	return got, err.String(), code
}

func TestServeFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("# a comment\nlog.retention.hours = 24\nnum.partitions=3\nlistener.text=${not.expanded}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, text, code := served(t, "--data", "d", "--kafka", "127.0.0.1:0", "--advertise", "b.example:19092", "--http", ":8090", "--cluster-id", "c", "--node-id", "7",
		"--config", file, "--set", "num.partitions=6", "--set", "a=b=c,d")
	if code != 0 {
		t.Fatal(text)
	}
	want := map[string]string{"log.retention.hours": "24", "num.partitions": "6", "listener.text": "${not.expanded}", "a": "b=c,d"}
	if got.DataDir != "d" || got.Kafka != "127.0.0.1:0" || got.Advertise != "b.example:19092" || got.HTTP != ":8090" || got.ClusterID != "c" || got.NodeID != 7 || !maps.Equal(got.Settings, want) {
		t.Errorf("got %+v", got)
	}
	if got, text, code := served(t); code != 0 || got.DataDir == "" || got.Kafka != "127.0.0.1:9092" || got.HTTP != "127.0.0.1:8090" {
		t.Errorf("defaults: %+v %s", got, text)
	}
	for _, row := range [][2]string{
		{"--kafka=9092", "is not HOST:PORT"}, {"--http=localhost", "is not HOST:PORT"}, {"--kafka=h:99999", "from 0 to 65535"}, {"--advertise=0.0.0.0:9092", "clients cannot connect"},
		{"--advertise=h:0", "clients cannot connect"}, {"--advertise=:9092", "clients cannot connect"}, {"--node-id=-1", "0 or more"}, {"--data=", "--data is empty"},
		{"--set=novalue", "is not key=value"}, {"--config=/no/such/file", "no such file"}, {"stray", "one argument too many"},
	} {
		if _, text, code := served(t, row[0]); code != 1 || !strings.Contains(text, row[1]) {
			t.Errorf("serve %s: exit %d, %q, want %q", row[0], code, text, row[1])
		}
	}
}

func TestAHooksErrorIsShown(t *testing.T) {
	var out, err bytes.Buffer
	hooks := cli.Hooks{Demo: func(_ context.Context, opts cli.DemoOptions) error { return fmt.Errorf("once is %v", opts.Once) }}
	if code := cli.Main(t.Context(), []string{"demo", "--once"}, &out, &err, hooks); code != 1 || err.String() != "Error: once is true.\n" {
		t.Errorf("exit %d, %q", code, err.String())
	}
}

func TestConfigsFromFilesAndFlags(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	file := filepath.Join(t.TempDir(), "link.properties")
	if err := os.WriteFile(file, []byte("bootstrap.servers=file:1\nsasl.mechanism=SCRAM-SHA-256\nacl.filters={\"aclFilters\": [1, 2]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, url, "link", "create", "l", "--config", file, "--config", "security.protocol=SASL_PLAINTEXT,bootstrap.servers=a:1, b:2,acl.filters={\"a\":\"x=1\",\"b\":2}",
		"--source-api-key", `u"`, "--source-api-secret", `s\`)
	got := configsOf(t, c, "l")
	for name, want := range map[string]string{
		"bootstrap.servers": "a:1, b:2", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "acl.filters": `{"a":"x=1","b":2}`,
		"sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required username="u\"" password="s\\";`,
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if out := ok(t, url, "link", "configuration", "list", "l"); strings.Contains(out, "ScramLoginModule") {
		t.Errorf("a secret is shown: %s", out)
	}
}

func TestModesOfALink(t *testing.T) {
	for _, row := range []struct{ args, mode, local string }{
		{"--source-bootstrap-server a:1", "", ""},
		{"--remote-bootstrap-server a:1 --local-api-key k --local-api-secret s", "BIDIRECTIONAL", "k"},
		{"--destination-bootstrap-server a:1 --source-api-key k --source-api-secret s --destination-api-key d --destination-api-secret s", "SOURCE", "k"},
		{"--config link.mode=BIDIRECTIONAL,connection.mode=INBOUND", "BIDIRECTIONAL", ""},
	} {
		c := resttest.New(t)
		url := c.Serve(t)
		c.Links.AllowNoBootstrap = true
		ok(t, url, append([]string{"link", "create", "l"}, strings.Fields(row.args)...)...)
		got := configsOf(t, c, "l")
		if got["link.mode"] != row.mode || strings.Contains(got["local.sasl.jaas.config"], `username="k"`) != (row.local == "k") {
			t.Errorf("%s: %v", row.args, got)
		}
	}
}

// configsOf is what was set, secrets included.
func configsOf(t *testing.T, c *resttest.Cluster, name string) map[string]string {
	t.Helper()
	entries, err := c.Links.Configs(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if !e.Default && e.Value != nil {
			out[e.Name] = *e.Value
		}
	}
	return out
}
