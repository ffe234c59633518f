package rest_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

var verbs = []string{"promote", "failover", "pause", "resume", "reverse-and-start-mirror", "reverse-and-pause-mirror", "truncate-and-restore"}

func TestC56_DryRunChangesNothing(t *testing.T) {
	for _, verb := range verbs {
		c := aCluster(t)
		before := mustDo(t, c, 200, "GET", base+"/links/-/mirrors", "")
		orders := len(c.Links.Ordered)
		body := `{"mirror_topic_names":["orders","stopped","gone"]}`
		dry := mustDo(t, c, 200, "POST", base+"/links/live/mirrors:"+verb+"?validate_only=true", body)
		if after := mustDo(t, c, 200, "GET", base+"/links/-/mirrors", ""); after != before {
			t.Errorf("%s: validate_only changed\n%s\nto\n%s", verb, before, after)
		}
		if len(c.Links.Ordered) != orders {
			t.Errorf("%s: validate_only was carried out", verb)
		}
		if real := mustDo(t, c, 200, "POST", base+"/links/live/mirrors:"+verb, body); real != dry {
			t.Errorf("%s: dry run answered\n%s\nthe order\n%s", verb, dry, real)
		}
	}
}

func TestC57_LinkInUseIsNotDeleted(t *testing.T) {
	for _, status := range api.MirrorStatuses {
		c := resttest.New(t)
		newLink(t, c, "l")
		c.Links.PutMirror(link.MirrorInfo{Link: "l", Topic: "t", SourceTopic: "t", Partitions: 1, Status: status})
		want := 409
		if status == "STOPPED" {
			want = 204
		}
		got := ask(t, c, "DELETE", base+"/links/l", "")
		if got.status != want {
			t.Errorf("%s: got %d %s, want %d", status, got.status, got.body, want)
		}
		if want == 409 && (!strings.Contains(got.body, `"error_code":40903`) || !strings.Contains(got.body, ": t.")) {
			t.Errorf("%s: the answer does not name the mirror: %s", status, got.body)
		}
	}
}

func TestC57_ForceIsPassedOn(t *testing.T) {
	c := aCluster(t)
	mustDo(t, c, 204, "DELETE", base+"/links/live?force=true&validate_only=true", "")
	mustDo(t, c, 200, "GET", base+"/links/live", "")
	mustDo(t, c, 204, "DELETE", base+"/links/live?force=true", "")
	mustDo(t, c, 404, "GET", base+"/links/live", "")
}

func TestC62_StoppedMirrorsStayListed(t *testing.T) {
	c := resttest.New(t)
	newLink(t, c, "l")
	c.Links.PutMirror(link.MirrorInfo{Link: "l", Topic: "t", SourceTopic: "t", Partitions: 1, Status: "STOPPED", StateMs: 1_700_000_000_123,
		Lags: []link.Lag{{LastSourceFetch: 4711}}})
	m := must[api.Mirror](t, c, 200, "GET", base+"/links/l/mirrors/t", "")
	if m.StateTimeMs != 1_700_000_000_123 || m.MirrorLags[0].LastSourceFetchOffset != 4711 || m.MirrorTopicError != "NO_ERROR" {
		t.Errorf("got %+v", m)
	}
	listed := must[api.List[api.Mirror]](t, c, 200, "GET", base+"/links/-/mirrors?mirror_status=stopped", "")
	if len(listed.Data) != 1 {
		t.Errorf("got %d mirrors", len(listed.Data))
	}
}

func TestC64_AllFaultsInOneMessage(t *testing.T) {
	c := resttest.New(t)
	got := ask(t, c, "POST", base+"/links?link_name=l", `{"configs":[{"name":"bootstrap.servers","value":"a:1"},
		{"name":"consumer.offset.sync.enable","value":"true"},{"name":"auto.create.mirror.topics.enable","value":"true"},{"name":"acl.sync.enable","value":"true"}]}`)
	if got.status != 400 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	for _, key := range []string{"consumer.offset.group.filters", "auto.create.mirror.topics.filters", "acl.filters"} {
		if !strings.Contains(got.body, key) {
			t.Errorf("%s is not named: %s", key, got.body)
		}
	}
}

