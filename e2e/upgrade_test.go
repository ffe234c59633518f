//go:build e2e

package e2e

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var recordRelease = flag.String("record-release", "", "keep what this hawser leaves behind as testdata/releases/NAME.tar.zst, for later ones to open")

// releases is where the directories are that earlier versions left. Written by, with HAWSER_BIN naming the version's binary:
// go test -tags e2e ./e2e -run TestC107_Upgrade -record-release NAME
const releases = "testdata/releases"

// TestC107_UpgradeFromAnEarlierRelease opens what earlier versions of hawser left, a source and a mirror cluster, and what this one
// leaves: everything is there, and goes on.
func TestC107_UpgradeFromAnEarlierRelease(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join(releases, "*.tar.zst"))
	fatal(t, err)
	if len(archives) == 0 && *recordRelease == "" {
		t.Fatalf("%s holds nothing", releases)
	}
	left := filepath.Join(t.TempDir(), "this.tar.zst")
	t.Run("write", func(t *testing.T) { leaveRelease(t, left) })
	if *recordRelease != "" {
		raw, err := os.ReadFile(left)
		fatal(t, err)
		fatal(t, os.WriteFile(filepath.Join(releases, *recordRelease+".tar.zst"), raw, 0o644))
		return
	}
	for _, archive := range append(archives, left) {
		t.Run(filepath.Base(archive), func(t *testing.T) { openRelease(t, archive) })
	}
}

// leaveRelease makes two clusters with a bit of everything in them, ends one gently and one with SIGKILL, and keeps both.
func leaveRelease(t *testing.T, archive string) {
	t.Helper()
	src, secured := startSecured(t)
	source := Client(t, src.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	from := kadm.NewClient(source)
	for topic, policy := range map[string]string{"orders": "delete", "accounts": "compact", "sales": "delete", "payments": "delete"} {
		CreateTopic(t, source, topic, 2, 1, map[string]string{"cleanup.policy": policy, "retention.ms": "-1"}) // an archive is opened years later
	}
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		client := Client(t, src.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec))
		for _, topic := range []string{"orders", "accounts", "sales"} {
			produce(t, client, keyed(topic, strings.Repeat("value ", 20), "a", "b", "c", "d")...)
		}
	}
	transaction(t, src.Kafka, "done", "payments", "paid", kgo.TryCommit)
	transaction(t, src.Kafka, "not", "payments", "unpaid", kgo.TryAbort)
	openAt(t, src.Kafka, "left-open", "payments")
	commit(t, source, "readers", "orders", 7)
	acl(t, from, "add", may("carol", "orders", kadm.OpRead))
	for _, user := range []string{"bob", "carol"} { // the link's user
		acl(t, from, "add", kadm.NewACLs().Topics("*").Groups("*").Clusters().Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:"+user).AllowHosts("*"))
	}
	scramUser(t, from, "carol", "carol-secret")

	dst, _ := startSecured(t)
	mirror := Client(t, dst.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	configs := loginConfigs("PLAIN", "bob", "bob-secret")
	configs["consumer.offset.sync.enable"], configs["consumer.offset.group.filters"] = "true", groupFilters("+readers")
	dst.CreateLink("east", secured, configs)
	for _, topic := range []string{"orders", "accounts", "sales", "payments"} {
		dst.CreateMirror("east", topic)
		WaitLevel(t, source, mirror, topic, 2, 30*time.Second)
	}
	waitCommitted(t, mirror, "readers", "orders", 7)
	dst.Order("east", "pause", "accounts")
	dst.WaitStatus("east", "accounts", "PAUSED", 30*time.Second)
	dst.Order("east", "promote", "sales")
	dst.WaitStatus("east", "sales", "STOPPED", 30*time.Second)
	produce(t, mirror, texts("sales", "here", 0, 3)...)
	CreateTopic(t, mirror, "plain", 1, 1, map[string]string{"retention.ms": "-1", "segment.ms": "123456789"})
	produce(t, mirror, texts("plain", "p", 0, 10)...)
	commit(t, mirror, "local", "plain", 4)
	transaction(t, dst.Kafka, "local", "plain", "paid", kgo.TryCommit)
	acl(t, kadm.NewClient(mirror), "add", may("dave", "plain", kadm.OpRead))
	user := "dave"
	quotas, err := kadm.NewClient(mirror).AlterClientQuotas(testContext(t), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 123456}},
	}})
	fatal(t, err)
	fatal(t, quotas[0].Err)
	dst.Stop() // STOPPED is stored by then
	src.Kill()
	pack(t, archive, map[string]string{"source": src.data(), "mirror": dst.data()})
}

