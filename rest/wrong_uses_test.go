package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

// wrongUse is a request that must be refused, with words that say what is wrong.
type wrongUse struct {
	method, path, body string // the path is below the cluster unless it begins with a slash
	status, code       int
	words              string
}

var wrongUses = []wrongUse{
	// Addresses and methods.
	{"GET", "/kafka/v3/nothing", "", 404, 404, "HTTP 404 Not Found"},
	{"GET", "/nothing", "", 404, 404, "/openapi.yaml"},
	{"GET", "links/live/nothing", "", 404, 404, "HTTP 404 Not Found"},
	{"GET", "links/live/mirrors:promote", "", 405, 405, "takes POST, not GET"},
	{"PATCH", "links/live", "", 405, 405, "takes DELETE, GET, HEAD"},
	{"DELETE", "links/live/mirrors/orders", "", 405, 405, "takes GET, HEAD"},
	{"POST", "/health/live", "", 405, 405, "takes GET"},
	{"GET", "links//mirrors", "", 400, 400, "empty segment"},
	{"GET", "links/../links", "", 400, 400, "'..'"},
	{"GET", "/kafka/v3/clusters/other/links", "", 404, 404, "Cluster other cannot be found. This cluster is " + resttest.ClusterID},
	// Bodies.
	{"POST", "links/live/mirrors", "", 400, 400, "has no body"},
	{"POST", "links/live/mirrors", "{", 400, 400, "not JSON"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a"} x`, 400, 400, "not JSON"},
	{"POST", "links/live/mirrors", `[]`, 400, 400, "must be an object"},
	{"POST", "links/live/mirrors", `{"source_topic_name":5}`, 400, 400, "'source_topic_name' is a JSON number; it must be a string"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","replication_factor":"3"}`, 400, 400, "'replication_factor' is a JSON string; it must be a whole number"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","configs":{"k":"v"}}`, 400, 400, "'configs' is a JSON object; it must be an array"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","configs":[{"name":"k","value":1}]}`, 400, 400, "configs.value' is a JSON number; it must be a string"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","configs":[{"value":"1"}]}`, 400, 400, "'configs[0].name' is missing"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","configs":[{"name":"k","value":"1"},{"name":"k","value":"2"}]}`, 400, 400, "'k' is given twice"},
	{"POST", "links/live/mirrors", `{}`, 400, 400, "'source_topic_name' is missing"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a b"}`, 400, 40002, "Topic name is invalid"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","mirror_topic_name":"x:promote"}`, 400, 40002, "Topic name is invalid"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","replication_factor":0}`, 400, 400, "'replication_factor' is 0"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","replication_factor":99999}`, 400, 400, "'replication_factor' is 99999"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_names":["orders"],"validate_only":true,"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, 413, "longer than 1048576 bytes"},
	// Links.
	{"POST", "links", `{}`, 400, 400, "link_name is missing"},
	{"POST", "links?link_name=", `{}`, 400, 400, "Invalid Cluster Link Name: it is empty"},
	{"POST", "links?link_name=-", `{}`, 400, 400, "Invalid Cluster Link Name"},
	{"POST", "links?link_name=a%2Fb", `{}`, 400, 400, "Invalid Cluster Link Name"},
	{"POST", "links?link_name=" + strings.Repeat("x", 201), `{}`, 400, 400, "longer than 200 characters"},
	{"POST", "links?link_name=new&validate_link=maybe", `{}`, 400, 400, "validate_link is true or false, not 'maybe'"},
	{"POST", "links?link_name=new&validate_only=1", `{}`, 400, 400, "validate_only is true or false"},
	{"POST", "links?link_name=new", ``, 400, 40002, "bootstrap.servers is missing"},
	{"POST", "links?link_name=new", `{"source_cluster_id":"a","remote_cluster_id":"b"}`, 400, 400, "two other clusters"},
	{"POST", "links?link_name=new", `{"configs":[{"name":"bootstrap.servers","value":"a:1"},{"name":"boostrap","value":"x"}]}`, 400, 40002, "Unknown link config 'boostrap'"},
	{"POST", "links?link_name=live", `{"configs":[{"name":"bootstrap.servers","value":"a:1"}]}`, 409, 40902, "Cluster link 'live' already exists"},
	{"GET", "links/gone", "", 404, 404, "The cluster link doesn't exist: Cluster link 'gone' does not exist."},
	{"GET", "links/-", "", 400, 400, "'-' has a meaning of its own"},
	{"GET", "links/live?include_tasks=yes", "", 400, 400, "include_tasks is true or false"},
	{"DELETE", "links/gone", "", 404, 404, "does not exist"},
	{"DELETE", "links/live", "", 409, 40903, "2 mirror topics that are not stopped: orders, paused"},
	{"DELETE", "links/live?validate_only=true", "", 409, 40903, "orders"},
	{"GET", "links/gone/configs", "", 404, 404, "does not exist"},
	{"GET", "links/live/configs/no.such", "", 404, 404, "has no config 'no.such'"},
	{"PUT", "links/live/configs/acl.filters", `{}`, 400, 400, "'value' is missing"},
	{"PUT", "links/live/configs/acl.filters", `{"value":true}`, 400, 400, "'value' is a JSON bool; it must be a string"},
	{"PUT", "links/live/configs/no.such", `{"value":"x"}`, 400, 40002, "Unknown link config"},
	{"PUT", "links/live/configs/link.mode", `{"value":"SOURCE"}`, 400, 40002, "Create a new link"},
	{"DELETE", "links/live/configs/no.such", ``, 400, 40002, "Unknown link config"},
	{"PUT", "links/live/configs:alter", `{}`, 400, 400, "'data' is missing"},
	{"PUT", "links/live/configs:alter", `{"data":[{"name":"acl.filters","value":"x","operation":"APPEND"}]}`, 400, 400, "must be SET or DELETE"},
	{"PUT", "links/live/configs:alter", `{"data":[{"name":"acl.filters"}]}`, 400, 400, "use the operation DELETE"},
	{"PUT", "links/live/configs:alter", `{"data":[{"value":"x"}]}`, 400, 400, "'data[0].name' is missing"},
	{"PUT", "links/live/configs:alter", `{"data":[{"name":"a","value":"x"},{"name":"a","value":"y"}]}`, 400, 400, "given twice"},
	// Mirrors.
	{"GET", "links/gone/mirrors", "", 404, 404, "does not exist"},
	{"GET", "links/-/mirrors?mirror_status=HAPPY", "", 400, 400, "must be one of ACTIVE, FAILED"},
	{"GET", "links/live/mirrors/gone", "", 404, 404, "The mirror topic doesn't exist: Topic 'gone'"},
	{"GET", "links/gone/mirrors/orders", "", 404, 404, "The cluster link doesn't exist: "},
	{"GET", "links/live/mirrors/x:promote", "", 400, 40002, "Topic name is invalid"},
	{"GET", "links/live/mirrors/orders?include_state_transition_errors=x", "", 400, 400, "is true or false"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"orders"}`, 400, 40002, "Topic 'orders' already exists"},
	{"POST", "links/live/mirrors", `{"source_topic_name":"a","mirror_topic_name":"b"}`, 400, 40002, "renaming"},
	{"POST", "links/gone/mirrors", `{"source_topic_name":"a"}`, 404, 404, "does not exist"},
	{"POST", "links/-/mirrors", `{"source_topic_name":"a"}`, 400, 400, "Invalid Cluster Link Name"},
	{"POST", "links/gone/mirrors:promote", `{"mirror_topic_names":["a"]}`, 404, 404, "does not exist"},
	{"POST", "links/live/mirrors:promote", `{}`, 400, 400, "No mirror topics are named"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_names":[]}`, 400, 400, "No mirror topics are named"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_names":[""]}`, 400, 400, "empty name"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_names":"orders"}`, 400, 400, "'mirror_topic_names' is a JSON string; it must be an array"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_names":["a"],"mirror_topic_name_pattern":".*"}`, 400, 400, "Give one"},
	{"POST", "links/live/mirrors:promote", `{"mirror_topic_name_pattern":"("}`, 400, 400, "no regular expression"},
	{"POST", "links/live/mirrors:explode", `{"mirror_topic_names":["a"]}`, 404, 404, "HTTP 404 Not Found"},
	{"POST", "links/live/mirrors:pause?validate_only=x", `{"mirror_topic_names":["a"]}`, 400, 400, "validate_only"},
	// Topics, partitions, brokers, groups.
	{"POST", "topics", `{}`, 400, 400, "'topic_name' is missing"},
	{"POST", "topics", `{"topic_name":".."}`, 400, 40002, "Topic name is invalid"},
	{"POST", "topics", `{"topic_name":"` + strings.Repeat("x", 250) + `"}`, 400, 40002, "longer than the max allowed length 249"},
	{"POST", "topics", `{"topic_name":"t","partitions_count":0}`, 400, 400, "'partitions_count' is 0"},
	{"POST", "topics", `{"topic_name":"t","partitions_count":1.5}`, 400, 400, "whole number"},
	{"POST", "topics", `{"topic_name":"t","partitions_count":3000000000}`, 400, 400, "whole number"},
	{"POST", "topics", `{"topic_name":"t","replication_factor":3}`, 400, 40002, "larger than available brokers"},
	{"POST", "topics", `{"topic_name":"t","configs":[{"name":"clean.policy","value":"x"}]}`, 400, 40002, "Unknown topic config name"},
	{"POST", "topics", `{"topic_name":"plain"}`, 400, 40002, "already exists"},
	{"GET", "topics/gone", "", 404, 40403, "Topic 'gone' does not exist"},
	{"DELETE", "topics/gone", "", 404, 40403, "does not exist"},
	{"PATCH", "topics/plain", `{}`, 400, 400, "'partitions_count' must be"},
	{"PATCH", "topics/plain", `{"partitions_count":1}`, 400, 40002, "not be an increase"},
	{"GET", "topics/plain/configs/no.such", "", 404, 404, "has no config"},
	{"POST", "topics/plain/configs:alter", `{"data":[{"name":"no.such","value":"x"}]}`, 400, 40002, "Unknown topic config name"},
	{"GET", "topics/plain/partitions/7", "", 404, 40403, "has no partition 7; it has 1"},
	{"GET", "topics/plain/partitions/first", "", 400, 400, "is a number, not 'first'"},
	{"GET", "topics/plain/partitions/0/replicas/9", "", 404, 404, "no replica on broker 9"},
	{"GET", "brokers/9", "", 404, 404, "Broker 9 cannot be found"},
	{"GET", "brokers/99999999999", "", 400, 400, "is a number"},
	{"GET", "consumer-groups/gone", "", 404, 404, "'gone' cannot be found"},
	{"GET", "consumer-groups/gone/lags", "", 404, 404, "'gone' cannot be found"},
}

