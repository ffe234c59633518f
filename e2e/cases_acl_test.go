//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
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

// aclKinds is what may stand in an ACL on a resource of each type: its operations, as Kafka has them.
var aclKinds = []struct {
	kind       kmsg.ACLResourceType
	name       string
	operations []kmsg.ACLOperation
}{
	{kmsg.ACLResourceTypeTopic, "c40-t", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete,
		kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs}},
	{kmsg.ACLResourceTypeGroup, "c40-g", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs}},
	{kmsg.ACLResourceTypeCluster, "kafka-cluster", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationCreate, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite}},
	{kmsg.ACLResourceTypeTransactionalId, "c40-x", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, twoPhaseCommit}},
	{kmsg.ACLResourceTypeDelegationToken, "c40-d", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationDescribe}},
	{kmsg.ACLResourceTypeUser, "User:c40", []kmsg.ACLOperation{kmsg.ACLOperationAll, kmsg.ACLOperationCreateTokens, kmsg.ACLOperationDescribeTokens}},
}

// twoPhaseCommit is the operation of KIP-939.
const twoPhaseCommit = kmsg.ACLOperation(15)

// everyACL makes an ACL of each kind for a principal: type, pattern, operation, permission, host.
func everyACL(t *testing.T, client *kgo.Client, principal string) int {
	t.Helper()
	rq := kmsg.NewPtrCreateACLsRequest()
	for _, of := range aclKinds {
		for _, pattern := range []kmsg.ACLResourcePatternType{kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed} {
			for i, operation := range of.operations {
				for _, permission := range []kmsg.ACLPermissionType{kmsg.ACLPermissionTypeAllow, kmsg.ACLPermissionTypeDeny} {
					if pattern == kmsg.ACLResourcePatternTypePrefixed && of.kind == kmsg.ACLResourceTypeCluster {
						continue // there is one cluster
					}
					one := kmsg.NewCreateACLsRequestCreation()
					one.ResourceType, one.ResourceName, one.ResourcePatternType = of.kind, of.name, pattern
					one.Operation, one.PermissionType, one.Principal = operation, permission, principal
					one.Host = []string{"*", "10.0.0.1", "2001:db8::1"}[i%3]
					if i%4 == 0 && pattern == kmsg.ACLResourcePatternTypeLiteral && of.kind != kmsg.ACLResourceTypeCluster && of.kind != kmsg.ACLResourceTypeUser {
						one.ResourceName = "*"
					}
					rq.Creations = append(rq.Creations, one)
				}
			}
		}
	}
	rs, err := rq.RequestWith(testContext(t), client)
	fatal(t, err)
	for i, one := range rs.Results {
		if one.ErrorCode != 0 {
			t.Fatalf("make %+v: %v", rq.Creations[i], kerr.ErrorForCode(one.ErrorCode))
		}
	}
	return len(rq.Creations)
}

// describedACLs lists what a request finds, a line each, sorted.
func describedACLs(t *testing.T, client *kgo.Client, rq *kmsg.DescribeACLsRequest) []string {
	t.Helper()
	rs, err := rq.RequestWith(testContext(t), client)
	fatal(t, err)
	fatal(t, kerr.ErrorForCode(rs.ErrorCode))
	var lines []string
	for _, r := range rs.Resources {
		for _, one := range r.ACLs {
			lines = append(lines, fmt.Sprint(r.ResourceType, " ", r.ResourceName, " ", r.ResourcePatternType, " ", one.Principal, " ", one.Host, " ", kafka.ACLOperation(int8(one.Operation)), " ", one.PermissionType))
		}
	}
	slices.Sort(lines)
	return lines
}

// aclsOf asks for all ACLs of a principal.
func aclsOf(principal string) *kmsg.DescribeACLsRequest {
	rq := kmsg.NewPtrDescribeACLsRequest()
	rq.ResourceType, rq.ResourcePatternType, rq.Operation, rq.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	rq.Principal = &principal
	return rq
}

