//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// TestC08_TimestampsAreTheSources mirrors records dated long ago, in a month and not at all to a broker that takes none of them from its
// own producers: the same bytes, the same answers by time.
func TestC08_TimestampsAreTheSources(t *testing.T) {
	w := newPair(t, "--set", "log.message.timestamp.before.max.ms=3600000", "--set", "log.message.timestamp.after.max.ms=3600000",
		"--set", "log.retention.ms=3600000", "--set", "log.retention.check.interval.ms=100")
	const wide = "9223372036854775807"
	base := again("c08")
	created, appended := base+"-created", base+"-appended"
	CreateTopic(t, w.source, created, 1, 1, map[string]string{"retention.ms": "-1", "message.timestamp.before.max.ms": wide, "message.timestamp.after.max.ms": wide})
	CreateTopic(t, w.source, appended, 1, 1, map[string]string{"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"})
	now := time.Now().UnixMilli()
	times := []int64{86_400_000, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), now, now + 30*86_400_000, -1}
	for i, ms := range times {
		b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1},
			[]batch.Record{{Timestamp: ms, Value: fmt.Append(nil, i)}, {Offset: 1, Timestamp: ms, Value: fmt.Append(nil, i)}})
		fatal(t, err)
		if code, base := produceRaw(t, w.source, created, 0, b); code != 0 || base != int64(2*i) {
			t.Fatalf("the source answers %d, %d to a record dated %d", code, base, ms)
		}
		produce(t, w.source, texts(appended, "v", i, i+1)...)
	}
	alterTopic(t, w.source, created, "message.timestamp.before.max.ms", "3600000")
	alterTopic(t, w.source, created, "message.timestamp.after.max.ms", "3600000")
	for _, topic := range []string{created, appended} {
		w.h.CreateMirror("east", topic)
		w.level(topic, 1)
	}
	same := func() {
		t.Helper()
		for _, topic := range []string{created, appended} {
			SameAll(t, w.source, w.mirror, topic, 1)
			for _, ms := range append(times[:4:4], 0, now+1, now+40*86_400_000, -3) {
				if there, here := byTime(t, w.source, topic, ms), byTime(t, w.mirror, topic, ms); there != here {
					t.Errorf("%s at time %d: the source answers %s, the mirror %s", topic, ms, there, here)
				}
			}
		}
	}
	same()
	pause(testContext(t), time.Second) // ten looks of the retention
	same()
	if start, end := Ends(t, w.mirror, created, 0); start != 0 || end != 10 {
		t.Errorf("the mirror holds [%d,%d)", start, end)
	}
}

// byTime is offset, timestamp and epoch that a broker answers for a time.
func byTime(t *testing.T, client *kgo.Client, topic string, ms int64) string {
	t.Helper()
	return byTimeIn(t, client, topic, ms, 0)
}

// byTimeIn is byTime in an isolation level.
func byTimeIn(t *testing.T, client *kgo.Client, topic string, ms int64, isolation int8) string {
	t.Helper()
	broker, _, _, err := leader(testContext(t), client, topic, 0)
	fatal(t, err)
	rq := kmsg.NewPtrListOffsetsRequest()
	rq.IsolationLevel = isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp, rp.CurrentLeaderEpoch = ms, -1
	rt.Partitions = append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	answer, err := client.Broker(int(broker)).RetriableRequest(testContext(t), rq)
	fatal(t, err)
	p := answer.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return fmt.Sprint(p.Offset, " ", p.Timestamp, " ", p.LeaderEpoch, " ", p.ErrorCode)
}

