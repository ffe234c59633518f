//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var guarded struct {
	once  sync.Once
	kafka *Kafka
	err   error
}

// GuardedKafka is a stock Kafka with logins and an authorizer, one for all tests of a run. Who does not log in may do everything.
func GuardedKafka(t *testing.T) *Kafka {
	t.Helper()
	guarded.once.Do(func() {
		dir, err := os.MkdirTemp("", "hawser-guarded-")
		if err != nil {
			guarded.err = err
			return
		}
		guarded.kafka, guarded.err = startKafka(dir, KafkaOptions{Brokers: 1, Properties: []string{"quota.window.num=3"}, Guarded: []plainUser{{"plain-link", "plain-secret"}}})
	})
	if guarded.err != nil {
		t.Fatalf("start the guarded Kafka: %v", guarded.err)
	}
	return guarded.kafka
}

// scramUser makes a user, or changes its password.
func scramUser(t *testing.T, admin *kadm.Client, user, password string) {
	t.Helper()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		rs, err := admin.AlterUserSCRAMs(testContext(t), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: mechanism, Iterations: 4096, Password: password}})
		if err == nil {
			err = rs.Error()
		}
		if err != nil {
			t.Fatalf("make user %s: %v", user, err)
		}
	}
}

// acl makes an ACL or takes it away.
func acl(t *testing.T, admin *kadm.Client, change string, b *kadm.ACLBuilder) {
	t.Helper()
	var err error
	if change == "add" {
		var rs kadm.CreateACLsResults
		rs, err = admin.CreateACLs(testContext(t), b)
		for _, r := range rs {
			err = cmp.Or(err, r.Err)
		}
	} else {
		var rs kadm.DeleteACLsResults
		if rs, err = admin.DeleteACLs(testContext(t), b); err == nil && len(rs) == 0 {
			err = fmt.Errorf("there is no such ACL")
		}
	}
	if err != nil {
		t.Fatalf("%s an ACL: %v", change, err)
	}
}

// may is ACLs for a link's principal on a topic.
func may(user, topic string, operations ...kadm.ACLOperation) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(topic).Operations(operations...).ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:" + user).AllowHosts("*")
}

// loginConfigs are a link's configs to log in with.
func loginConfigs(mechanism, user, password string) map[string]string {
	module := "org.apache.kafka.common.security.scram.ScramLoginModule"
	if mechanism == "PLAIN" {
		module = "org.apache.kafka.common.security.plain.PlainLoginModule"
	}
	return map[string]string{
		"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
		"sasl.jaas.config": fmt.Sprintf("%s required username=%q password=%q;", module, user, password),
	}
}

// alter changes configs of a link.
func (h *Hawser) alter(link string, configs map[string]string) {
	h.t.Helper()
	var list []map[string]string
	for name, value := range configs {
		list = append(list, map[string]string{"name": name, "value": value, "operation": "SET"})
	}
	h.Must("PUT", h.path("/links/%s/configs:alter", link), map[string]any{"data": list})
}

// guardedPair is a link "east" to the guarded Kafka that logs in as a user of its own, who may read one topic.
func guardedPair(t *testing.T, user, topic string, configs map[string]string) (h *Hawser, source *kgo.Client, admin *kadm.Client) {
	t.Helper()
	return guardedPairAt(t, GuardedKafka(t).Logins(), user, topic, configs)
}

// guardedPairAt is guardedPair with another way to the guarded Kafka.
func guardedPairAt(t *testing.T, bootstrap, user, topic string, configs map[string]string) (h *Hawser, source *kgo.Client, admin *kadm.Client) {
	t.Helper()
	k := GuardedKafka(t)
	source = Client(t, k.Bootstrap())
	admin = kadm.NewClient(source)
	CreateTopic(t, source, topic, 1, 1, nil)
	scramUser(t, admin, user, user+"-secret")
	acl(t, admin, "add", may(user, topic, kadm.OpRead, kadm.OpDescribeConfigs))
	h = StartHawser(t)
	all := loginConfigs("SCRAM-SHA-256", user, user+"-secret")
	for key, value := range configs {
		all[key] = value
	}
	h.CreateLink("east", bootstrap, all)
	h.CreateMirror("east", topic)
	return h, source, admin
}

