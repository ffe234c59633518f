package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/resttest"
)

func TestUsersByCommand(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	add := func(password string, args ...string) run {
		t.Setenv("HAWSER_REST_URL", url)
		var out, err bytes.Buffer
		code := cli.Main(t.Context(), append([]string{"user", "add", "alice"}, args...), &out, &err, cli.Hooks{In: strings.NewReader(password)})
		return run{code, out.String(), err.String()}
	}
	if r := add("pa55\nmore\n"); r.code != 0 || !strings.Contains(r.out, "SCRAM-SHA-512") || strings.Contains(r.out+r.err, "pa55") || c.Users.Password["alice"] != "pa55" {
		t.Errorf("%+v with the password %q", r, c.Users.Password["alice"])
	}
	if r := add(""); r.code == 0 || !strings.Contains(r.err, "no password") {
		t.Errorf("without a password: %+v", r)
	}
	if got := ok(t, url, "user", "list"); strings.Count(got, "alice") != 2 {
		t.Errorf("list: %s", got)
	}
	ok(t, url, "user", "delete", "alice", "--mechanism", "SCRAM-SHA-256")
	ok(t, url, "user", "delete", "alice")
	if r := hawser(t, url, "user", "delete", "alice"); r.code == 0 {
		t.Errorf("a second time: %+v", r)
	}
}

func TestConfigsByCommand(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	ok(t, url, "config", "alter", "--broker", "all", "--config", "log.retention.ms=5")
	if got := ok(t, url, "config", "describe", "--broker", "all"); !strings.Contains(got, "log.retention.ms") {
		t.Errorf("all: %s", got)
	}
	if got := ok(t, url, "config", "describe", "--broker", "1", "--all"); !strings.Contains(got, "node.id") || strings.Contains(got, "hidden-secret") {
		t.Errorf("one: %s", got)
	}
	ok(t, url, "config", "alter", "--broker", "all", "--delete", "log.retention.ms")
	ok(t, url, "topic", "create", "orders")
	ok(t, url, "config", "alter", "--topic", "orders", "--config", "retention.ms=7", "--dry-run")
	ok(t, url, "config", "alter", "--topic", "orders", "--config", "retention.ms=8")
	if got := ok(t, url, "config", "describe", "--topic", "orders", "-o", "json"); !strings.Contains(got, `"8"`) || strings.Contains(got, "cleanup.policy") {
		t.Errorf("topic: %s", got)
	}
	for _, wrong := range [][]string{{"config", "describe"}, {"config", "describe", "--broker", "x"}, {"config", "alter", "--topic", "orders"}, {"config", "alter", "--broker", "9", "--config", "log.retention.ms=1"}} {
		if r := hawser(t, url, wrong...); r.code == 0 || r.err == "" {
			t.Errorf("%v: %+v", wrong, r)
		}
	}
}

func TestMembersByCommand(t *testing.T) {
	c := resttest.New(t)
	c.Groups.List = []rest.Group{{ID: "g", State: "Stable", Members: []rest.Member{{ID: "m-1", ClientID: "app", Owns: []rest.Owned{{Topic: "b", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "a", Partition: 0}}}}}}
	if got := ok(t, c.Serve(t), "group", "members", "g"); !strings.Contains(got, "a:0,2 b:1") {
		t.Errorf("members: %s", got)
	}
}