// TestC80_TimesInCompressedBatches asks for the offsets of thirty times of a topic of ten compressed batches, one of whose records is dated
// out of order: in each version and isolation a topic here and a mirror answer by the record, as a stock Kafka does.
func TestC80_TimesInCompressedBatches(t *testing.T) {
	t.Parallel()
	const odd, late = 47, 500 // the record that is out of order, and by how many ms
	w := newPair(t)
	mirrored, plain := again("c80"), "c80-plain"
	CreateTopic(t, w.source, mirrored, 1, 1, nil)
	CreateTopic(t, w.mirror, plain, 1, 1, nil)
	base := time.Now().Add(-time.Hour).UnixMilli()
	var dated []int64
	for n := range 10 {
		var records []batch.Record
		for i := range 10 {
			ms := base + int64(10*n+i)
			if len(dated) == odd {
				ms = base + late
			}
			dated = append(dated, ms)
			records = append(records, batch.Record{Offset: kafka.Offset(i), Timestamp: ms, Value: bytes.Repeat([]byte("value "), 50)})
		}
		b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1, Codec: batch.CodecGzip}, records)
		fatal(t, err)
		for topic, client := range map[string]*kgo.Client{mirrored: w.source, plain: w.mirror} {
			if code, at := produceRaw(t, client, topic, 0, b); code != 0 || at != int64(10*n) {
				t.Fatalf("batch %d of %s is answered with %d, offset %d", n, topic, code, at)
			}
		}
	}
	w.h.CreateMirror("east", mirrored)
	w.level(mirrored, 1)
	var times []int64
	for i := int64(-3); i <= 114; i += 4 {
		times = append(times, base+i)
	}
	times = append(times, 0, base+odd, base+late-1, base+late, base+late+1, -1, -2, -3)
	want := func(ms int64) string {
		switch ms {
		case -1:
			return "100 -1 0 0"
		case -2:
			return "0 -1 0 0"
		case -3:
			return fmt.Sprint(odd, " ", base+late, " 0 0")
		}
		at := slices.IndexFunc(dated, func(have int64) bool { return have >= ms })
		if at < 0 {
			return "-1 -1 -1 0"
		}
		return fmt.Sprint(at, " ", dated[at], " 0 0")
	}
	ask := func(bootstrap, topic string, version int16) {
		t.Helper()
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(kmsg.ListOffsets.Int16(), version)
		client := Client(t, bootstrap, kgo.MaxVersions(versions))
		for isolation := range int8(2) {
			for _, ms := range times {
				expected := want(ms)
				if ms == -3 && version < 7 || isolation == 1 && version < 2 {
					continue
				}
				if version < 4 {
					expected = expected[:strings.LastIndex(expected[:len(expected)-2], " ")] + " -1 0"
				}
				if have := byTimeIn(t, client, topic, ms, isolation); have != expected {
					t.Errorf("%s at %s in version %d, isolation %d, time %d (%d behind the first): %q, want %q", topic, bootstrap, version, isolation, ms, ms-base, have, expected)
				}
			}
		}
	}
	ask(w.k.Bootstrap(), mirrored, 10)
	for version := int16(1); version <= 10; version++ {
		ask(w.h.Kafka, plain, version)
	}
	for _, version := range []int16{1, 10} {
		ask(w.h.Kafka, mirrored, version)
	}
}

