package cli_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/rest/resttest"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/import/*.txt anew")

// importCases are files and what they are read with; what is printed stands in a file beside each.
var importCases = []struct{ file, flags, golden string }{
	{"active-passive.properties", "", "active-passive"},
	{"active-active.properties", "--target west", "active-active-west"},
	{"active-active.properties", "--target east --link from-the-west", "active-active-east"},
	{"connector.properties", "", "connector"},
	{"from-on-prem.config", "", "from-on-prem"},
}

func TestLinkImportPrintsWhatItWillCreateAndWhatDoesNotCarryOver(t *testing.T) {
	url := resttest.New(t).Serve(t)
	for _, c := range importCases {
		args := append([]string{"link", "import", filepath.Join("testdata/import", c.file)}, strings.Fields(c.flags)...)
		got := ok(t, url, args...)
		if strings.Contains(got, "s3cret") || strings.Contains(got, "changeit") {
			t.Errorf("%s: a secret is printed:\n%s", c.file, got)
		}
		golden := filepath.Join("testdata/import", c.golden+".txt")
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("%v printed\n%s%v; want\n%s", args, got, err, want)
		}
		var links []struct {
			Configs map[string]string
		}
		if err := json.Unmarshal([]byte(ok(t, url, append(args, "-o", "json")...)), &links); err != nil || len(links) != 1 {
			t.Fatalf("%d links, %v", len(links), err)
		}
		configs := maps.Clone(links[0].Configs)
		if configs["sasl.jaas.config"] != "" {
			configs["sasl.jaas.config"] = `PlainLoginModule required username="u" password="p";`
			configs["sasl.mechanism"] = "PLAIN"
		}
		if err := config.Link.Check(configs); err != nil {
			t.Errorf("%s: a broker would refuse this: %v", c.file, err)
		}
	}
	if got := ok(t, url, "link", "list"); got != "None found.\n" {
		t.Errorf("printing created links:\n%s", got)
	}
}

func TestLinkImportApplies(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	file := filepath.Join(t.TempDir(), "mm2.properties")
	if err := os.WriteFile(file, []byte("clusters=a,b\na.bootstrap.servers=a:1\na->b.enabled=true\na->b.topics=x.*\na->b.sync.topic.acls.enabled=false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, url, "link", "import", file, "--apply", "--config", "acl.sync.enable=false"); !strings.HasSuffix(got, "Created cluster link \"a\".\n") || strings.Contains(got, "Nothing was created") {
		t.Errorf("printed\n%s", got)
	}
	got := configsOf(t, c, "a")
	if got["cluster.link.prefix"] != "a." || got["bootstrap.servers"] != "a:1" || !strings.Contains(got["auto.create.mirror.topics.filters"], `"name":"x","patternType":"PREFIXED","filterType":"INCLUDE"`) {
		t.Errorf("the link has %v", got)
	}
	if r := hawser(t, url, "link", "import", file, "--apply"); r.code != 1 || !strings.Contains(r.err, "Cluster link 'a' already exists") {
		t.Errorf("again: exit %d, %s", r.code, r.err)
	}
}

func TestLinkImportRefusesWhatItCannotRead(t *testing.T) {
	url := resttest.New(t).Serve(t)
	for _, row := range []struct{ text, flags, words string }{
		{"x=1\n", "", "neither MirrorMaker's configuration"},
		{"clusters=a,b\na.bootstrap.servers=a:1\n", "", "no direction is enabled"},
		{"clusters=a,b\na->b.enabled=true\nb->a.enabled=true\n", "", "say which of them this is with --target"},
		{"clusters=a,b\na->b.enabled=true\n", "--target a", `copies nothing to "a", only to b`},
		{"clusters=a,b,c\na->c.enabled=true\nb->c.enabled=true\n", "--link l", "--link names one link, but the file has 2: a, b"},
		{"source.cluster.alias=a\ntarget.cluster.alias=b\n", "--target c", "only to b"},
		{"bootstrap.servers=a:1\n", "--target c", "--target is for MirrorMaker's files"},
		{"bootstrap.servers=a:1\n", "--apply --dry-run", "Give one"},
	} {
		file := filepath.Join(t.TempDir(), "x.properties")
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := hawser(t, url, append([]string{"link", "import", file}, strings.Fields(row.flags)...)...)
		if r.code != 1 || !strings.Contains(r.err, row.words) {
			t.Errorf("%q %s: exit %d, %q, want %q", row.text, row.flags, r.code, r.err, row.words)
		}
	}
}
