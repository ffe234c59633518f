package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/rest/resttest"
)

// run is one command line against the cluster.
type run struct {
	code     int
	out, err string
}

func hawser(t *testing.T, url string, args ...string) run {
	t.Helper()
	t.Setenv("HAWSER_REST_URL", url)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out, err bytes.Buffer
	code := cli.Main(ctx, args, &out, &err, cli.Hooks{Version: "test"})
	return run{code, out.String(), err.String()}
}

// ok is a command that must succeed.
func ok(t *testing.T, url string, args ...string) string {
	t.Helper()
	r := hawser(t, url, args...)
	if r.code != 0 {
		t.Fatalf("hawser %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

func TestALinksLife(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	if got := ok(t, url, "link", "list"); got != "None found.\n" {
		t.Errorf("empty list: %q", got)
	}
	got := ok(t, url, "link", "create", "my-link", "--source-cluster", "src-1", "--source-bootstrap-server", "SASL_SSL://a:9092,b:9092",
		"--source-api-key", "u", "--source-api-secret", `p"w\`, "--config", `consumer.offset.sync.enable=true,consumer.offset.group.filters={"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	want := `Created cluster link "my-link" with configs:
"bootstrap.servers"="SASL_SSL://a:9092,b:9092"
"consumer.offset.group.filters"="{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}"
"consumer.offset.sync.enable"="true"
"sasl.mechanism"="PLAIN"
"security.protocol"="SASL_SSL"
`
	if got != want {
		t.Errorf("create printed\n%swant\n%s", got, want)
	}
	if got := ok(t, url, "mirror", "create", "orders", "--link", "my-link"); got != "Created mirror topic \"orders\".\n" {
		t.Errorf("mirror create: %q", got)
	}
	if got := ok(t, url, "link", "list", "--include-topics"); !strings.Contains(got, "orders") || !strings.HasPrefix(got, "Name    | ID ") {
		t.Errorf("list: %s", got)
	}
}
