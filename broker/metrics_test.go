package broker_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/rest/api"
	restclient "github.com/hawserio/hawser/rest/client"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md anew")

const metricsPage = "../docs/metrics.md"

// family is one metric as a scrape shows it.
type family struct {
	help, kind string
	samples    map[string]float64 // by labels, as `link="l"`; of a histogram its _count
}

func (f family) labels() []string {
	for sample := range f.samples {
		var names []string
		for _, found := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(sample, -1) {
			names = append(names, found[1])
		}
		slices.Sort(names)
		return names
	}
	return nil
}

var sampleLine = regexp.MustCompile(`^(\w+?)(_count)?(?:\{(.*)\})? (\S+)$`)

func scrape(t *testing.T, b *broker.Broker) map[string]family {
	t.Helper()
	rs, err := http.Get("http://" + b.HTTPAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Body.Close()
	if rs.StatusCode != 200 {
		text, _ := io.ReadAll(rs.Body)
		t.Fatalf("/metrics answers %d: %s", rs.StatusCode, text)
	}
	all := map[string]family{}
	lines := bufio.NewScanner(rs.Body)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 4)
		switch {
		case words[0] == "#" && words[1] == "HELP":
			all[words[2]] = family{help: words[3], samples: map[string]float64{}}
		case words[0] == "#" && words[1] == "TYPE":
			f := all[words[2]]
			f.kind = words[3]
			all[words[2]] = f
		default:
			found := sampleLine.FindStringSubmatch(lines.Text())
			if found == nil {
				t.Fatalf("/metrics has the line %q", lines.Text())
			}
			value, err := strconv.ParseFloat(found[4], 64)
			if err != nil {
				t.Fatal(err)
			}
			if f, is := all[found[1]]; is {
				f.samples[found[3]] = value
			}
		}
	}
	return all
}