// TestC54_PromoteStuckByAuthorization takes a right away and gives it back.
func TestC54_PromoteStuckByAuthorization(t *testing.T) {
	h, source, admin := guardedPair(t, "c54", "c54", nil)
	mirror := Client(t, h.Kafka)
	produce(t, source, texts("c54", "v", 0, 10)...)
	WaitLevel(t, source, mirror, "c54", 1, 30*time.Second)
	CreateTopic(t, source, "c54-out", 1, 1, nil)
	acl(t, admin, "add", may("c54", "c54-out", kadm.OpRead, kadm.OpDescribeConfigs))
	h.CreateMirror("east", "c54-out")
	for _, topic := range []string{"c54", "c54-out"} {
		acl(t, admin, "remove", may("c54", topic, kadm.OpDescribeConfigs))
	}
	h.Order("east", "promote", "c54", "c54-out")
	eventually(t, 15*time.Second, "the error is listed", func() (bool, string) {
		m := h.Mirror("east", "c54")
		return m.Status == "PENDING_STOPPED" && strings.Contains(fmt.Sprint(m.Raw["mirror_state_transition_errors"]), "AUTHORIZATION_ERROR"), fmt.Sprint(m.Raw)
	})
	h.WaitStatus("east", "c54-out", "PENDING_STOPPED", 15*time.Second)
	dry := h.Must("POST", h.path("/links/east/mirrors:promote?validate_only=true"), map[string]any{"mirror_topic_names": []string{"c54"}})
	if text := fmt.Sprint(dry["data"].([]any)[0].(map[string]any)["missing_acls"]); !strings.Contains(text, "DESCRIBE_CONFIGS") || strings.Contains(text, "READ") {
		t.Errorf("a dry run lists as missing %s, want DESCRIBE_CONFIGS alone", text)
	}
	h.Order("east", "failover", "c54-out")
	h.WaitStatus("east", "c54-out", "STOPPED", 25*time.Second) // five times the bound
	acl(t, admin, "add", may("c54", "c54", kadm.OpDescribeConfigs))
	h.WaitStatus("east", "c54", "STOPPED", 30*time.Second)
}

// TestC73_CredentialsAreRotatedUnderLoad goes from one user to another, to another mechanism and to a listener without logins.
func TestC73_CredentialsAreRotatedUnderLoad(t *testing.T) {
	h, source, admin := guardedPair(t, "c73-a", "c73", nil)
	mirror := Client(t, h.Kafka)
	scramUser(t, admin, "c73-b", "c73-b-secret")
	for _, user := range []string{"c73-b", "plain-link"} {
		acl(t, admin, "add", may(user, "c73", kadm.OpRead, kadm.OpDescribeConfigs))
	}
	load, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; load.Err() == nil; i++ {
			source.Produce(testContext(t), &kgo.Record{Topic: "c73", Value: strconv.AppendInt(nil, int64(i), 10)}, nil)
			pause(load, time.Millisecond)
		}
		_ = source.Flush(testContext(t))
	}()
	defer stop()
	follows := func(what string) {
		t.Helper()
		_, end := Ends(t, source, "c73", 0)
		eventually(t, 10*time.Second, what, func() (bool, string) {
			_, at := Ends(t, mirror, "c73", 0)
			return at >= end, fmt.Sprintf("the mirror is at %d of %d: %v", at, end, h.Mirror("east", "c73").Raw["mirror_status"])
		})
	}
	follows("it is mirrored as c73-a")
	h.alter("east", loginConfigs("SCRAM-SHA-512", "c73-b", "c73-b-secret"))
	follows("it is mirrored as c73-b")
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		rs, err := admin.AlterUserSCRAMs(testContext(t), []kadm.DeleteSCRAM{{User: "c73-a", Mechanism: mechanism}}, nil)
		if err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
	follows("the first user is gone and nobody cares")
	h.alter("east", loginConfigs("PLAIN", "plain-link", "plain-secret"))
	follows("it is mirrored with another mechanism")
	h.alter("east", map[string]string{"bootstrap.servers": GuardedKafka(t).Bootstrap(), "security.protocol": "PLAINTEXT"})
	follows("it is mirrored over another listener")
	stop()
	<-done
	WaitLevel(t, source, mirror, "c73", 1, 30*time.Second)
	SameAll(t, source, mirror, "c73", 1)
	if m := h.Mirror("east", "c73"); m.Status != "ACTIVE" {
		t.Errorf("it is %v", m.Raw)
	}
}