// aCluster has a link "live" with an active, a paused and a stopped mirror, and a topic "plain".
func aCluster(t *testing.T) *resttest.Cluster {
	t.Helper()
	c := resttest.New(t)
	newLink(t, c, "live")
	for _, topic := range []string{"orders", "paused", "stopped"} {
		newMirror(t, c, "live", topic)
	}
	mustDo(t, c, 200, "POST", base+"/links/live/mirrors:pause", `{"mirror_topic_names":["paused"]}`)
	mustDo(t, c, 200, "POST", base+"/links/live/mirrors:promote", `{"mirror_topic_names":["stopped"]}`)
	mustDo(t, c, 201, "POST", base+"/topics", `{"topic_name":"plain"}`)
	return c
}

func TestWrongUses(t *testing.T) {
	c := aCluster(t)
	before := everything(t, c)
	for _, use := range wrongUses {
		path := use.path
		if !strings.HasPrefix(path, "/") {
			path = base + "/" + path
		}
		t.Run(fmt.Sprintf("%s %.60s %.50s", use.method, use.path, use.body), func(t *testing.T) {
			got := ask(t, c, use.method, path, use.body)
			var body api.Error
			if err := json.Unmarshal([]byte(got.body), &body); err != nil {
				t.Fatalf("%d %s: %v", got.status, got.body, err)
			}
			if got.status != use.status || body.Code != use.code || !strings.Contains(body.Message, use.words) {
				t.Errorf("got %d/%d %s\nwant %d/%d with %q", got.status, body.Code, body.Message, use.status, use.code, use.words)
			}
			if got.status == 405 && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	if after := everything(t, c); after != before {
		t.Errorf("refused requests left something behind:\n%s\nbefore:\n%s", after, before)
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

func TestForeignContentTypesAreRefused(t *testing.T) {
	c := aCluster(t)
	for contentType, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "application/vnd.kafka.v3+json": 200, "": 200,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, ";;": 415,
	} {
		rq := httptest.NewRequest("POST", base+"/links/live/mirrors:pause?validate_only=true", strings.NewReader(`{"mirror_topic_names":["orders"]}`))
		if contentType != "" {
			rq.Header.Set("Content-Type", contentType)
		}
		if got := send(t, c, rq); got.status != want {
			t.Errorf("%q: got %d %s, want %d", contentType, got.status, got.body, want)
		}
	}
}

func TestOtherSitesCannotOrder(t *testing.T) {
	c := aCluster(t)
	for header, want := range map[string]int{"same-origin": 204, "none": 204, "cross-site": 403, "same-site": 403} {
		rq := httptest.NewRequest("DELETE", base+"/links/live/configs/acl.filters", nil)
		rq.Header.Set("Sec-Fetch-Site", header)
		if got := send(t, c, rq); got.status != want {
			t.Errorf("%s: got %d %s, want %d", header, got.status, got.body, want)
		}
	}
}

func TestStatusOfEachFailure(t *testing.T) {
	for _, row := range []struct {
		err          error
		status, code int
	}{
		{&link.Error{Kind: link.BadRequest, Text: "t"}, 400, 40002},
		{&link.Error{Kind: link.WrongState, Text: "t"}, 400, 40002},
		{&link.Error{Kind: link.Unreachable, Text: "t", Err: kafka.SaslAuthenticationFailed}, 400, 40002},
		{&link.Error{Kind: link.NotFound, Text: "t"}, 404, 404},
		{&link.Error{Kind: link.InUse, Text: "t"}, 409, 40903},
		{&link.Error{Kind: link.Exists, Text: "t"}, 409, 40902},
		{&link.Error{Kind: link.Forbidden, Text: "t"}, 403, 40301},
		{&link.Error{Kind: link.Internal, Text: "t"}, 500, 500},
		{&link.Error{Kind: link.Internal, Text: "t", Err: kafka.KafkaStorageError}, 500, 50003},
		{&link.Error{Kind: link.Unreachable, Text: "t", Err: kafka.TopicAuthorizationFailed}, 403, 40301},
		{kafka.Errorf(kafka.ClusterAuthorizationFailed, "t"), 403, 40301},
		{kafka.Errorf(kafka.UnsupportedVersion, "t"), 400, 40035},
		{kafka.Errorf(kafka.ThrottlingQuotaExceeded, "t"), 429, 42901},
		{kafka.Errorf(kafka.RequestTimedOut, "t"), 408, 408},
		{kafka.Errorf(kafka.CoordinatorNotAvailable, "t"), 503, 50302},
		{kafka.Errorf(kafka.InconsistentVoterSet, "t"), 500, 50002},
		{fmt.Errorf("read: %w", kafka.Errorf(kafka.PolicyViolation, "t")), 400, 40002},
		{fmt.Errorf("t"), 500, 500},
	} {
		c := resttest.New(t)
		c.Links.Fail = row.err
		got := ask(t, c, "GET", base+"/links/any", "")
		var body api.Error
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatal(err)
		}
		if got.status != row.status || body.Code != row.code || !strings.Contains(body.Message, "t") {
			t.Errorf("%v: got %d/%d %s, want %d/%d", row.err, got.status, body.Code, body.Message, row.status, row.code)
		}
	}
}