// TestC36_C38_WhatFollowsTheSource changes each config at the source and looks at the mirror; what does not follow can be set there, and
// survives rounds, a restart and a promote.
func TestC36_C38_WhatFollowsTheSource(t *testing.T) {
	t.Parallel()
	w := newPair(t)
	topic := again("c38")
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	always := map[string]string{"max.message.bytes": "2000000", "cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime",
		"message.timestamp.before.max.ms": "7200000", "message.timestamp.after.max.ms": "7300000"}
	byDefault := map[string]string{"retention.ms": "123456789", "retention.bytes": "987654321", "delete.retention.ms": "77777", "min.compaction.lag.ms": "1111", "max.compaction.lag.ms": "9999999"}
	never := map[string]string{"min.insync.replicas": "2", "segment.bytes": "20971520", "segment.ms": "3600001", "compression.type": "gzip", "flush.messages": "77", "unclean.leader.election.enable": "true"}
	before := map[string]string{}
	for name := range never {
		before[name] = describedConfig(t, w.mirror, topic, name)
	}
	change := func(set map[string]string) {
		t.Helper()
		for name, value := range set {
			alterTopic(t, w.source, topic, name, value)
		}
	}
	change(never)
	change(always)
	change(byDefault)
	follows := func(set map[string]string) {
		t.Helper()
		for name, value := range set {
			eventually(t, 30*time.Second, name+" follows", func() (bool, string) {
				have := describedConfig(t, w.mirror, topic, name)
				return have == value, have
			})
		}
	}
	follows(always)
	follows(byDefault)
	stays := func(when string, set map[string]string) {
		t.Helper()
		for name, value := range set {
			if have := describedConfig(t, w.mirror, topic, name); have != value {
				t.Errorf("%s: %s of the mirror is %s, want %s", when, name, have, value)
			}
		}
	}
	stays("the source's was changed", before)
	for name := range byDefault {
		if err := alterError(t, w.mirror, topic, name, "5000000"); err == nil {
			t.Errorf("%s can be set on the mirror, though it follows", name)
		}
	}

	// With an include list: those that always follow, compression.type, and not the retention.
	all := strings.Join([]string{"max.message.bytes", "cleanup.policy", "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "compression.type"}, ",")
	if status, body := w.h.Call("PUT", w.h.path("/links/east/configs/topic.config.sync.include"), map[string]any{"value": "retention.ms"}); status != 400 || !strings.Contains(fmt.Sprint(body), "cleanup.policy") {
		t.Errorf("an include list without what always follows: %d %v", status, body)
	}
	w.h.alter("east", map[string]string{"topic.config.sync.include": all})
	follows(map[string]string{"compression.type": "gzip"})
	own := map[string]string{"min.insync.replicas": "1", "retention.ms": "22222222", "segment.ms": "4000000"}
	for name, value := range own {
		fatal(t, alterError(t, w.mirror, topic, name, value))
	}
	change(map[string]string{"retention.ms": "999999999", "max.message.bytes": "3000000"})
	follows(map[string]string{"max.message.bytes": "3000000"})
	stays("after a round", own)
	w.restart()
	stays("after a restart", own)
	w.level(topic, 1)
	w.h.Order("east", "promote", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 60*time.Second)
	stays("after promote", own)
	follows(map[string]string{"compression.type": "gzip", "max.message.bytes": "3000000"})
}

// alterError sets a topic's config and gives what that is refused with.
func alterError(t *testing.T, client *kgo.Client, topic, name, value string) error {
	t.Helper()
	rs, err := kadm.NewClient(client).AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		return err
	}
	return rs[0].Err
}

// TestC34_NothingIsWrittenWhileNothingChanges lets all tasks of a link run again and again over many mirrors, groups and ACLs that are as
// the source's: the metadata is not written to.
func TestC34_NothingIsWrittenWhileNothingChanges(t *testing.T) {
	t.Parallel()
	mirrors, acls := envInt("HAWSER_IDLE_MIRRORS", 50), envInt("HAWSER_IDLE_ACLS", 200)
	k := GuardedKafka(t)
	source := Client(t, k.Bootstrap())
	admin := kadm.NewClient(source)
	var names []string
	base := again("c34")
	for i := range mirrors {
		names = append(names, fmt.Sprintf("%s-%03d", base, i))
	}
	rs, err := admin.CreateTopics(testContext(t), 1, 1, nil, names...)
	if err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	var users []string
	for i := range acls {
		users = append(users, fmt.Sprintf("User:%s-%d", base, i))
	}
	many := kadm.NewACLs().Topics(base).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral).Allow(users...).AllowHosts("*")
	acl(t, admin, "add", many)
	t.Cleanup(func() {
		_, _ = admin.DeleteTopics(testContext(t), names...)
		_, _ = admin.DeleteACLs(testContext(t), many)
	})
	h, _ := startSecured(t)
	configs := allGroups(base + "-")
	for name, value := range map[string]string{"acl.sync.enable": "true", "acl.sync.ms": "300", "topic.config.sync.ms": "300", "consumer.offset.sync.ms": "300", "availability.check.ms": "500",
		"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.interval.ms": "300", "auto.create.mirror.topics.filters": topicFilters("+" + base + "-*"),
		"acl.filters": `{"aclFilters":[{"resourceFilter":{"resourceType":"topic","patternType":"literal","name":"` + base + `"},"accessFilter":{"operation":"any","permissionType":"any"}}]}`} {
		configs[name] = value
	}
	h.CreateLink("east", k.Bootstrap(), configs)
	mirror := Client(t, h.Kafka)
	here := kadm.NewClient(mirror)
	eventually(t, 60*time.Second, "all mirrors and ACLs are there", func() (bool, string) {
		data, _ := h.Must("GET", h.path("/links/east/mirrors"), nil)["data"].([]any)
		found, err := here.DescribeACLs(testContext(t), kadm.NewACLs().Topics(base).Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny).Allow().AllowHosts())
		n := 0
		for _, one := range found {
			n += len(one.Described)
		}
		return err == nil && len(data) == mirrors && n == acls, fmt.Sprint(len(data), " mirrors, ", n, " ACLs, ", err)
	})
	for i := range 20 {
		commit(t, source, fmt.Sprintf("%s-g%d", base, i), names[i%mirrors], 0)
	}
	for i := range 20 {
		waitCommitted(t, mirror, fmt.Sprintf("%s-g%d", base, i), names[i%mirrors], 0)
	}
	written := func() time.Time {
		t.Helper()
		var last time.Time
		fatal(t, filepath.WalkDir(filepath.Join(h.dir, "data", "meta"), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // a snapshot that is put in its place meanwhile
			}
			if info, err := d.Info(); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
			return nil
		}))
		return last
	}
	// What the last commits and creations led to is written within a moment; then all is quiet.
	quiet := 0
	last := written()
	window := time.Duration(envInt("HAWSER_IDLE_SECONDS", 4)) * time.Second
	var cpu float64
	eventually(t, 60*time.Second, "nothing is written for a while", func() (bool, string) {
		if now := written(); now != last || quiet == 0 {
			last, quiet, cpu = now, 0, cpuSeconds(t, h.Pid)
		}
		quiet++
		pause(testContext(t), 450*time.Millisecond)
		return time.Duration(quiet)*500*time.Millisecond > window, fmt.Sprint("last written ", time.Since(last), " ago")
	})
	share := (cpuSeconds(t, h.Pid) - cpu) / window.Seconds()
	for _, name := range []string{"TopicConfigsSync", "ConsumerOffsetSync", "AclSync", "AutoCreateMirror"} {
		if state, text := h.task("east", name); state != "ACTIVE" {
			t.Errorf("task %s is %s: %s", name, state, text)
		}
	}
	t.Logf("%d mirrors, %d ACLs, 20 groups, rounds every 300 ms: nothing written for %v, %.1f %% of a core", mirrors, acls, window, 100*share)
	if share > 0.5 {
		t.Errorf("idle rounds take %.0f %% of a core, five times the bound of 10 %%", 100*share)
	}
}

