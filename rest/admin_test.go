package rest_test

import (
	"strings"
	"testing"

	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/resttest"
)

func TestConfigsOfBrokersAndOfAll(t *testing.T) {
	c := resttest.New(t)
	if got := mustDo(t, c, 200, "GET", base+"/broker-configs", ""); !strings.Contains(got, `"data":[]`) {
		t.Errorf("nothing is set, and %s", got)
	}
	for _, at := range []string{"/broker-configs", "/brokers/1/configs"} {
		mustDo(t, c, 204, "POST", base+at+":alter", `{"data":[{"name":"log.retention.ms","value":"5"}]}`)
		mustDo(t, c, 204, "POST", base+at+":alter", `{"data":[{"name":"log.retention.ms","value":"6"}],"validate_only":true}`)
		if got := mustDo(t, c, 200, "GET", base+at+"/log.retention.ms", ""); !strings.Contains(got, `"value":"5"`) {
			t.Errorf("%s: %s", at, got)
		}
		mustDo(t, c, 204, "PUT", base+at+"/log.retention.ms", `{"value":"7"}`)
		if got := mustDo(t, c, 200, "GET", base+at, ""); !strings.Contains(got, `"value":"7"`) || strings.Contains(got, "hidden-secret") {
			t.Errorf("%s: %s", at, got)
		}
		mustDo(t, c, 204, "DELETE", base+at+"/log.retention.ms", "")
		mustDo(t, c, 404, "GET", base+at+"/log.retention.ms", "")
		mustDo(t, c, 400, "PUT", base+at+"/log.retention.ms", `{}`)
		mustDo(t, c, 400, "POST", base+at+":alter", `{"data":[{"name":"nonsense","value":"5"}]}`)
	}
	mustDo(t, c, 404, "GET", base+"/brokers/9/configs", "")
	mustDo(t, c, 404, "POST", base+"/brokers/9/configs:alter", `{"data":[{"name":"log.retention.ms","value":"5"}]}`)
	mustDo(t, c, 400, "GET", base+"/brokers/one/configs", "")
}

func TestUsersAreMadeShownAndDeleted(t *testing.T) {
	c := resttest.New(t)
	got := mustDo(t, c, 201, "POST", base+"/users", `{"user_name":"alice","password":"pa55"}`)
	if strings.Contains(got, "pa55") || strings.Count(got, `"mechanism"`) != 2 || c.Users.Password["alice"] != "pa55" {
		t.Errorf("made %s with the password %q", got, c.Users.Password["alice"])
	}
	mustDo(t, c, 201, "POST", base+"/users", `{"user_name":"bob","password":"x","mechanisms":["scram-sha-512"],"iterations":4096}`)
	if got := mustDo(t, c, 200, "GET", base+"/users", ""); strings.Count(got, `"HawserUser"`) != 2 {
		t.Errorf("two users are %s", got)
	}
	mustDo(t, c, 404, "DELETE", base+"/users/bob?mechanism=SCRAM-SHA-256", "")
	mustDo(t, c, 204, "DELETE", base+"/users/alice?mechanism=scram-sha-256", "")
	if got := mustDo(t, c, 200, "GET", base+"/users/alice", ""); strings.Contains(got, "SCRAM-SHA-256") {
		t.Errorf("after the deletion: %s", got)
	}
	mustDo(t, c, 204, "DELETE", base+"/users/alice", "")
	mustDo(t, c, 404, "GET", base+"/users/alice", "")
	for _, bad := range []string{`{"user_name":"a"}`, `{"password":"a"}`, `{"user_name":"a","password":"b","mechanisms":["PLAIN"]}`} {
		mustDo(t, c, 400, "POST", base+"/users", bad)
	}
}

func TestConsumersAndWhatTheyOwn(t *testing.T) {
	c := resttest.New(t)
	c.Groups.List = []rest.Group{{ID: "g", State: "Stable", Members: []rest.Member{{ID: "m-1", ClientID: "app", Owns: []rest.Owned{{Topic: "b", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "a", Partition: 0}}}}}}
	at := base + "/consumer-groups/g/consumers"
	mustDo(t, c, 200, "GET", at+"/m-1", "")
	mustDo(t, c, 404, "GET", at+"/m-2", "")
	got := mustDo(t, c, 200, "GET", at+"/m-1/assignments", "")
	if strings.Count(got, `"KafkaConsumerAssignment"`) != 3 || strings.Index(got, `"topic_name":"a"`) > strings.Index(got, `"topic_name":"b"`) {
		t.Errorf("assignments: %s", got)
	}
	mustDo(t, c, 200, "GET", at+"/m-1/assignments/a/partitions/2", "")
	mustDo(t, c, 404, "GET", at+"/m-1/assignments/a/partitions/1", "")
	mustDo(t, c, 404, "GET", base+"/consumer-groups/h/consumers/m-1/assignments", "")
}