// transaction writes one record in a transaction and ends it.
func transaction(t *testing.T, bootstrap, id, topic, value string, how kgo.TransactionEndTry) {
	t.Helper()
	client := Client(t, bootstrap, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	fatal(t, client.BeginTransaction())
	produce(t, client, texts(topic, value, 0, 1)...)
	fatal(t, client.EndTransaction(testContext(t), how))
}

// openAt leaves a transaction open.
func openAt(t *testing.T, bootstrap, id, topic string) {
	t.Helper()
	client := Client(t, bootstrap, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(10*time.Minute))
	fatal(t, client.BeginTransaction())
	produce(t, client, texts(topic, "open", 0, 1)...)
}

// openRelease starts this hawser on what was left and wants everything to be there and to go on.
func openRelease(t *testing.T, archive string) {
	t.Helper()
	src, secured := openSecured(t, archive, "source")
	dst, _ := openSecured(t, archive, "mirror")
	source, mirror := Client(t, src.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner())), Client(t, dst.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	here := kadm.NewClient(mirror)
	for topic, status := range map[string]string{"orders": "", "payments": "", "accounts": "PAUSED", "sales": "STOPPED"} {
		if have := dst.Mirror("east", topic).Status; status != "" && have != status {
			t.Errorf("%s is %s, was %s", topic, have, status)
		}
	}
	for group, at := range map[string]int64{"readers": 7, "local": 4} {
		topic := map[string]string{"readers": "orders", "local": "plain"}[group]
		if have := committed(t, mirror, group, topic); have != at {
			t.Errorf("group %s is at %d, was at %d", group, have, at)
		}
	}
	if have := values(t, dst.Kafka, "plain", kgo.ReadCommitted(), 11); have[9] != "p-9" || have[10] != "paid-0" {
		t.Errorf("the plain topic holds %v", have)
	}
	if have := describedConfig(t, mirror, "plain", "segment.ms"); have != "123456789" {
		t.Errorf("its segment.ms is %s", have)
	}
	rightsAndQuotas(t, src, dst)
	if have := values(t, src.Kafka, "payments", kgo.ReadCommitted(), 1); have[0] != "paid-0" {
		t.Errorf("at the source payments holds %v", have)
	}

	// The source has another address now; the password that was sealed is good for it.
	dst.alter("east", map[string]string{"bootstrap.servers": secured})
	transaction(t, src.Kafka, "left-open", "payments", "after", kgo.TryCommit) // aborts what was left open, unless its time was over long ago
	produce(t, source, keyed("orders", "after", "a", "b")...)
	produce(t, source, keyed("accounts", "after", "a", "b")...)
	commit(t, source, "readers", "orders", 9)
	dst.Order("east", "resume", "accounts")
	for _, topic := range []string{"orders", "accounts", "payments"} {
		dst.WaitStatus("east", topic, "ACTIVE", 60*time.Second)
		WaitLevel(t, source, mirror, topic, 2, 60*time.Second)
		SameAll(t, source, mirror, topic, 2)
	}
	waitCommitted(t, mirror, "readers", "orders", 9)
	_, end := Ends(t, source, "payments", 0)
	if have := values(t, dst.Kafka, "payments", kgo.ReadCommitted(), 2); have[1] != "after-0" || stable(t, source, "payments") != end || stable(t, mirror, "payments") != end {
		t.Errorf("payments holds %v and ends at %d, stable up to %d and here to %d", have, end, stable(t, source, "payments"), stable(t, mirror, "payments"))
	}
	Same(t, source, mirror, "sales", 0, 0, 20)
	produce(t, mirror, texts("sales", "more", 0, 1)...)
	if have := values(t, dst.Kafka, "sales", kgo.ReadCommitted(), 24); have[20] != "here-0" || have[23] != "more-0" {
		t.Errorf("sales holds %v", have)
	}
	transaction(t, dst.Kafka, "local", "plain", "again", kgo.TryCommit)
	dst.Order("east", "failover", "orders", "accounts", "payments")
	for _, topic := range []string{"orders", "accounts", "payments"} {
		dst.WaitStatus("east", topic, "STOPPED", 30*time.Second)
		produce(t, mirror, keyed(topic, "own", "z")...)
	}
	if rs, err := here.DeleteTopics(testContext(t), "plain", "orders"); err != nil || rs.Error() != nil {
		t.Error(err, rs.Error())
	}
}

// rightsAndQuotas wants users, ACLs and quotas as leaveRelease made them.
func rightsAndQuotas(t *testing.T, src, dst *Hawser) {
	t.Helper()
	ctx := testContext(t)
	users, err := kadm.NewClient(Client(t, src.Kafka)).DescribeUserSCRAMs(ctx, "carol")
	if err != nil || len(users["carol"].CredInfos) != 2 {
		t.Errorf("the user is described as %v, %v", users, err)
	}
	found, err := kadm.NewClient(Client(t, dst.Kafka)).DescribeACLs(ctx, kadm.NewACLs().AnyResource().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny).Allow("User:dave").AllowHosts())
	if err != nil || len(found) != 1 || len(found[0].Described) != 1 || found[0].Described[0].Name != "plain" {
		t.Errorf("the ACLs are %v, %v", found, err)
	}
	quotas, err := kadm.NewClient(Client(t, dst.Kafka)).DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: kadm.StringPtr("dave")}})
	if err != nil || len(quotas) != 1 || quotas[0].Values[0].Value != 123456 {
		t.Errorf("the quotas are %v, %v", quotas, err)
	}
}