// TestC90_NothingOfADeletedTopicIsLeft deletes a plain topic and a mirror that auto-create makes again.
func TestC90_NothingOfADeletedTopicIsLeft(t *testing.T) {
	t.Parallel()
	topic := again("c90")
	configs := allGroups(topic + "-g")
	configs["auto.create.mirror.topics.enable"], configs["auto.create.mirror.topics.filters"] = "true", topicFilters("+"+topic)
	w := newPairTo(t, SharedKafka(t), configs)
	here := kadm.NewClient(w.mirror)
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "v", 0, 10)...)
	w.waitMirrored(topic)
	w.level(topic, 1)
	commit(t, w.source, topic+"-g", topic, 3)
	waitCommitted(t, w.mirror, topic+"-g", topic, 3)
	commit(t, w.mirror, "local", topic, 7)
	remove := func(topic string) {
		t.Helper()
		if rs, err := here.DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
	remove(topic)
	w.waitMirrored(topic)
	w.level(topic, 1)
	waitCommitted(t, w.mirror, topic+"-g", topic, 3)
	if at := committed(t, w.mirror, "local", topic); at != -1 {
		t.Errorf("a group that committed on the deleted mirror is at %d of the new one", at)
	}

	id := producerID(t, w.mirror)
	for round := range 2 {
		CreateTopic(t, w.mirror, "c90-plain", 1, 1, nil)
		if at := committed(t, w.mirror, "local", "c90-plain"); at != -1 {
			t.Errorf("round %d: the group is at %d of a new topic", round, at)
		}
		for sequence := range int32(2) {
			b, err := batch.Build(batch.Spec{ProducerID: kafka.ProducerID(id), ProducerEpoch: 0, BaseSequence: sequence}, []batch.Record{{Timestamp: 1, Value: []byte("v")}})
			fatal(t, err)
			if code, base := produceRaw(t, w.mirror, "c90-plain", 0, b); code != 0 || base != int64(sequence) {
				t.Errorf("round %d: sequence %d is answered with code %d, offset %d", round, sequence, code, base)
			}
		}
		commit(t, w.mirror, "local", "c90-plain", 1)
		remove("c90-plain")
	}
}

