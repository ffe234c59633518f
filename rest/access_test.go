package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

// access lets users in by password and allows what is written beside their name, as "ALTER CLUSTER" or "DESCRIBE TOPIC orders".
type access map[string][]string

func (a access) Login(r *http.Request) (string, error) {
	user, password, _ := r.BasicAuth()
	if password != "secret" {
		return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Invalid username or password")
	}
	return "User:" + user, nil
}

func (a access) Allowed(_ *http.Request, principal string, op rest.Operation, res rest.Resource) bool {
	rights := a[strings.TrimPrefix(principal, "User:")]
	need := strings.TrimSpace(fmt.Sprintf("%s %s %s", op, res.Type, res.Name))
	return slices.Contains(rights, "ALL") || slices.Contains(rights, need) || slices.Contains(rights, fmt.Sprintf("%s %s *", op, res.Type))
}

func as(t *testing.T, c *resttest.Cluster, user, method, path, body string) asked {
	t.Helper()
	rq := httptest.NewRequest(method, path, strings.NewReader(body))
	rq.SetBasicAuth(user, "secret")
	return send(t, c, rq)
}

// guarded is aCluster behind ACLs.
func guarded(t *testing.T) *resttest.Cluster {
	t.Helper()
	c := resttest.New(t, func(d *rest.Deps) {
		d.Access = access{
			"admin":    {"ALL"},
			"reader":   {"DESCRIBE CLUSTER", "DESCRIBE TOPIC plain", "DESCRIBE GROUP seen"},
			"operator": {"DESCRIBE CLUSTER", "ALTER CLUSTER", "DESCRIBE TOPIC orders"},
			"restorer": {"DESCRIBE CLUSTER", "ALTER CLUSTER", "ALTER TOPIC invoices"},
			"nobody":   nil,
		}
	})
	for _, rq := range [][2]string{
		{"/links?link_name=live", `{"configs":[{"name":"bootstrap.servers","value":"a:1"}]}`},
		{"/links/live/mirrors", `{"source_topic_name":"orders"}`}, {"/links/live/mirrors", `{"source_topic_name":"secrets"}`},
		{"/topics", `{"topic_name":"plain"}`},
	} {
		if got := as(t, c, "admin", "POST", base+rq[0], rq[1]); got.status != 201 {
			t.Fatalf("%s: %d %s", rq[0], got.status, got.body)
		}
	}
	c.Groups.List = []rest.Group{{ID: "seen", State: "Empty"}, {ID: "hidden", State: "Stable"}}
	return c
}

func TestC76_WhoMayDoWhat(t *testing.T) {
	verb := `{"mirror_topic_names":["orders"]}`
	for _, row := range []struct {
		method, path, body string
		// by admin, reader, operator, nobody
		want [4]int
	}{
		{"GET", "/links", "", [4]int{200, 200, 200, 403}},
		{"GET", "/links/live", "", [4]int{200, 200, 200, 403}},
		{"GET", "/links/live/configs", "", [4]int{200, 200, 200, 403}},
		{"GET", "/links/-/mirrors", "", [4]int{200, 200, 200, 403}},
		{"GET", "/links/live/mirrors/orders", "", [4]int{200, 200, 200, 403}},
		{"POST", "/links?link_name=new&validate_only=true", `{"configs":[{"name":"bootstrap.servers","value":"a:1"}]}`, [4]int{204, 403, 204, 403}},
		{"DELETE", "/links/live?force=true&validate_only=true", "", [4]int{204, 403, 204, 403}},
		{"PUT", "/links/live/configs/acl.filters", `{"value":""}`, [4]int{204, 403, 204, 403}},
		{"PUT", "/links/live/configs:alter?validate_only=true", `{"data":[]}`, [4]int{204, 403, 204, 403}},
		{"POST", "/links/live/mirrors:promote?validate_only=true", verb, [4]int{200, 403, 200, 403}},
		{"POST", "/links/live/mirrors:failover?validate_only=true", verb, [4]int{200, 403, 200, 403}},
		{"POST", "/links/live/mirrors", `{"source_topic_name":"new"}`, [4]int{201, 403, 403, 403}},
		{"GET", "/topics/plain", "", [4]int{200, 200, 403, 403}},
		{"GET", "/topics/plain/configs", "", [4]int{200, 403, 403, 403}},
		{"POST", "/topics/plain/configs:alter", `{"data":[]}`, [4]int{204, 403, 403, 403}},
		{"POST", "/topics?validate_only=true", `{"topic_name":"t2"}`, [4]int{200, 403, 403, 403}},
		{"PATCH", "/topics/plain", `{"partitions_count":2}`, [4]int{200, 403, 403, 403}},
		{"GET", "/consumer-groups/seen", "", [4]int{200, 200, 403, 403}},
		{"DELETE", "/topics/plain", "", [4]int{204, 403, 403, 403}},
	} {
		for i, user := range []string{"admin", "reader", "operator", "nobody"} {
			c := guarded(t)
			before := as(t, c, "admin", "GET", base+"/links/-/mirrors", "").body + as(t, c, "admin", "GET", base+"/topics", "").body
			got := as(t, c, user, row.method, base+row.path, row.body)
			if got.status != row.want[i] {
				t.Errorf("%s %s by %s: got %d %s, want %d", row.method, row.path, user, got.status, got.body, row.want[i])
			}
			if got.status != 403 {
				continue
			}
			var body api.Error
			if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Code != 40301 || !strings.Contains(body.Message, "User:"+user) {
				t.Errorf("%s %s by %s: %s", row.method, row.path, user, got.body)
			}
			if after := as(t, c, "admin", "GET", base+"/links/-/mirrors", "").body + as(t, c, "admin", "GET", base+"/topics", "").body; after != before {
				t.Errorf("%s %s by %s was refused and had an effect", row.method, row.path, user)
			}
		}
	}
}