// TestC40_EveryKindOfACLFollowsWithinTheFilters makes an ACL of each kind at the source. Links with different filters must copy what a stock
// Kafka finds for the same filter, and nothing else.
func TestC40_EveryKindOfACLFollowsWithinTheFilters(t *testing.T) {
	t.Parallel()
	source := Client(t, GuardedKafka(t).Bootstrap())
	principal := "User:" + again("c40-all")
	made := everyACL(t, source, principal)
	for _, f := range []struct {
		resource, access string
		asked            func(*kmsg.DescribeACLsRequest)
		least            int
	}{
		{`"resourceType":"any","patternType":"any"`, `"operation":"any","permissionType":"any"`, func(*kmsg.DescribeACLsRequest) {}, made},
		{`"resourceType":"TOPIC","patternType":"LITERAL"`, `"operation":"any","permissionType":"ALLOW"`, func(rq *kmsg.DescribeACLsRequest) {
			rq.ResourceType, rq.ResourcePatternType, rq.PermissionType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
		}, 9},
		{`"resourceType":"any","patternType":"PREFIXED"`, `"operation":"DESCRIBE","permissionType":"any"`, func(rq *kmsg.DescribeACLsRequest) {
			rq.ResourcePatternType, rq.Operation = kmsg.ACLResourcePatternTypePrefixed, kmsg.ACLOperationDescribe
		}, 8},
		{`"resourceType":"topic","patternType":"match","name":"c40-topic"`, `"operation":"any","permissionType":"any"`, func(rq *kmsg.DescribeACLsRequest) {
			name := "c40-topic"
			rq.ResourceType, rq.ResourcePatternType, rq.ResourceName = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeMatch, &name
		}, 20},
		{`"resourceType":"group","patternType":"any","name":"c40-g"`, `"operation":"any","permissionType":"deny","host":"10.0.0.1"`, func(rq *kmsg.DescribeACLsRequest) {
			name, host := "c40-g", "10.0.0.1"
			rq.ResourceType, rq.ResourceName, rq.Host, rq.PermissionType = kmsg.ACLResourceTypeGroup, &name, &host, kmsg.ACLPermissionTypeDeny
		}, 2},
		{`"resourceType":"transactional_id","patternType":"any"`, `"operation":"two_phase_commit","permissionType":"any"`, func(rq *kmsg.DescribeACLsRequest) {
			rq.ResourceType, rq.Operation = kmsg.ACLResourceTypeTransactionalId, twoPhaseCommit
		}, 4},
	} {
		t.Run(f.resource+f.access, func(t *testing.T) {
			h, _ := startSecured(t)
			h.CreateLink("east", GuardedKafka(t).Bootstrap(), map[string]string{"acl.sync.enable": "true", "acl.sync.ms": "300",
				"acl.filters": `{"aclFilters":[{"resourceFilter":{` + f.resource + `},"accessFilter":{` + f.access + `,"principal":"` + principal + `"}}]}`})
			rq := aclsOf(principal)
			f.asked(rq)
			want, here := describedACLs(t, source, rq), Client(t, h.Kafka)
			if len(want) < f.least {
				t.Fatalf("the source finds %d ACLs, want %d at least", len(want), f.least)
			}
			eventually(t, 30*time.Second, "what the filter takes is here, and nothing else", func() (bool, string) {
				have := describedACLs(t, here, aclsOf(principal))
				state, text := h.task("east", "AclSync")
				return slices.Equal(have, want) && state == "ACTIVE", fmt.Sprintf("%s %s\nhere\n%s\nwant\n%s", state, text, strings.Join(have, "\n"), strings.Join(want, "\n"))
			})
			if have := describedACLs(t, here, rq); !slices.Equal(have, want) {
				t.Errorf("the same question is answered here with\n%s\nat the source with\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
			}
			unknown := aclsOf(principal)
			unknown.ResourcePatternType = kmsg.ACLResourcePatternTypeUnknown
			if rs, err := unknown.RequestWith(testContext(t), here); err != nil || rs.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("a question with an unknown pattern: %+v, %v", rs, err)
			}
		})
	}
}