func TestC64_TasksAreShownWithTheirErrors(t *testing.T) {
	c := resttest.New(t)
	c.Links.Put(link.Info{Name: "l", State: "ACTIVE", Tasks: []link.Task{
		{Name: "TopicConfigsSync", State: "ACTIVE"},
		{Name: "AutoCreateMirror", State: "NOT_CONFIGURED", Errors: []link.Coded{{Code: "MISCONFIGURATION_ERROR", Text: "auto.create.mirror.topics.filters is empty, so nothing matches."}}},
	}})
	l := must[api.Link](t, c, 200, "GET", base+"/links/l?include_tasks=true", "")
	if l.Tasks == nil || len(*l.Tasks) != 2 || (*l.Tasks)[0].TaskName != "AutoCreateMirror" || (*l.Tasks)[0].Errors[0].ErrorCode != "MISCONFIGURATION_ERROR" {
		t.Errorf("got %+v", l.Tasks)
	}
	if body := mustDo(t, c, 200, "GET", base+"/links/l", ""); strings.Contains(body, "tasks") {
		t.Errorf("tasks were not asked for: %s", body)
	}
	c.Links.Put(link.Info{Name: "none"})
	if body := mustDo(t, c, 200, "GET", base+"/links/none?include_tasks=true", ""); !strings.Contains(body, `"tasks":[]`) {
		t.Errorf("no array of tasks: %s", body)
	}
}

func TestC65_BootstrapServersAlone(t *testing.T) {
	c := resttest.New(t)
	mustDo(t, c, 201, "POST", base+"/links?link_name=l", `{"configs":[{"name":"bootstrap.servers","value":"a:9092"}]}`)
}

func TestC66_TopicNamesIsAlwaysAnArray(t *testing.T) {
	c := resttest.New(t)
	if body := mustDo(t, c, 200, "GET", base+"/links", ""); !strings.Contains(body, `"data":[]`) {
		t.Errorf("no links: %s", body)
	}
	c.Links.Put(link.Info{Name: "b", State: "UNAVAILABLE", Err: "TIMEOUT_ERROR", ErrText: "No answer."})
	c.Links.Put(link.Info{Name: "a", Topics: []string{"z", "y"}, Categories: map[string]int32{"PENDING": 1, "ACTIVE": 2, "PAUSED": 0}, RemoteClusterID: "r"})
	got := must[api.List[api.Link]](t, c, 200, "GET", base+"/links", "").Data
	if len(got) != 2 || got[0].LinkName != "a" || !slices.Equal(got[0].TopicNames, []string{"y", "z"}) || got[1].TopicNames == nil || len(got[1].TopicNames) != 0 {
		t.Fatalf("got %+v", got)
	}
	if got[1].LinkError != "TIMEOUT_ERROR" || *got[1].LinkErrorMessage != "No answer." || got[0].LinkError != "NO_ERROR" {
		t.Errorf("errors: %+v", got)
	}
	want := []api.CategoryCount{{StateCategory: "ACTIVE", Count: 2}, {StateCategory: "PENDING", Count: 1}}
	if !slices.Equal(got[0].CategoryCounts, want) {
		t.Errorf("counts: %+v", got[0].CategoryCounts)
	}
}