// TestC74_RevokedPasswordAndBack changes a user's password, and then the link's.
func TestC74_RevokedPasswordAndBack(t *testing.T) {
	k := GuardedKafka(t)
	source := Client(t, k.Bootstrap())
	admin := kadm.NewClient(source)
	CreateTopic(t, source, "c74", 1, 1, nil)
	scramUser(t, admin, "c74", "old")
	acl(t, admin, "add", may("c74", "c74", kadm.OpRead, kadm.OpDescribeConfigs))
	proxy := NewProxy(t, k.Logins())
	h := StartHawser(t)
	configs := loginConfigs("SCRAM-SHA-256", "c74", "old")
	configs["bootstrap.address.map"] = k.Logins() + "=" + proxy.Addr()
	configs["availability.check.ms"] = "1000"
	h.CreateLink("east", proxy.Addr(), configs)
	h.CreateMirror("east", "c74")
	mirror := Client(t, h.Kafka)
	produce(t, source, texts("c74", "v", 0, 10)...)
	WaitLevel(t, source, mirror, "c74", 1, 30*time.Second)
	scramUser(t, admin, "c74", "new")
	proxy.Cut()
	eventually(t, 15*time.Second, "the link tells of it", func() (bool, string) {
		link := h.Must("GET", h.path("/links/east"), nil)
		return link["link_error"] == "AUTHENTICATION_ERROR" && h.Mirror("east", "c74").Status == "LINK_FAILED", fmt.Sprint(link)
	})
	produce(t, source, texts("c74", "w", 0, 10)...)
	const window = 3 * time.Second
	dials := proxy.Dials.Load()
	pause(testContext(t), window)
	if n := proxy.Dials.Load() - dials; n > 2*int64(window/time.Second)+2 {
		t.Errorf("%d connections in %v with a password that is refused, more than one a second with room to spare", n, window)
	}
	// Put right at the source, and spoilt there again.
	scramUser(t, admin, "c74", "old")
	h.WaitStatus("east", "c74", "ACTIVE", 15*time.Second)
	WaitLevel(t, source, mirror, "c74", 1, 30*time.Second)
	scramUser(t, admin, "c74", "new")
	proxy.Cut()
	h.WaitStatus("east", "c74", "LINK_FAILED", 15*time.Second)
	produce(t, source, texts("c74", "x", 0, 10)...)
	h.alter("east", loginConfigs("SCRAM-SHA-256", "c74", "new"))
	h.WaitStatus("east", "c74", "ACTIVE", 15*time.Second)
	WaitLevel(t, source, mirror, "c74", 1, 30*time.Second)
	SameAll(t, source, mirror, "c74", 1)
}