// TestC43_ACLsUnderAPrefixEndToEnd copies ACLs over links that rename topics, and topics and groups.
func TestC43_ACLsUnderAPrefixEndToEnd(t *testing.T) {
	t.Parallel()
	source := Client(t, GuardedKafka(t).Bootstrap())
	admin := kadm.NewClient(source)
	user := again("c43")
	for pattern, names := range map[kadm.ACLPattern][]string{kadm.ACLPatternLiteral: {"clicks", "*"}, kadm.ACLPatternPrefixed: {"cl"}} {
		acl(t, admin, "add", kadm.NewACLs().Topics(names...).Groups("readers").Operations(kadm.OpRead).ResourcePatternType(pattern).Allow("User:"+user).AllowHosts("*"))
	}
	for _, group := range []string{"false", "true"} {
		t.Run("groups with the prefix: "+group, func(t *testing.T) {
			h, _ := startSecured(t)
			configs := map[string]string{"acl.sync.enable": "true", "acl.sync.ms": "300", "acl.filters": aclFilter("User:" + user), "cluster.link.prefix": "usa_"}
			readers := "readers"
			if group == "true" {
				configs["consumer.group.prefix.enable"], readers = "true", "usa_readers"
			}
			h.CreateLink("east", GuardedKafka(t).Bootstrap(), configs)
			var want []string
			for pattern, names := range map[kmsg.ACLResourcePatternType][]string{kmsg.ACLResourcePatternTypeLiteral: {"TOPIC usa_clicks", "GROUP " + readers}, kmsg.ACLResourcePatternTypePrefixed: {"TOPIC usa_cl", "GROUP " + readers}} {
				for _, name := range names {
					want = append(want, fmt.Sprint(name, " ", pattern, " User:", user, " * READ ALLOW"))
				}
			}
			slices.Sort(want)
			here := Client(t, h.Kafka)
			eventually(t, 30*time.Second, "the ACLs are here under their new names, and the task tells of the one that cannot be", func() (bool, string) {
				have := describedACLs(t, here, aclsOf("User:"+user))
				state, text := h.task("east", "AclSync")
				return slices.Equal(have, want) && state == "IN_ERROR" && strings.Count(text, "error_code") == 1 && strings.Contains(text, "*"), fmt.Sprintln(state, text, have, want)
			})
		})
	}
}

// TestC42_WritingIsRefusedAsReadOnly: what a synced WRITE allows counts after failover, without another ACL.
func TestC42_WritingIsRefusedAsReadOnly(t *testing.T) {
	t.Parallel()
	source := Client(t, GuardedKafka(t).Bootstrap())
	topic := again("c42")
	CreateTopic(t, source, topic, 1, 1, nil)
	produce(t, source, texts(topic, "v", 0, 1)...)
	acl(t, kadm.NewClient(source), "add", may("bob", topic, kadm.OpWrite, kadm.OpDescribe))
	h, secured := startSecured(t)
	h.CreateLink("east", GuardedKafka(t).Bootstrap(), map[string]string{"acl.sync.enable": "true", "acl.filters": aclFilter("User:bob")})
	h.CreateMirror("east", topic)
	mirror := Client(t, h.Kafka)
	eventually(t, 30*time.Second, "the ACLs are here", func() (bool, string) {
		have := strings.Join(describedACLs(t, mirror, aclsOf("User:bob")), "\n")
		return strings.Contains(have, topic+" LITERAL User:bob * WRITE ALLOW"), have
	})
	WaitLevel(t, source, mirror, topic, 1, 30*time.Second)
	bob := login{"PLAIN", "bob", "bob-secret"}
	_, err := franzLogin().produce(t, bob, secured, topic, 1)
	if err == nil || !strings.Contains(err.Error(), kerr.InvalidRequest.Message) {
		t.Errorf("on the mirror he is told %v, want INVALID_REQUEST", err)
	}
	h.Order("east", "failover", topic)
	h.WaitStatus("east", topic, "STOPPED", 20*time.Second)
	if out, err := franzLogin().produce(t, bob, secured, topic, 1); err != nil {
		t.Errorf("after failover he is told %v %s", err, out)
	}
}
