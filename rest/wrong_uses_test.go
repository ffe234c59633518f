package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/resttest"
)

// wrongUse is what somebody does wrong, by REST or on the command line, and what the answer must say: what is
// wrong, and what to do about it. In all its texts {main}, {source}, {login}, {url} and {dir} stand for what they are in this run.
type wrongUse struct {
	// order is a method and a path, below the cluster unless it begins with a slash; before them may stand a user.
	// Or it is a command line without the program's name.
	order, body string
	code        int // error_code, of the answer or of its one topic; the command line has none
	wrong, do   string
}

// wrongUsesMin is how many there must be.
const wrongUsesMin = 60

// mayNotShow is what no answer may hold: our own insides.
var mayNotShow = regexp.MustCompile(`goroutine \d|\.go:\d|panic|runtime error|0x[0-9a-f]{8}|Internal Server Error|%!`)

// world is a running broker with links in several conditions, and another one as their source.
type world struct {
	main, source *broker.Broker
	checker      *resttest.Checker
	names        *strings.Replacer
	url          string
}

var passwords = map[string]string{"alice": "alice-secret", "bob": "bob-secret", "mallory": "guessed"}

func started(t *testing.T, users string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{Dir: t.TempDir(), HTTP: "127.0.0.1:0", NodeID: 1, Settings: map[string]string{
		"listeners":             "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":           "User:ANONYMOUS",
		"sasl.jaas.config":      "org.apache.kafka.common.security.plain.PlainLoginModule required " + users + ";",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{main: started(t, `user_alice="alice-secret"`), source: started(t, `user_bob="bob-secret"`), checker: resttest.NewChecker(t)}
	w.url = "http://" + w.main.HTTPAddress()
	login := w.source.ListenerAddress("SASL_PLAINTEXT")
	w.names = strings.NewReplacer("{main}", w.main.KafkaAddress(), "{source}", w.source.KafkaAddress(), "{login}", login, "{url}", w.url, "{dir}", t.TempDir(),
		"{id}", w.main.ClusterID(), "{source-id}", w.source.ClusterID())
	for _, topic := range []string{"orders", "paused", "stopped", "secret", "more"} {
		w.must(t, "--url http://"+w.source.HTTPAddress()+" topic create "+topic)
	}
	for _, right := range []string{"READ", "DESCRIBE", "DESCRIBE_CONFIGS"} {
		w.must(t, "--url http://"+w.source.HTTPAddress()+" acl create --allow --principal User:bob --operations "+right+" --topic orders")
	}
	bob := `security.protocol=SASL_PLAINTEXT,sasl.mechanism=PLAIN,sasl.jaas.config=x.PlainLoginModule required username="bob" password="bob-secret";`
	for _, order := range []string{
		"link create live --source-bootstrap-server {source}",
		"link create prefixed --source-bootstrap-server {source} --config cluster.link.prefix=eu.",
		"link create dead --source-bootstrap-server 127.0.0.1:1 --no-validate",
		"link create half --destination-cluster {source-id} --destination-bootstrap-server 127.0.0.1:1 --no-validate",
		"mirror create orders --link live", "mirror create paused --link live", "mirror create stopped --link live",
		"mirror pause paused", "mirror failover stopped --wait", "topic create plain", "topic create a.b",
		"acl create --allow --principal User:alice --operations DESCRIBE --cluster-scope",
	} {
		w.must(t, order)
	}
	w.must(t, "link create poor --source-bootstrap-server {login} --config", bob)
	return w
}

// must is a command line that has to succeed. last is one more argument, which may have blanks.
func (w *world) must(t *testing.T, line string, last ...string) {
	t.Helper()
	if code, out := w.command(t, line, last...); code != 0 {
		t.Fatalf("hawser %s: %s", line, out)
	}
}

// command runs a command line and answers what it printed to stderr, or to stdout when there is nothing.
func (w *world) command(t *testing.T, line string, last ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	t.Setenv("HAWSER_REST_URL", w.url)
	t.Setenv("HAWSER_REST_PASSWORD", passwords["alice"])
	args := strings.Fields(line)
	for i, arg := range args {
		args[i] = w.names.Replace(arg)
	}
	var out, err bytes.Buffer
	code := cli.Main(ctx, append(args, last...), &out, &err, cli.Hooks{Version: "test", In: strings.NewReader("a record\n")})
	if err.Len() == 0 {
		return code, out.String()
	}
	return code, err.String()
}

// request sends one order by REST and answers its status, and the error's code and words.
func (w *world) request(t *testing.T, use wrongUse) (status, code int, text string) {
	t.Helper()
	words := strings.SplitN(use.order, " ", 3)
	user := ""
	if passwords[words[0]] != "" {
		user, words = words[0], words[1:]
	}
	method, path := words[0], w.names.Replace(words[1])
	if !strings.HasPrefix(path, "/") {
		path = "/kafka/v3/clusters/" + w.main.ClusterID() + "/" + path
	}
	rq, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(w.names.Replace(use.body)))
	if err != nil {
		t.Fatal(err)
	}
	if use.body != "" {
		rq.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		rq.SetBasicAuth(user, passwords[user])
	}
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Body.Close()
	raw, err := io.ReadAll(rs.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.checker.Check(rq, rs.StatusCode, rs.Header, raw); err != nil {
		t.Error(err)
	}
	if rs.StatusCode == 405 && rs.Header.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
	code, text = refusal(t, rs.StatusCode, raw)
	return rs.StatusCode, code, text
}

// refusal is the error of an answer, or that of its one topic where the order was taken and the topic refused.
func refusal(t *testing.T, status int, raw []byte) (int, string) {
	t.Helper()
	if status == http.StatusOK {
		var topics api.List[api.AlteredMirror]
		if err := json.Unmarshal(raw, &topics); err != nil || len(topics.Data) != 1 || topics.Data[0].ErrorCode == nil {
			t.Fatalf("200 %s", raw)
		}
		return int(*topics.Data[0].ErrorCode), *topics.Data[0].ErrorMessage
	}
	var body api.Error
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("%d %s: %v", status, raw, err)
	}
	return body.Code, body.Message
}

// TestWrongUses makes every mistake of the tables against a running broker: each answer says what is wrong and what
// to do, none is a 5xx or shows our insides, and nothing is left behind.
func TestWrongUses(t *testing.T) {
	w := newWorld(t)
	before := w.everything(t)
	for _, use := range wrongRequests {
		t.Run(fmt.Sprintf("%.70s %.50s", use.order, use.body), func(t *testing.T) {
			status, code, text := w.request(t, use)
			if status >= 500 || code != use.code {
				t.Errorf("got %d/%d, want code %d", status, code, use.code)
			}
			w.check(t, use, text)
		})
	}
	for _, use := range wrongCommands {
		t.Run(fmt.Sprintf("hawser %.90s", use.order), func(t *testing.T) {
			code, text := w.command(t, use.order)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			w.check(t, use, text)
		})
	}
	if after := w.everything(t); after != before {
		t.Errorf("refused orders left something behind: %q\nor took away: %q", missing(after, before), missing(before, after))
	}
	n := len(wrongRequests) + len(wrongCommands)
	t.Logf("%d mistakes: %d by REST, %d on the command line", n, len(wrongRequests), len(wrongCommands))
	if n < wrongUsesMin {
		t.Errorf("%d mistakes, want %d at least", n, wrongUsesMin)
	}
}

func (w *world) check(t *testing.T, use wrongUse, text string) {
	t.Helper()
	for what, words := range map[string]string{"what is wrong": use.wrong, "what to do": use.do} {
		if words == "" || !strings.Contains(text, w.names.Replace(words)) {
			t.Errorf("%s, %q, is not in\n%s", what, words, text)
		}
	}
	if found := mayNotShow.FindString(text); found != "" {
		t.Errorf("%q in\n%s", found, text)
	}
}

// everything is what orders may leave behind: names, states and configs.
func (w *world) everything(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, line := range []string{"link configuration list live -o json", "topic list -o json", "topic configuration list plain -o json", "acl list -o json", "user list -o json"} {
		code, text := w.command(t, line)
		if code != 0 {
			t.Fatalf("hawser %s: %s", line, text)
		}
		out.WriteString(text)
	}
	for _, line := range []string{"link list -o json", "mirror list -o json"} {
		var rows []struct {
			Link   string `json:"link_name"`
			Topic  string `json:"mirror_topic_name"`
			Status string `json:"mirror_status"` // a link's state changes by itself
		}
		_, text := w.command(t, line)
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			fmt.Fprintln(&out, row.Link, row.Topic, row.Status)
		}
	}
	return out.String()
}

// missing is the lines that only the first text has.
func missing(has, hasNot string) []string {
	return slices.DeleteFunc(strings.Split(has, "\n"), func(line string) bool { return strings.Contains(hasNot, line) })
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