// TestC17_TransactionsOverAMirror asks for the mirror as the classic protocol does, and consumes from it in a transaction, which is allowed.
func TestC17_TransactionsOverAMirror(t *testing.T) {
	t.Parallel()
	w := newPair(t)
	topic, plain := again("c17-tx"), "c17-tx-plain"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "r", 0, 10)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	CreateTopic(t, w.mirror, plain, 1, 1, nil)

	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("c17-raw"), 60_000
	init.ProducerID, init.ProducerEpoch = -1, -1
	got, err := init.RequestWith(testContext(t), w.mirror)
	fatal(t, err)
	fatal(t, kerr.ErrorForCode(got.ErrorCode))
	add := func(topics ...string) map[string]int16 {
		t.Helper()
		rq := kmsg.NewPtrAddPartitionsToTxnRequest()
		rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch = "c17-raw", got.ProducerID, got.ProducerEpoch
		for _, name := range topics {
			rt := kmsg.NewAddPartitionsToTxnRequestTopic()
			rt.Topic, rt.Partitions = name, []int32{0}
			rq.Topics = append(rq.Topics, rt)
		}
		pinned := Client(t, w.h.Kafka, kgo.MaxVersions(kversion.V3_0_0()))
		rs, err := rq.RequestWith(testContext(t), pinned)
		fatal(t, err)
		codes := map[string]int16{}
		for _, one := range rs.Topics {
			codes[one.Topic] = one.Partitions[0].ErrorCode
		}
		return codes
	}
	if codes := add(topic, plain); codes[topic] == 0 || codes[topic] == kerr.OperationNotAttempted.Code || codes[plain] != kerr.OperationNotAttempted.Code {
		t.Errorf("a mirror and a plain topic are added with %v", codes)
	}
	if codes := add(plain); codes[plain] != 0 {
		t.Errorf("the plain topic alone is added with %v", codes)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = "c17-raw", got.ProducerID, got.ProducerEpoch, false
	ended, err := end.RequestWith(testContext(t), Client(t, w.h.Kafka, kgo.MaxVersions(kversion.V3_0_0())))
	fatal(t, err)
	fatal(t, kerr.ErrorForCode(ended.ErrorCode))

	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(w.h.Kafka), kgo.TransactionalID("c17-copy"), kgo.ConsumerGroup("c17-copy"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(10*time.Millisecond))
	fatal(t, err)
	defer session.Close()
	var copied []string
	for len(copied) < 10 {
		fetches := session.PollFetches(testContext(t))
		fatal(t, fetches.Err())
		fatal(t, session.Begin())
		for _, r := range fetches.Records() {
			copied = append(copied, string(r.Value))
			session.Produce(testContext(t), &kgo.Record{Topic: plain, Value: r.Value}, nil)
		}
		if done, err := session.End(testContext(t), kgo.TryCommit); err != nil || !done {
			t.Fatalf("commit the offsets of a mirror in a transaction: %v, %v", done, err)
		}
	}
	if at := committed(t, w.mirror, "c17-copy", topic); at != 10 {
		t.Errorf("the group is at %d of the mirror, want 10", at)
	}
	if have := values(t, w.h.Kafka, plain, kgo.ReadCommitted(), 10); !slices.Equal(have, copied) {
		t.Errorf("the plain topic holds %v", have)
	}
}
