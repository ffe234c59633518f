//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// aclFilter takes the ACLs of one principal, or of all with "".
func aclFilter(principal string) string {
	access := `"operation":"any","permissionType":"any"`
	if principal != "" {
		access += `,"principal":"` + principal + `"`
	}
	return `{"aclFilters":[{"resourceFilter":{"resourceType":"any","patternType":"any"},"accessFilter":{` + access + `}}]}`
}

// task is one of a link's tasks: its state, and its errors as text.
func (h *Hawser) task(link, name string) (state, errors string) {
	h.t.Helper()
	body := h.Must("GET", h.path("/links/%s?include_tasks=true", link), nil)
	tasks, _ := body["tasks"].([]any)
	for _, one := range tasks {
		if entry := one.(map[string]any); entry["task_name"] == name {
			state, _ = entry["state"].(string)
			return state, fmt.Sprint(entry["errors"])
		}
	}
	h.t.Fatalf("link %s has no task %s: %v", link, name, body)
	return "", ""
}

// loggedIn is a client that logs in with PLAIN, with the password that startSecured gives the user.
func loggedIn(t *testing.T, address, user string) *kgo.Client {
	t.Helper()
	return Client(t, address, kgo.SASL(plain.Auth{User: user, Pass: user + "-secret"}.AsMechanism()))
}

// readable asks once, as the client's user, for a topic's first records and gives the code of the answer.
func readable(ctx context.Context, client *kgo.Client, id [16]byte) (int16, error) {
	rq := kmsg.NewPtrFetchRequest()
	rq.MaxWaitMillis, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch = 0, 1, 1<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.TopicID = id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 1 << 20
	ft.Partitions = append(ft.Partitions, fp)
	rq.Topics = append(rq.Topics, ft)
	answer, err := client.SeedBrokers()[0].Request(ctx, rq)
	if err != nil {
		return 0, err
	}
	return answer.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode, nil
}

// names counts how often again was asked for a name.
var names = struct {
	sync.Mutex
	used map[string]int
}{used: map[string]int{}}

// again is a name for a topic, and what belongs to it, of a Kafka that outlives the test: another one each time the test runs.
func again(name string) string {
	names.Lock()
	defer names.Unlock()
	if names.used[name]++; names.used[name] > 1 {
		return fmt.Sprintf("%s-run%d", name, names.used[name])
	}
	return name
}

// TestC39_DenyNeverLagsBehindAllow makes a DENY for one user and an ALLOW for all at the source, and takes both away, again and again.
// What comes over must never let that user read, while another may each time.
func TestC39_DenyNeverLagsBehindAllow(t *testing.T) {
	t.Parallel()
	k := GuardedKafka(t)
	source := Client(t, k.Bootstrap())
	admin := kadm.NewClient(source)
	topic := again("c39")
	CreateTopic(t, source, topic, 1, 1, nil)
	produce(t, source, texts(topic, "v", 0, 1)...)
	h, secured := startSecured(t)
	h.CreateLink("east", k.Bootstrap(), map[string]string{"acl.sync.enable": "true", "acl.sync.ms": "100",
		"acl.filters": `{"aclFilters":[{"resourceFilter":{"resourceType":"topic","patternType":"literal","name":"` + topic + `"},"accessFilter":{"operation":"any","permissionType":"any"}}]}`})
	h.CreateMirror("east", topic)
	mirror := Client(t, h.Kafka)
	WaitLevel(t, source, mirror, topic, 1, 30*time.Second)
	_, id, _, err := leader(testContext(t), mirror, topic, 0)
	fatal(t, err)
	bob, eve := loggedIn(t, secured, "bob"), loggedIn(t, secured, "eve")

	ctx, stop := context.WithCancel(testContext(t))
	var tries, other atomic.Int64
	var work sync.WaitGroup
	defer func() { stop(); work.Wait() }()
	work.Go(func() {
		for ctx.Err() == nil {
			switch code, err := readable(ctx, bob, id); {
			case err == nil && code == kerr.TopicAuthorizationFailed.Code:
				tries.Add(1)
			case err == nil && code == 0:
				t.Error("the user who is denied has read")
				return
			case ctx.Err() == nil:
				other.Add(1)
			}
			pause(ctx, time.Millisecond)
		}
	})
	waitEve := func(want int16) {
		t.Helper()
		eventually(t, 30*time.Second, fmt.Sprintf("the other user is told %d", want), func() (bool, string) {
			code, err := readable(ctx, eve, id)
			return err == nil && code == want, fmt.Sprint(code, err)
		})
	}
	deny := kadm.NewACLs().Topics(topic).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral).Deny("User:bob").DenyHosts("*")
	allow := kadm.NewACLs().Topics(topic).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:*").AllowHosts("*")
	for range envInt("HAWSER_ACL_ROUNDS", 10) {
		acl(t, admin, "add", deny)
		acl(t, admin, "add", allow)
		waitEve(0)
		acl(t, admin, "remove", allow)
		acl(t, admin, "remove", deny)
		waitEve(kerr.TopicAuthorizationFailed.Code)
	}
	stop()
	work.Wait()
	if tries.Load() < 100 || other.Load() > 0 {
		t.Errorf("the user who is denied was refused %d times, and got other answers %d times", tries.Load(), other.Load())
	}
	t.Logf("refused %d times", tries.Load())
}

// TestC41_SourceWithoutAnAuthorizer asks a source for ACLs that has none: the task says so with one code and seldom in the log, and
// everything else goes on.
func TestC41_SourceWithoutAnAuthorizer(t *testing.T) {
	t.Parallel()
	k := SharedKafka(t)
	source := Client(t, k.Bootstrap())
	topic := again("c41")
	CreateTopic(t, source, topic, 1, 1, nil)
	h := StartHawser(t)
	configs := allGroups(topic + "-")
	configs["acl.sync.enable"], configs["acl.filters"], configs["acl.sync.ms"] = "true", aclFilter(""), "200"
	h.CreateLink("east", k.Bootstrap(), configs)
	h.CreateMirror("east", topic)
	mirror := Client(t, h.Kafka)
	wantTask := func() {
		t.Helper()
		eventually(t, 30*time.Second, "the task tells of it", func() (bool, string) {
			state, text := h.task("east", "AclSync")
			return state == "IN_ERROR" && strings.Count(text, "error_code") == 1 && strings.Contains(text, "SECURITY_DISABLED_ERROR"), state + text
		})
	}
	wantTask()
	produce(t, source, texts(topic, "v", 0, 10)...)
	WaitLevel(t, source, mirror, topic, 1, 30*time.Second)
	alterTopic(t, source, topic, "retention.ms", "123456789")
	eventually(t, 30*time.Second, "configs follow", func() (bool, string) {
		now := describedConfig(t, mirror, topic, "retention.ms")
		return now == "123456789", now
	})
	for _, at := range []int64{3, 7} {
		commit(t, source, topic+"-g", topic, at)
		waitCommitted(t, mirror, topic+"-g", topic, at)
	}
	wantTask()
	text, err := os.ReadFile(h.logPath())
	fatal(t, err)
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "SECURITY_DISABLED") || strings.Contains(strings.ToLower(line), "acls of the source") {
			lines++
		}
	}
	if lines > 1 {
		t.Errorf("%d lines of the log tell of it, want one in ten minutes", lines)
	}
	if state, text := h.task("east", "TopicConfigsSync"); state != "ACTIVE" {
		t.Errorf("the task of configs is %s: %s", state, text)
	}
}
