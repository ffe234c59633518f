package rest_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/console"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

// faulty is links with a bug.
type faulty struct{ *resttest.Links }

func (faulty) Describe(string) (link.Info, error) { panic("index out of range") }

func TestPanicIs500AndLogged(t *testing.T) {
	var log bytes.Buffer
	c := resttest.New(t, func(d *rest.Deps) {
		d.Links = faulty{resttest.NewLinks()}
		d.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	got := ask(t, c, "GET", base+"/links/any", "")
	if got.status != 500 || strings.Contains(got.body, "index") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if !strings.Contains(log.String(), "index out of range") || !strings.Contains(log.String(), "server_test.go") {
		t.Errorf("log: %s", log.String())
	}
	if got := ask(t, c, "GET", base+"/links", ""); got.status != 200 {
		t.Errorf("after the panic: %d", got.status)
	}
}

func TestOurFaultIsLoggedTheirsIsNot(t *testing.T) {
	var log bytes.Buffer
	c := resttest.New(t, func(d *rest.Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	ask(t, c, "GET", base+"/links/gone", "")
	ask(t, c, "GET", base+"/nothing", "")
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
	c.Links.Fail = errors.New("disk on fire")
	ask(t, c, "GET", base+"/links/gone", "")
	if !strings.Contains(log.String(), "disk on fire") {
		t.Errorf("log: %s", log.String())
	}
}

func TestBesideTheAPI(t *testing.T) {
	var notReady error
	c := resttest.New(t, func(d *rest.Deps) {
		d.Console = console.Handler()
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
		d.Ready = func() error { return notReady }
	})
	for path, words := range map[string]string{"/": "<!doctype html>", "/console/console.js": "use strict", "/metrics": "up 1", "/openapi.yaml": "openapi: 3", "/health/live": `"ok"`, "/health/ready": `"ok"`} {
		if got := ask(t, c, "GET", path, ""); got.status != 200 || !strings.Contains(got.body, words) {
			t.Errorf("%s: got %d %.80s", path, got.status, got.body)
		}
		if got := ask(t, c, "POST", path, ""); got.status != 405 {
			t.Errorf("POST %s: got %d", path, got.status)
		}
	}
	notReady = errors.New("the log is being recovered")
	if got := ask(t, c, "GET", "/health/ready", ""); got.status != 503 || !strings.Contains(got.body, "being recovered") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := ask(t, c, "GET", "/health/live", ""); got.status != 200 {
		t.Errorf("not ready is not dead: %d", got.status)
	}
	bare := resttest.New(t)
	for _, path := range []string{"/", "/metrics", "/console/console.js"} {
		if got := ask(t, bare, "GET", path, ""); got.status != 404 {
			t.Errorf("%s without one: got %d", path, got.status)
		}
	}
}

func TestTopicsPartitionsBrokersGroups(t *testing.T) {
	c := resttest.New(t)
	clusters := must[api.List[api.Cluster]](t, c, 200, "GET", "/v3/clusters", "")
	if len(clusters.Data) != 1 || clusters.Data[0].ClusterID != resttest.ClusterID || clusters.Metadata.Self != "http://example.com/v3/clusters" {
		t.Errorf("got %+v", clusters)
	}
	mustDo(t, c, 200, "GET", base, "")
	if b := must[api.List[api.Broker]](t, c, 200, "GET", base+"/brokers", "").Data; len(b) != 2 || b[0].BrokerID != 1 || b[0].Rack != nil || *b[1].Rack != "east" {
		t.Errorf("brokers: %+v", b)
	}
	mustDo(t, c, 200, "GET", base+"/brokers/2", "")
	got := ask(t, c, "POST", base+"/topics", `{"topic_name":"t","partitions_count":2,"configs":[{"name":"cleanup.policy","value":"compact"},{"name":"retention.ms","value":null}]}`)
	if got.status != 201 || !strings.HasSuffix(got.header.Get("Location"), "/topics/t") {
		t.Fatalf("got %d %s %s", got.status, got.header, got.body)
	}
	mustDo(t, c, 200, "POST", base+"/topics", `{"topic_name":"dry","validate_only":true}`)
	if topic := must[api.Topic](t, c, 200, "PATCH", base+"/topics/t", `{"partitions_count":3}`); topic.PartitionsCount != 3 {
		t.Errorf("got %+v", topic)
	}
	if l := must[api.List[api.Topic]](t, c, 200, "GET", base+"/topics", "").Data; len(l) != 1 {
		t.Errorf("topics: %+v", l)
	}
	cfg := must[api.TopicConfig](t, c, 200, "GET", base+"/topics/t/configs/cleanup.policy", "")
	if *cfg.Value != "compact" || cfg.IsDefault || cfg.Source != "DYNAMIC_TOPIC_CONFIG" || cfg.Synonyms[0].Name != "log.cleanup.policy" {
		t.Errorf("got %+v", cfg)
	}
	mustDo(t, c, 204, "PUT", base+"/topics/t/configs/retention.ms", `{"value":"5"}`)
	mustDo(t, c, 204, "POST", base+"/topics/t/configs:alter", `{"data":[{"name":"cleanup.policy","operation":"DELETE"}]}`)
	if l := must[api.List[api.TopicConfig]](t, c, 200, "GET", base+"/topics/t/configs", "").Data; !l[0].IsDefault || *l[1].Value != "5" {
		t.Errorf("got %+v", l)
	}
	mustDo(t, c, 204, "DELETE", base+"/topics/t/configs/retention.ms", "")
	mustDo(t, c, 200, "GET", base+"/topics/new/default-configs", "")
	mustDo(t, c, 200, "GET", base+"/topics/t/partitions/2", "")
	if r := must[api.List[api.Replica]](t, c, 200, "GET", base+"/topics/t/partitions/2/replicas", "").Data; len(r) != 1 || !r[0].IsLeader || !r[0].IsInSync {
		t.Errorf("replicas: %+v", r)
	}
	mustDo(t, c, 200, "GET", base+"/topics/t/partitions/2/replicas/1", "")
	mustDo(t, c, 204, "DELETE", base+"/topics/t", "")
}

func TestGroups(t *testing.T) {
	c := resttest.New(t)
	if body := mustDo(t, c, 200, "GET", base+"/consumer-groups", ""); !strings.Contains(body, `"data":[]`) {
		t.Errorf("got %s", body)
	}
	m := rest.Member{ID: "c-1", ClientID: "c", InstanceID: "i"}
	c.Groups.List = []rest.Group{{ID: "g/x y", State: "PreparingRebalance", Type: "consumer", Assignor: "range", Coordinator: 1, Members: []rest.Member{m}}, {ID: "a"}}
	c.Groups.LagsOf = map[string][]rest.GroupLag{"g/x y": {
		{Topic: "t", Partition: 1, Committed: 90, End: 100, Member: m}, {Topic: "t", Partition: 0, Committed: 7, End: 5}, {Topic: "s", Partition: 0, Committed: 0, End: 3}}}
	at := base + "/consumer-groups/g%2Fx%20y"
	g := must[api.Group](t, c, 200, "GET", at, "")
	if g.State != "PREPARING_REBALANCE" || g.Type != "CONSUMER" || g.ConsumerGroupID != "g/x y" || !strings.HasSuffix(g.Metadata.Self, "/consumer-groups/g%2Fx%20y") {
		t.Errorf("got %+v", g)
	}
	lags := must[api.List[api.Lag]](t, c, 200, "GET", at+"/lags", "").Data
	if len(lags) != 3 || lags[0].TopicName != "s" || lags[1].Lag != 0 || lags[2].Lag != 10 || lags[2].ConsumerID != "c-1" {
		t.Errorf("got %+v", lags)
	}
	mustDo(t, c, 200, "GET", at+"/lags/t/partitions/1", "")
	mustDo(t, c, 404, "GET", at+"/lags/t/partitions/9", "")
	sum := must[api.LagSummary](t, c, 200, "GET", at+"/lag-summary", "")
	if sum.TotalLag != 13 || sum.MaxLag != 10 || sum.MaxLagTopicName != "t" || sum.MaxLagPartitionID != 1 || *sum.MaxLagInstanceID != "i" {
		t.Errorf("got %+v", sum)
	}
	mustDo(t, c, 200, "GET", base+"/consumer-groups/a/lag-summary", "")
	mustDo(t, c, 200, "GET", at+"/consumers", "")
}

func TestABodyThatBreaksOff(t *testing.T) {
	c := resttest.New(t)
	c.Links.Put(link.Info{Name: "l"})
	rq := httptest.NewRequest("POST", base+"/links/l/mirrors", io.MultiReader(strings.NewReader(`{"source`), &broken{}))
	if got := send(t, c, rq); got.status != 400 || !strings.Contains(got.body, "broke off") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABodyThatNeverEnds(t *testing.T) {
	defer rest.SetBodyTimeForTest(50 * time.Millisecond)()
	links := resttest.NewLinks()
	links.Put(link.Info{Name: "l"})
	srv := httptest.NewServer(rest.Handler(rest.Deps{Cluster: resttest.Identity{}, Links: links}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s/links/l/mirrors HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{", base)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != 400 || !strings.Contains(string(body), "broke off") {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
}

// A body that nobody reads, as the answer does not depend on it, must not keep its connection either.
func TestABodyThatNobodyReadsNeverEnds(t *testing.T) {
	defer rest.SetBodyTimeForTest(50 * time.Millisecond)()
	srv := httptest.NewServer(rest.Handler(rest.Deps{Cluster: resttest.Identity{}, Links: resttest.NewLinks()}))
	defer srv.Close()
	for _, head := range []string{
		"POST /nothing/here HTTP/1.1\r\nHost: h\r\nContent-Length: 100",
		"PATCH " + base + "/links HTTP/1.1\r\nHost: h\r\nContent-Length: 100",
		"POST " + base + "/links/l/mirrors HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 100",
		"GET " + base + "/links HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked",
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\r\n\r\n1", head)
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: the connection stays: %v", head, err)
		}
	}
}