// TestGroupOffsetAge measures how old a group's offset is on the mirror: with READ on the source's offsets topic, and without.
func TestGroupOffsetAge(t *testing.T) {
	groups := 100
	if n, err := strconv.Atoi(os.Getenv("HAWSER_OFFSET_GROUPS")); err == nil {
		groups = n
	}
	h, source, admin := guardedPair(t, "age", "age", map[string]string{
		"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": everyGroup, "consumer.offset.sync.ms": "2000",
	})
	mirror := Client(t, h.Kafka)
	produce(t, source, texts("age", "v", 0, 1000)...)
	WaitLevel(t, source, mirror, "age", 1, 30*time.Second)
	acl(t, admin, "add", kadm.NewACLs().Groups("*").Operations(kadm.OpRead, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:age").AllowHosts("*"))
	commit(t, mirror, "first", "age", 1) // so that the offsets topic is there
	at := int64(0)
	measure := func(what string, rounds int) time.Duration {
		t.Helper()
		var ages []time.Duration
		for range rounds {
			at++
			ages = append(ages, offsetAges(t, admin, h.Kafka, groups, at)...)
		}
		slices.Sort(ages)
		p50, p99 := ages[len(ages)/2], ages[len(ages)*99/100]
		t.Logf("%s, %d groups: p50 %v, p99 %v, most %v", what, groups, p50, p99, ages[len(ages)-1])
		return p99
	}
	without := measure("without READ on the offsets topic, consumer.offset.sync.ms=2000", 1)
	if without > 25*time.Second {
		t.Errorf("an offset was %v old", without)
	}
	acl(t, admin, "add", may("age", "__consumer_offsets", kadm.OpRead, kadm.OpDescribe))
	h.alter("east", map[string]string{"consumer.offset.sync.enable": "false"})
	h.alter("east", map[string]string{"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": everyGroup, "consumer.offset.sync.ms": "3600000"})
	// With a round an hour only the offsets topic can tell; the first offset may have come with the round that begins now.
	inTime := 0
	eventually(t, 90*time.Second, "the offsets topic is followed", func() (bool, string) {
		at++
		commit(t, source, ageGroup(0), "age", at)
		pause(testContext(t), time.Second)
		if inTime++; committed(t, mirror, ageGroup(0), "age") != at {
			inTime = 0
		}
		return inTime == 3, fmt.Sprintf("%d offsets came in time", inTime)
	})
	if p99 := measure("with READ on the offsets topic", 3); p99 > 5*time.Second {
		t.Errorf("p99 of the age is %v, want < 1 s, five times that on this machine", p99)
	}
}

// offsetAges commits an offset for each group and says how long after the commit was acknowledged each one was
// committed on the mirror's cluster, as its offsets topic tells.
func offsetAges(t *testing.T, there *kadm.Client, mirror string, groups int, at int64) []time.Duration {
	t.Helper()
	arrivals := commitArrivals(t, mirror, groups, at)
	acked := make([]time.Time, groups)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range groups {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			offsets := kadm.Offsets{}
			offsets.AddOffset("age", 0, at, -1)
			if err := there.CommitAllOffsets(testContext(t), ageGroup(i), offsets); err != nil {
				t.Errorf("commit: %v", err)
			}
			acked[i] = time.Now()
		})
	}
	wg.Wait()
	arrived := <-arrivals
	if len(arrived) < groups {
		t.Fatalf("%d of %d groups' offsets came over", len(arrived), groups)
	}
	ages := make([]time.Duration, groups)
	for i := range ages {
		ages[i] = max(arrived[ageGroup(i)].Sub(acked[i]), 0)
	}
	return ages
}

func ageGroup(i int) string { return fmt.Sprintf("age-%d", i) }

// commitArrivals begins to read a cluster's offsets topic at its end and gives, once all groups have committed the
// offset, when each did.
func commitArrivals(t *testing.T, bootstrap string, groups int, at int64) <-chan map[string]time.Time {
	t.Helper()
	topics, err := kadm.NewClient(Client(t, bootstrap)).ListTopicsWithInternal(testContext(t), "__consumer_offsets")
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int32]kgo.Offset{}
	listed, err := kadm.NewClient(Client(t, bootstrap)).ListEndOffsets(testContext(t), "__consumer_offsets")
	if err != nil {
		t.Fatal(err)
	}
	for p := range topics["__consumer_offsets"].Partitions {
		end, _ := listed.Lookup("__consumer_offsets", p)
		ends[p] = kgo.NewOffset().At(end.Offset)
	}
	reader := Client(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"__consumer_offsets": ends}))
	done := make(chan map[string]time.Time, 1)
	ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
	go func() {
		defer cancel()
		defer reader.Close()
		arrived := map[string]time.Time{}
		for len(arrived) < groups && ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			now := time.Now()
			fetches.EachRecord(func(r *kgo.Record) {
				var key kmsg.OffsetCommitKey
				var value kmsg.OffsetCommitValue
				if len(r.Key) < 2 || r.Key[1] > 1 || key.ReadFrom(r.Key) != nil || value.ReadFrom(r.Value) != nil {
					return
				}
				if key.Topic == "age" && value.Offset == at {
					arrived[key.Group] = now
				}
			})
		}
		done <- arrived
	}()
	return done
}
