package rest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

const base = "/kafka/v3/clusters/" + resttest.ClusterID

// asked is one answer.
type asked struct {
	status int
	header http.Header
	body   string
}

// ask sends a request through the checked door.
func ask(t *testing.T, c *resttest.Cluster, method, path, body string) asked {
	t.Helper()
	rq := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		rq.Header.Set("Content-Type", "application/json")
	}
	return send(t, c, rq)
}

func send(t *testing.T, c *resttest.Cluster, rq *http.Request) asked {
	t.Helper()
	w := httptest.NewRecorder()
	c.Door.ServeHTTP(w, rq)
	raw, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{w.Code, w.Result().Header, string(raw)}
}

// must sends a request that has to be answered with the status, and decodes the body.
func must[T any](t *testing.T, c *resttest.Cluster, status int, method, path, body string) T {
	t.Helper()
	got := ask(t, c, method, path, body)
	if got.status != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, got.status, got.body, status)
	}
	var out T
	if got.body != "" {
		if err := json.Unmarshal([]byte(got.body), &out); err != nil {
			t.Fatalf("%s %s: decode %s: %v", method, path, got.body, err)
		}
	}
	return out
}

func mustDo(t *testing.T, c *resttest.Cluster, status int, method, path, body string) string {
	t.Helper()
	return string(must[json.RawMessage](t, c, status, method, path, body))
}

// newLink makes a link by the door.
func newLink(t *testing.T, c *resttest.Cluster, name string, configs ...string) {
	t.Helper()
	list := []map[string]string{{"name": "bootstrap.servers", "value": "SASL_SSL://source.example:9092"}}
	for _, pair := range configs {
		key, value, _ := strings.Cut(pair, "=")
		list = append(list, map[string]string{"name": key, "value": value})
	}
	raw, err := json.Marshal(map[string]any{"source_cluster_id": "src-1", "configs": list})
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, c, 201, "POST", base+"/links?link_name="+name, string(raw))
}

func newMirror(t *testing.T, c *resttest.Cluster, link, topic string) {
	t.Helper()
	mustDo(t, c, 201, "POST", base+"/links/"+link+"/mirrors", `{"source_topic_name":"`+topic+`"}`)
}

func TestDocumentHasEveryRouteAndNoOther(t *testing.T) {
	check := resttest.NewChecker(t)
	inTable := map[string]bool{}
	for _, r := range rest.RoutesForTest() {
		inTable[r] = true
		method, path, _ := strings.Cut(r, " ")
		item := check.Doc().Paths.Find(path)
		if item == nil || item.GetOperation(method) == nil {
			t.Errorf("route %s is not in openapi.yaml", r)
		}
	}
	for path, item := range check.Doc().Paths.Map() {
		for method := range item.Operations() {
			if len(item.Servers) == 0 && !inTable[method+" "+path] {
				t.Errorf("openapi.yaml has %s %s, which is no route", method, path)
			}
		}
	}
}

// A name that the document does not have would be one that generated clients refuse.
func TestDocumentHasEveryNameThatLinksUse(t *testing.T) {
	doc := resttest.NewChecker(t).Doc()
	enum := func(schema string) []string {
		var names []string
		for _, v := range doc.Components.Schemas[schema].Value.Enum {
			names = append(names, v.(string))
		}
		slices.Sort(names)
		return names
	}
	for _, r := range mirror.Reasons() {
		if !slices.Contains(enum("Reason"), string(r.Reason)) {
			t.Errorf("the document lacks the reason %s", r.Reason)
		}
	}
	statuses := slices.Sorted(slices.Values(mirror.Statuses()))
	if got := enum("MirrorStatus"); !slices.Equal(got, statuses) || !slices.Equal(api.MirrorStatuses, statuses) {
		t.Errorf("statuses: the document has %v, rest/api %v, link/mirror %v", got, api.MirrorStatuses, statuses)
	}
	var states []string
	for h := mirror.LinkUnknown; h <= mirror.LinkFailed; h++ {
		states = append(states, h.String())
	}
	slices.Sort(states)
	if got := enum("LinkState"); !slices.Equal(got, states) || !slices.Equal(api.LinkStates, states) {
		t.Errorf("link states: the document has %v, rest/api %v, link/mirror %v", got, api.LinkStates, states)
	}
}

func TestBothPrefixesServeTheSame(t *testing.T) {
	c := resttest.New(t)
	newLink(t, c, "my-link")
	a := mustDo(t, c, 200, "GET", "/kafka/v3/clusters/"+resttest.ClusterID+"/links", "")
	b := mustDo(t, c, 200, "GET", "/v3/clusters/"+resttest.ClusterID+"/links/", "")
	if strings.ReplaceAll(a, "/kafka/v3/", "/v3/") != b {
		t.Errorf("answers differ:\n%s\n%s", a, b)
	}
	if !strings.Contains(b, `"self":"http://example.com/v3/clusters/`) {
		t.Errorf("self does not keep the spelling that was used: %s", b)
	}
}

func TestVerification(t *testing.T) {
	c := resttest.New(t)
	newLink(t, c, "l")
	newMirror(t, c, "l", "t")
	at := base + "/links/l/mirrors/t/verification"
	if got := ask(t, c, "GET", at, ""); got.status != 404 {
		t.Errorf("before the first: %d %s", got.status, got.body)
	}
	if v := must[api.Verification](t, c, 202, "POST", at, ""); v.Finished != nil || v.SignedReport != "" || v.Verdict != "INCOMPLETE" {
		t.Errorf("while it runs: %+v", v)
	}
	v := must[api.Verification](t, c, 200, "GET", at, "")
	if v.Finished == nil || v.Verdict != "IDENTICAL" || len(v.Partitions) != 1 || v.Partitions[0].IdenticalBytes != 200 {
		t.Errorf("when it is done: %+v", v)
	}
	key := must[api.ReportKey](t, c, 200, "GET", base+"/report-key", "")
	if _, id, err := api.CheckReport(v.SignedReport); err != nil || id != key.KeyID {
		t.Errorf("the report is signed by %s, want %s: %v", id, key.KeyID, err)
	}
	if got := ask(t, c, "POST", base+"/links/l/mirrors/none/verification", ""); got.status != 404 {
		t.Errorf("of no mirror: %d %s", got.status, got.body)
	}
}