// watched is a destination with a link that is well, mirrors two topics, and then loses its source.
func watched(t *testing.T) (source, b *broker.Broker, c *restclient.Client) {
	t.Helper()
	source = start(t, t.TempDir(), nil)
	b = start(t, t.TempDir(), nil)
	from := manual(t, source)
	create(t, from, "orders", 2)
	c, err := restclient.New("http://"+b.HTTPAddress(), restclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	configs := []api.ConfigData{}
	for name, value := range map[string]string{"bootstrap.servers": source.KafkaAddress(), "availability.check.ms": "1000", "availability.check.consecutive.failure.threshold": "1",
		"acl.sync.enable": "true", "acl.filters": `{"aclFilters":[{"resourceFilter":{"resourceType":"any","patternType":"any"},"accessFilter":{"operation":"any","permissionType":"any"}}]}`,
		"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`} {
		configs = append(configs, api.ConfigData{Name: name, Value: &value})
	}
	if _, err := c.CreateLink(t.Context(), restclient.NewLink{Name: "east", Body: api.CreateLinkRequest{Configs: configs}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateMirror(t.Context(), "east", api.CreateMirrorRequest{SourceTopicName: "orders"}); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := from.ProduceSync(within(t), &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	to := manual(t, b, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 100; {
		fetches := to.PollFetches(within(t))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	create(t, to, "own", 1)
	if err := to.ProduceSync(within(t), &kgo.Record{Topic: "own", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return source, b, c
}

func manual(t *testing.T, b *broker.Broker, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, b, append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
}

// until waits until a look shows what is wanted.
func until(t *testing.T, what string, look func() (bool, any)) {
	t.Helper()
	var last any
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ok, seen := look()
		if ok {
			return
		}
		last = seen
	}
	t.Fatalf("never came: %s; last seen: %v", what, last)
}

// TestX3_MetricsOfAMirrorWhoseSourceDies also holds docs/metrics.md, dashboard and alerts against a real scrape.
func TestX3_MetricsOfAMirrorWhoseSourceDies(t *testing.T) {
	source, b, c := watched(t)
	const of = `link="east",partition="0",topic="orders"`
	until(t, "a mirror that is well", func() (bool, any) {
		now := scrape(t, b)
		rpo, is := now["hawser_mirror_rpo_seconds"].samples[of]
		return is && rpo < 5 && now["hawser_mirror_lag_records"].samples[of] == 0 && now["hawser_mirror_lag_seconds"].samples[of] == 0 &&
			now["hawser_mirror_source_end_offset"].samples[of] == 50 && now["hawser_mirror_fetched_bytes_total"].samples[of] > 0, now["hawser_mirror_rpo_seconds"]
	})
	if n := scrape(t, b)["hawser_link_fetch_seconds"].samples[`link="east"`]; n < 1 {
		t.Errorf("%g fetches were timed", n)
	}
	var before map[string]family
	until(t, "a task in error, for the source keeps no ACLs", func() (bool, any) {
		before = scrape(t, b)
		return before["hawser_link_task_error"].samples[`code="SECURITY_DISABLED_ERROR",link="east",task="AclSync"`] == 1, before["hawser_link_task_error"]
	})
	stop(t, source)
	rising := 0.0
	until(t, "an RPO that grows while the source is dead", func() (bool, any) {
		rpo := scrape(t, b)["hawser_mirror_rpo_seconds"].samples[of]
		rising = max(rising, rpo)
		return rpo > 2, rpo
	})
	name := "orders"
	if _, err := c.Order(t.Context(), "east", "promote", api.AlterMirrorsRequest{MirrorTopicNames: []string{name}}, restclient.Do); err != nil {
		t.Fatal(err)
	}
	var last map[string]family
	until(t, "what keeps the promotion", func() (bool, any) {
		last = scrape(t, b)
		return len(last["hawser_mirror_transition_error"].samples) > 0, last["hawser_mirror_state"]
	})
	last["hawser_link_task_error"] = before["hawser_link_task_error"]
	if lag := last["hawser_mirror_lag_records"].samples[of]; lag != 0 {
		t.Errorf("lag is %g", lag)
	}
	checkPage(t, last)
	checkDashboard(t, last)
	checkAlerts(t, last)
}

// checkPage wants docs/metrics.md to list exactly the metrics that there are.
func checkPage(t *testing.T, all map[string]family) {
	t.Helper()
	var page strings.Builder
	page.WriteString("# Metrics\n\nServed at `/metrics` of the HTTP port in Prometheus' text format, read when they are asked for. This page is what a broker with a\n" +
		"link answered; a test writes and checks it. Histograms have `_bucket`, `_sum` and `_count`. Alert rules and a Grafana dashboard are in\n" +
		"`deploy/`. Beside these there are the Go runtime's (`go_…`) and the process's (`process_…`).\n\n| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; strings.HasPrefix(name, "hawser_") {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", name, f.kind, strings.Join(f.labels(), ", "), f.help)
			if len(f.samples) == 0 {
				t.Errorf("%s has no sample", name)
			}
		}
	}
	if *rewrite {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(metricsPage); err != nil || string(kept) != page.String() {
		t.Errorf("docs/metrics.md is not what /metrics answers (%v); run go test ./broker -run X3 -rewrite\n%s", err, page.String())
	}
}

// checkExpression wants an expression that Prometheus can read and that speaks of metrics and labels that there are.
func checkExpression(t *testing.T, where, expression string, all map[string]family) {
	t.Helper()
	for variable, value := range map[string]string{"$__rate_interval": "5m", "$link": ".*", "$topic": ".*"} {
		expression = strings.ReplaceAll(expression, variable, value)
	}
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %q: %v", where, expression, err)
		return
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		name := strings.TrimSuffix(selector.Name, "_bucket")
		f, known := all[name]
		if !known {
			t.Errorf("%s: there is no metric %s", where, selector.Name)
			return nil
		}
		for _, matcher := range selector.LabelMatchers {
			if !slices.Contains(append(f.labels(), "__name__", "job", "instance", "le"), matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, name, matcher.Name)
			}
		}
		return nil
	})
}

func checkDashboard(t *testing.T, all map[string]family) {
	t.Helper()
	raw, err := os.ReadFile("../deploy/grafana/hawser.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	queries := 0
	for _, p := range board.Panels {
		if seen[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			queries++
			checkExpression(t, "dashboard, "+p.Title, target.Expr, all)
		}
	}
	if board.UID == "" || queries < 20 {
		t.Errorf("the dashboard %q has %d queries", board.Title, queries)
	}
}

func checkAlerts(t *testing.T, all map[string]family) {
	t.Helper()
	raw, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(raw)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			checkExpression(t, "alert "+rule.Alert, rule.Expr, all)
			_, err := time.ParseDuration(rule.For)
			if names[rule.Alert] || rule.For != "" && err != nil || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("alert %+v: %v", rule, err)
			}
			names[rule.Alert] = true
		}
	}
	if len(names) < 8 {
		t.Errorf("%d alerts", len(names))
	}
}

// happened wants an event of that name, with the words in its text, in the timeline.
func happened(t *testing.T, b *broker.Broker, name, words string) {
	t.Helper()
	c, err := restclient.New("http://"+b.HTTPAddress(), restclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events(t.Context(), 0)
	if err != nil || !slices.ContainsFunc(events, func(e api.Event) bool { return e.Name == name && strings.Contains(e.Text, words) }) {
		t.Errorf("the timeline has no %s of %s: %+v, %v", name, words, events, err)
	}
}

// TestOrdersAreOnRecord gives orders by both doors and reads them in the audit log, and what happened in the timeline.
func TestOrdersAreOnRecord(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	c, err := restclient.New("http://"+b.HTTPAddress(), restclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, client(t, b), "by-kafka", 1)
	if _, err := c.CreateTopic(t.Context(), api.CreateTopicRequest{TopicName: "by-rest"}); err != nil {
		t.Fatal(err)
	}
	where := "127.0.0.1:1"
	secret := "PlainLoginModule required username=\"u\" password=\"top-secret\";"
	body := api.CreateLinkRequest{Configs: []api.ConfigData{{Name: "bootstrap.servers", Value: &where}, {Name: "sasl.jaas.config", Value: &secret}}}
	if _, err := c.CreateLink(t.Context(), restclient.NewLink{Name: "l", Body: body, SkipValidate: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Order(t.Context(), "l", "failover", api.AlterMirrorsRequest{MirrorTopicNames: []string{"gone"}}, restclient.ValidateOnly); err != nil {
		t.Fatal(err)
	}
	var refused *restclient.Error
	if err := c.DeleteTopic(t.Context(), "gone"); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(raw)) {
		var o struct {
			At                                 time.Time
			Principal, Door, Verb, Link, Error string
			Topics, Configs                    []string
			DryRun                             bool `json:"dry_run"`
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil || time.Since(o.At) > time.Minute || o.Principal != "User:ANONYMOUS" {
			t.Errorf("line %q: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %v %v %v %s", o.Door, o.Verb, o.Link, o.Topics, o.Configs, o.DryRun, o.Error))
	}
	want := []string{
		"kafka CreateTopics  [by-kafka] [] false ",
		"rest create-topic  [by-rest] [] false ",
		"rest create-link l [] [bootstrap.servers sasl.jaas.config] false ",
		"rest failover l [gone] [] true 1 of 1 topics refused: Topic 'gone' is not a mirror topic of cluster link 'l'. 'hawser mirror list' and GET …/links/-/mirrors show the mirror topics of all links.",
		"rest delete-topic  [gone] [] false 404: Topic 'gone' does not exist. GET …/topics and 'hawser topic list' show those there are.",
	}
	if !slices.Equal(got, want) || strings.Contains(string(raw), "top-secret") {
		t.Errorf("audit.log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	happened(t, b, "broker_ready", b.ClusterID())
	happened(t, b, "topic_created", "by-rest")
	happened(t, b, "link_created", "Link l")
	events, err := c.Events(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].Sequence
	if later, err := c.Events(t.Context(), last); err != nil || slices.ContainsFunc(later, func(e api.Event) bool { return e.Sequence <= last }) {
		t.Errorf("after the last: %+v, %v", later, err)
	}
}
