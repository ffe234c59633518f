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

// TestServeTakesFromTheFileWhatNoFlagGives: a server.properties names its directory and number itself.
func TestServeTakesFromTheFileWhatNoFlagGives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "node.id=7\nlog.dir=/old\nlog.dirs=/data\nhawser.http.listener=127.0.0.1:18090\nhawser.cluster.id=mine\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, said, code := served(t, "--config", file)
	if code != 0 || got.NodeID != 7 || got.DataDir != "/data" || got.HTTP != "127.0.0.1:18090" || got.ClusterID != "mine" {
		t.Errorf("got %+v, %s", got, said)
	}
	got, said, code = served(t, "--config", file, "--node-id", "3", "--data", "d", "--http", ":1", "--cluster-id", "other")
	if code != 0 || got.NodeID != 3 || got.DataDir != "d" || got.HTTP != ":1" || got.ClusterID != "other" {
		t.Errorf("flags do not win: %+v, %s", got, said)
	}
	if got, said, code := served(t, "--set", "hawser.http.listener="); code != 0 || got.HTTP != "" {
		t.Errorf("the HTTP port is not turned off: %+v, %s", got, said)
	}
	for _, c := range [][2]string{{"log.dirs=/a,/b", "more than one directory"}, {"node.id=many", "not a number"}} {
		if _, said, code := served(t, "--set", c[0]); code == 0 || !strings.Contains(said, c[1]) {
			t.Errorf("%s: %q", c[0], said)
		}
	}
	for _, flag := range []string{"--kafka", "--advertise"} {
		said := "Warning: " + flag + " has no effect, as the config listeners says where to listen: SSL://:9093.\n"
		if _, got, code := served(t, flag, "127.0.0.1:9092", "--set", "listeners=SSL://:9093"); code != 0 || got != said {
			t.Errorf("%s beside listeners: exit %d, %q", flag, code, got)
		}
	}
	if _, said, code := served(t, "--http", ""); code == 0 {
		t.Errorf("an empty --http is taken: %s", said)
	}
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