// TestC107_NewerFormatsAreRefused makes a directory look as if a later version had written it: this one does not touch it, and says why.
func TestC107_NewerFormatsAreRefused(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "c107-newer", 1, 1, nil)
	produce(t, client, texts("c107-newer", "v", 0, 3)...)
	h.Stop()
	file := filepath.Join(h.data(), "data", "hawser-format")
	was, err := os.ReadFile(file)
	fatal(t, err)
	fatal(t, os.WriteFile(file, []byte(strings.Replace(string(was), "1", "2", 1)), 0o600))
	ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, h.args...).CombinedOutput()
	var code *exec.ExitError
	if !errors.As(err, &code) || ctx.Err() != nil || !strings.Contains(string(out), "has format 2 and this version of hawser reads up to 1") || !strings.Contains(string(out), "start the newer version") {
		t.Errorf("a directory of a later version: %v\n%s", err, out)
	}
	fatal(t, os.WriteFile(file, was, 0o600))
	h.Start()
	if _, end := Ends(t, Client(t, h.Kafka), "c107-newer", 0); end != 3 {
		t.Errorf("the topic ends at %d afterwards", end)
	}
}

// openSecured is startSecured on a part of an archive.
func openSecured(t *testing.T, archive, part string) (h *Hawser, secured string) {
	t.Helper()
	args, secured := securedArgs(t)
	h = newHawser(t, nil, append(args, "--set", "offsets.retention.minutes=2147483647")...) // groups were left long ago
	unpack(t, archive, part, h.data())
	h.Start()
	return h, secured
}

func pack(t *testing.T, archive string, parts map[string]string) {
	t.Helper()
	file, err := os.Create(archive)
	fatal(t, err)
	z, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	fatal(t, err)
	out := tar.NewWriter(z)
	for part, dir := range parts {
		fatal(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			within, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if d.IsDir() { // also an empty one: a partition without a record
				return out.WriteHeader(&tar.Header{Name: filepath.Join(part, within), Mode: 0o700, Typeflag: tar.TypeDir})
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := out.WriteHeader(&tar.Header{Name: filepath.Join(part, within), Mode: 0o600, Size: int64(len(raw))}); err != nil {
				return err
			}
			_, err = out.Write(raw)
			return err
		}))
	}
	fatal(t, out.Close())
	fatal(t, z.Close())
	fatal(t, file.Close())
}

func unpack(t *testing.T, archive, part, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	fatal(t, err)
	defer file.Close()
	z, err := zstd.NewReader(file)
	fatal(t, err)
	defer z.Close()
	for in := tar.NewReader(z); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		fatal(t, err)
		within, err := filepath.Rel(part, head.Name)
		if err != nil || !filepath.IsLocal(within) {
			continue // of the other part
		}
		to := filepath.Join(dir, within)
		if head.Typeflag == tar.TypeDir {
			fatal(t, os.MkdirAll(to, 0o700))
			continue
		}
		raw, err := io.ReadAll(in)
		fatal(t, err)
		fatal(t, os.MkdirAll(filepath.Dir(to), 0o700))
		fatal(t, os.WriteFile(to, raw, 0o600))
	}
}
