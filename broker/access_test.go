package broker_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hawserio/hawser/broker"
)

const (
	saslListener  = "SASL_PLAINTEXT://127.0.0.1:0"
	plainUsers    = `org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-secret";`
	plainListener = "PLAINTEXT://127.0.0.1:0"
)

// ask asks a broker's HTTP port as a user, "" for nobody, and is the status and the body.
func ask(t *testing.T, b *broker.Broker, path, user, password string) (int, string) {
	t.Helper()
	rq, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://"+b.HTTPAddress()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		rq.SetBasicAuth(user, password)
	}
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Body.Close()
	body, err := io.ReadAll(rs.Body)
	if err != nil {
		t.Fatal(err)
	}
	return rs.StatusCode, string(body)
}

// TestRESTAsksForALoginWhereListenersDo: who may not come in by Kafka's door does not come in by this one.
func TestRESTAsksForALoginWhereListenersDo(t *testing.T) {
	standard := "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	for _, c := range []struct {
		name                       string
		listeners, asked, acls     string
		nobody, bob, wrongPassword int
	}{
		{"no login anywhere", plainListener, "auto", "", 200, 200, 200},
		{"a listener with logins", saslListener, "auto", "", 401, 200, 401},
		{"one of two listeners", plainListener + "," + saslListener, "auto", "", 401, 200, 401},
		{"not asked for on purpose", saslListener, "none", "", 200, 200, 200},
		{"asked for on purpose", plainListener, "required", "", 401, 200, 401},
		{"an authorizer that lets anybody", plainListener + "," + saslListener, "auto", standard, 200, 403, 401},
		{"an authorizer, and logins asked for", plainListener + "," + saslListener, "required", standard, 401, 403, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir(), map[string]string{
				"listeners": c.listeners, "hawser.http.authentication": c.asked, "authorizer.class.name": c.acls, "super.users": "User:ANONYMOUS",
				"sasl.jaas.config": plainUsers,
			})
			path := "/kafka/v3/clusters/" + b.ClusterID() + "/topics"
			for _, who := range []struct {
				user, password string
				want           int
			}{{"", "", c.nobody}, {"bob", "bob-secret", c.bob}, {"bob", "no", c.wrongPassword}} {
				status, body := ask(t, b, path, who.user, who.password)
				if status == 200 && who.want == 403 && strings.Contains(body, `"data":[]`) {
					continue // lists show what one may see
				}
				if status != who.want {
					t.Errorf("%q with password %q: %d, want %d: %s", who.user, who.password, status, who.want, body)
				}
			}
			if status, body := ask(t, b, "/health/ready", "", ""); status != 200 {
				t.Errorf("probes are asked to log in: %d %s", status, body)
			}
			if _, body := ask(t, b, path, "", ""); c.nobody == 401 && !strings.Contains(body, "Send the user and password of a SASL user") {
				t.Errorf("the answer does not say what to do: %s", body)
			}
		})
	}
}

// TestRESTIsOpenAloud says at start that whoever reaches the port may do everything.
func TestRESTIsOpenAloud(t *testing.T) {
	for _, c := range []struct {
		name, address, asked string
		loud                 bool
	}{
		{"this machine alone", "127.0.0.1:8090", "auto", false},
		{"other machines", "192.0.2.1:8090", "auto", true},
		{"other machines, on purpose", "192.0.2.1:8090", "none", true},
		{"all of this machine's addresses", "[::]:8090", "auto", true},
	} {
		if got := broker.OpenAloud(c.address, c.asked); (got != "") != c.loud || c.loud && !strings.Contains(got, "hawser.http.authentication="+c.asked) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