func TestWrongPasswordIs401(t *testing.T) {
	c := guarded(t)
	got := ask(t, c, "GET", base+"/links", "")
	if got.status != 401 || !strings.Contains(got.body, "40101") || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic") {
		t.Errorf("got %d %s %s", got.status, got.header, got.body)
	}
	for _, path := range []string{"/health/live", "/health/ready", "/openapi.yaml"} {
		if got := ask(t, c, "GET", path, ""); got.status != 200 {
			t.Errorf("%s: got %d; probes have no password", path, got.status)
		}
	}
}

func TestTopicsInABodyAreChecked(t *testing.T) {
	c := guarded(t)
	for _, body := range []string{`{"mirror_topic_names":["orders","secrets"]}`, `{"mirror_topic_name_pattern":".*s"}`} {
		got := as(t, c, "operator", "POST", base+"/links/live/mirrors:pause?validate_only=true", body)
		var out api.List[api.AlteredMirror]
		if err := json.Unmarshal([]byte(got.body), &out); err != nil || len(out.Data) != 2 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if out.Data[0].ErrorCode != nil || out.Data[1].ErrorCode == nil || *out.Data[1].ErrorCode != 403 {
			t.Errorf("%s: got %s", body, got.body)
		}
	}
	// Reversing needs ALTER on the topic, which the operator lacks.
	got := as(t, c, "operator", "POST", base+"/links/live/mirrors:reverse-and-start-mirror", `{"mirror_topic_names":["orders"]}`)
	if got.status != 200 || !strings.Contains(got.body, `"error_code":403`) || len(c.Links.Ordered) != 0 {
		t.Errorf("got %d %s, ordered %v", got.status, got.body, c.Links.Ordered)
	}
}

// A pattern of a restore means ordinary topics as well, which are no mirrors of the link: each takes ALTER, like one that is named.
func TestARestoreByPatternTakesOnlyTopicsThatTheCallerMayAlter(t *testing.T) {
	c := guarded(t)
	c.Links.Ordinary = []string{"invoices", "payroll"}
	for _, row := range []struct {
		user, pattern string
		ordered       string // the topics of the order that was carried out, "" for none
		told          string // what the answer shows
	}{
		{"operator", "pay.*", "", ""},
		{"operator", ".*", "", "orders:403 secrets:403 "},
		{"restorer", ".*", "invoices", "invoices:0 orders:403 secrets:403 "},
		{"admin", "pay.*|inv.*", "invoices,payroll", "invoices:0 payroll:0 "},
	} {
		c.Links.Ordered = nil
		got := as(t, c, row.user, "POST", base+"/links/live/mirrors:truncate-and-restore", `{"mirror_topic_name_pattern":"`+row.pattern+`"}`)
		var out api.List[api.AlteredMirror]
		if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != 200 {
			t.Fatalf("%s orders %s: %d %s", row.user, row.pattern, got.status, got.body)
		}
		told := ""
		for _, one := range out.Data {
			code := int32(0)
			if one.ErrorCode != nil {
				code = *one.ErrorCode
			}
			told += fmt.Sprintf("%s:%d ", one.MirrorTopicName, code)
		}
		ordered := strings.TrimPrefix(strings.Join(c.Links.Ordered, ";"), "truncate-and-restore live ")
		if ordered != row.ordered || told != row.told {
			t.Errorf("%s orders %s: ordered %q, want %q; told %q, want %q", row.user, row.pattern, ordered, row.ordered, told, row.told)
		}
	}
}

func TestListsShowWhatTheCallerMaySee(t *testing.T) {
	c := guarded(t)
	for user, want := range map[string]string{"admin": "hidden seen ", "reader": "seen ", "nobody": ""} {
		var groups api.List[api.Group]
		if err := json.Unmarshal([]byte(as(t, c, user, "GET", base+"/consumer-groups", "").body), &groups); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, g := range groups.Data {
			got += g.ConsumerGroupID + " "
		}
		if got != want {
			t.Errorf("%s sees %q, want %q", user, got, want)
		}
	}
}