func TestC66_ClusterIDsByMode(t *testing.T) {
	for mode, want := range map[string][3]string{
		"": {"r", "", "r"}, "DESTINATION": {"r", "", "r"}, "SOURCE": {"", "r", "r"}, "BIDIRECTIONAL": {"", "", "r"},
	} {
		c := resttest.New(t)
		c.Links.Put(link.Info{Name: "l", Mode: mode, RemoteClusterID: "r"})
		l := must[api.Link](t, c, 200, "GET", base+"/links/l", "")
		got := [3]string{deref(l.SourceClusterID), deref(l.DestinationClusterID), deref(l.RemoteClusterID)}
		if got != want {
			t.Errorf("mode %q: got %v, want %v", mode, got, want)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestC67_ErrorsOfAMirror(t *testing.T) {
	c := resttest.New(t)
	newLink(t, c, "l")
	for _, name := range []string{"SOURCE_TOPIC_MAY_BE_DELETED", "SOURCE_TOPIC_ID_CHANGED", "UNSUPPORTED_MESSAGE_FORMAT"} {
		c.Links.PutMirror(link.MirrorInfo{Link: "l", Topic: name, SourceTopic: name, Status: "FAILED", Err: name, ErrText: "Why.",
			TransitionErrors: []link.Coded{{Code: "AUTHORIZATION_ERROR", Text: "READ is missing."}}})
		m := must[api.Mirror](t, c, 200, "GET", base+"/links/l/mirrors/"+name+"?include_state_transition_errors=true", "")
		if m.MirrorTopicError != name || m.MirrorTopicErrorMessage != "Why." || m.MirrorStateTransitionErrors == nil || (*m.MirrorStateTransitionErrors)[0].ErrorCode != "AUTHORIZATION_ERROR" {
			t.Errorf("got %+v", m)
		}
		if plain := mustDo(t, c, 200, "GET", base+"/links/l/mirrors/"+name, ""); strings.Contains(plain, "mirror_state_transition_errors") {
			t.Errorf("not asked for: %s", plain)
		}
	}
	newMirror(t, c, "l", "well")
	if body := mustDo(t, c, 200, "GET", base+"/links/l/mirrors/well?include_state_transition_errors=true", ""); !strings.Contains(body, `"mirror_state_transition_errors":[]`) || !strings.Contains(body, `"NO_ERROR"`) {
		t.Errorf("got %s", body)
	}
}

// encoded writes every byte of a name as %XX.
func encoded(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02X", name[i])
	}
	return b.String()
}

func TestC69_NamesInURLs(t *testing.T) {
	for _, name := range []string{"a.b", "a-b", "_x", "configs", "mirrors", "-a", "...", "a..b"} {
		c := resttest.New(t)
		newLink(t, c, encoded(name))
		for _, topic := range []string{"mirrors", ".x", "a..b", "T", "t", "-", "configs"} {
			newMirror(t, c, name, topic)
			for _, at := range []string{base + "/links/" + name + "/mirrors/" + topic, base + "/links/" + encoded(name) + "/mirrors/" + encoded(topic)} {
				if m := must[api.Mirror](t, c, 200, "GET", at, ""); m.MirrorTopicName != topic || m.LinkName != name {
					t.Errorf("%s: got %s of %s", at, m.MirrorTopicName, m.LinkName)
				}
			}
			out := must[api.List[api.AlteredMirror]](t, c, 200, "POST", base+"/links/"+encoded(name)+"/mirrors%3Apause", `{"mirror_topic_names":["`+topic+`"]}`)
			if len(out.Data) != 1 || out.Data[0].ErrorCode != nil {
				t.Errorf("%s/%s: pause: %+v", name, topic, out.Data)
			}
		}
		mustDo(t, c, 200, "GET", base+"/links/"+encoded(name)+"/configs/acl.filters", "")
		mustDo(t, c, 204, "PUT", base+"/links/"+name+"/configs/acl%2Efilters", `{"value":"x"}`)
		mustDo(t, c, 204, "DELETE", base+"/links/"+encoded(name)+"?force=true", "")
		if got := must[api.List[api.Link]](t, c, 200, "GET", base+"/links", ""); len(got.Data) != 0 {
			t.Errorf("%s was not deleted", name)
		}
	}
}

func TestC69_IllegalNames(t *testing.T) {
	c := aCluster(t)
	before := everything(t, c)
	for _, name := range []string{strings.Repeat("x", 201), "a/b", "", ".", "..", "-", "größe", "a b", "a\x00b", "a:b", "a%b"} {
		body := `{"configs":[{"name":"bootstrap.servers","value":"a:1"}]}`
		if got := ask(t, c, "POST", base+"/links?link_name="+url.QueryEscape(name), body); got.status != 400 {
			t.Errorf("create %q: got %d %s", name, got.status, got.body)
		}
		if name == "" {
			continue
		}
		for _, rq := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/configs"}, {"POST", "/mirrors:promote"}, {"POST", "/mirrors"}} {
			if got := ask(t, c, rq[0], base+"/links/"+encoded(name)+rq[1], `{"mirror_topic_names":["orders"],"source_topic_name":"a"}`); got.status != 400 {
				t.Errorf("%s %q%s: got %d %s", rq[0], name, rq[1], got.status, got.body)
			}
		}
	}
	if after := everything(t, c); after != before {
		t.Errorf("illegal names left something behind:\n%s\n%s", before, after)
	}
}

func TestC69_DashListsAllLinks(t *testing.T) {
	c := resttest.New(t)
	for _, name := range []string{"b", "a"} {
		newLink(t, c, name)
		newMirror(t, c, name, name+"2")
		newMirror(t, c, name, name+"1")
	}
	var got []string
	for _, m := range must[api.List[api.Mirror]](t, c, 200, "GET", base+"/links/-/mirrors", "").Data {
		got = append(got, m.LinkName+"/"+m.MirrorTopicName)
	}
	if want := []string{"a/a1", "a/a2", "b/b1", "b/b2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestC70_CreateAnswersWithTheMirrorsName(t *testing.T) {
	c := resttest.New(t)
	newLink(t, c, "l", "cluster.link.prefix=w_")
	got := ask(t, c, "POST", base+"/links/l/mirrors", `{"source_topic_name":"clicks","mirror_topic_name":"w_clicks"}`)
	location := got.header.Get("Location")
	if got.status != 201 || !strings.HasSuffix(location, "/links/l/mirrors/w_clicks") || !strings.Contains(got.body, `"mirror_topic_name":"w_clicks"`) {
		t.Fatalf("got %d, Location %s, %s", got.status, location, got.body)
	}
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	if m := must[api.Mirror](t, c, 200, "GET", u.Path, ""); m.SourceTopicName != "clicks" || m.Metadata.Self != location {
		t.Errorf("got %+v", m)
	}
}

func TestC71_SameNameAgain(t *testing.T) {
	c := aCluster(t)
	got := ask(t, c, "POST", base+"/links?link_name=live", `{"configs":[{"name":"bootstrap.servers","value":"a:1"}]}`)
	if got.status != 409 || !strings.Contains(got.body, `"error_code":40902`) || !strings.Contains(got.body, "live") {
		t.Errorf("link: %d %s", got.status, got.body)
	}
	got = ask(t, c, "POST", base+"/links/live/mirrors", `{"source_topic_name":"orders"}`)
	if got.status != 400 || !strings.Contains(got.body, `"error_code":40002`) || !strings.Contains(got.body, "orders") {
		t.Errorf("mirror: %d %s", got.status, got.body)
	}
}

func TestC72_ConfigsInAnyOrder(t *testing.T) {
	pairs := []string{`{"name":"bootstrap.servers","value":"a:1"}`, `{"name":"acl.filters","value":"x"}`, `{"name":"sasl.mechanism","value":"PLAIN"}`,
		`{"name":"security.protocol","value":"SASL_SSL"}`, `{"name":"sasl.jaas.config","value":"secret"}`}
	want := ""
	for range 20 {
		c := resttest.New(t)
		rand.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		mustDo(t, c, 201, "POST", base+"/links?link_name=l", `{"configs":[`+strings.Join(pairs, ",")+`]}`)
		got := mustDo(t, c, 200, "GET", base+"/links/l/configs", "")
		if want != "" && got != want {
			t.Fatalf("answers differ:\n%s\n%s", got, want)
		}
		want = got
	}
	if strings.Contains(want, "secret") {
		t.Errorf("a sensitive value went out: %s", want)
	}
}

func TestConfigBooleansHaveBothSpellings(t *testing.T) {
	c := aCluster(t)
	for _, cfg := range must[api.List[api.LinkConfig]](t, c, 200, "GET", base+"/links/live/configs", "").Data {
		if cfg.IsDefault != cfg.Default || cfg.IsReadOnly != cfg.ReadOnly || cfg.IsSensitive != cfg.Sensitive {
			t.Errorf("%s: spellings differ: %+v", cfg.Name, cfg)
		}
		if (cfg.Source == api.SourceDefault) != cfg.IsDefault || cfg.Synonyms == nil {
			t.Errorf("%s: %+v", cfg.Name, cfg)
		}
	}
	boot := must[api.LinkConfig](t, c, 200, "GET", base+"/links/live/configs/bootstrap.servers", "")
	if boot.Value == nil || *boot.Value != "SASL_SSL://source.example:9092" || boot.Source != api.SourceDynamicLink {
		t.Errorf("bootstrap.servers: %+v", boot)
	}
}

func TestAlterConfigs(t *testing.T) {
	for _, method := range []string{"PUT", "POST"} {
		c := aCluster(t)
		at := base + "/links/live/configs:alter"
		mustDo(t, c, 204, method, at+"?validate_only=true", `{"data":[{"name":"cluster.link.paused","value":"true"}]}`)
		mustDo(t, c, 204, method, at, `{"data":[{"name":"cluster.link.paused","value":"true"}],"validate_only":true}`)
		if l := must[api.Link](t, c, 200, "GET", base+"/links/live", ""); l.LinkState != "ACTIVE" {
			t.Errorf("%s: validate_only paused the link", method)
		}
		mustDo(t, c, 204, method, at, `{"data":[{"name":"cluster.link.paused","value":"true","operation":"SET"},{"name":"acl.filters","operation":"DELETE"}],"newer":"field"}`)
		if l := must[api.Link](t, c, 200, "GET", base+"/links/live", ""); l.LinkState != "PAUSED" {
			t.Errorf("%s: the link is %s", method, l.LinkState)
		}
		mustDo(t, c, 204, "DELETE", base+"/links/live/configs/cluster.link.paused", "")
		if cfg := must[api.LinkConfig](t, c, 200, "GET", base+"/links/live/configs/cluster.link.paused", ""); !cfg.IsDefault || *cfg.Value != "false" {
			t.Errorf("%s: after DELETE: %+v", method, cfg)
		}
	}
}

func TestOrdersByPatternAndPerTopicErrors(t *testing.T) {
	c := aCluster(t)
	out := must[api.List[api.AlteredMirror]](t, c, 200, "POST", base+"/links/live/mirrors:failover", `{"mirror_topic_name_pattern":".*"}`).Data
	if len(out) != 3 || out[0].MirrorTopicName != "orders" || out[2].MirrorTopicName != "stopped" {
		t.Fatalf("got %+v", out)
	}
	if out[0].ErrorCode != nil || out[0].ErrorMessage != nil || *out[2].ErrorCode != 400 || *out[2].ErrorMessage != "Topic 'stopped' has already stopped its mirror from 'live'" {
		t.Errorf("got %+v", out)
	}
	if parts := []int32{out[0].MirrorLags[0].Partition, out[0].MirrorLags[1].Partition}; !slices.Equal(parts, []int32{0, 1}) {
		t.Errorf("lags are not by partition: %v", parts)
	}
	twice := must[api.List[api.AlteredMirror]](t, c, 200, "POST", base+"/links/live/mirrors:pause", `{"mirror_topic_names":["orders","orders"]}`).Data
	if len(twice) != 1 {
		t.Errorf("a topic named twice has %d rows", len(twice))
	}
}

func TestTruncationData(t *testing.T) {
	c := aCluster(t)
	at := base + "/links/live/mirrors:truncate-and-restore"
	plain := must[api.List[api.AlteredMirror]](t, c, 200, "POST", at+"?validate_only=true", `{"mirror_topic_names":["stopped"]}`).Data[0]
	if *plain.MessagesTruncated != 7 || len(plain.PartitionLevelTruncationData) != 0 {
		t.Errorf("got %+v", plain)
	}
	with := must[api.List[api.AlteredMirror]](t, c, 200, "POST", at+"?include_partition_level_truncation_data=true", `{"mirror_topic_names":["stopped"]}`).Data[0]
	want := []api.Truncation{{PartitionID: 0, OffsetTruncatedTo: 100, MessagesTruncated: 3}, {PartitionID: 1, OffsetTruncatedTo: 90, MessagesTruncated: 4}}
	if !slices.Equal(with.PartitionLevelTruncationData, want) {
		t.Errorf("got %+v", with.PartitionLevelTruncationData)
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	c := aCluster(t)
	srv := httptest.NewServer(c.Door)
	defer srv.Close()
	response, err := srv.Client().Head(srv.URL + base + "/links/live")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s", response.StatusCode, response.Header)
	}
}

// everything is all that the cluster shows.
func everything(t *testing.T, c *resttest.Cluster) string {
	t.Helper()
	out := ""
	for _, path := range []string{"/links", "/links/-/mirrors", "/links/live/configs", "/topics", "/topics/plain/configs", "/topics/plain/partitions"} {
		out += mustDo(t, c, 200, "GET", base+path, "")
	}
	return out
}
