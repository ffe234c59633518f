package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func start(t *testing.T, dir string, settings map[string]string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{Dir: dir, Kafka: "127.0.0.1:0", HTTP: "127.0.0.1:0", NodeID: 1, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, b) })
	return b
}

func stop(t *testing.T, b *broker.Broker) {
	t.Helper()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func client(t *testing.T, b *broker.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.KafkaAddress())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func create(t *testing.T, c *kgo.Client, topic string, partitions int32) kadm.TopicID {
	t.Helper()
	made, err := kadm.NewClient(c).CreateTopic(within(t), partitions, 1, nil, topic)
	if err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	return made.ID
}

func TestRecordsAndIdentitySurviveARestart(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	id := b.ClusterID()
	c := client(t, b, kgo.DefaultProduceTopic("orders"))
	topicID := create(t, c, "orders", 2)
	for i := range 100 {
		if err := c.ProduceSync(within(t), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	stop(t, b)
	if b.Ready() {
		t.Error("a closed broker says that it is ready")
	}

	b = start(t, dir, nil)
	if b.ClusterID() != id {
		t.Errorf("cluster id was %s, is %s", id, b.ClusterID())
	}
	c = client(t, b)
	topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
	if err != nil || topics["orders"].ID != topicID || len(topics["orders"].Partitions) != 2 {
		t.Errorf("topic is %+v, %v", topics["orders"], err)
	}
	ends, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
	var total int64
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if err != nil || total != 100 {
		t.Errorf("%d records, %v, want 100", total, err)
	}
}

func TestOneDirectoryHasOneBroker(t *testing.T) {
	dir := t.TempDir()
	start(t, dir, nil)
	_, err := broker.Start(t.Context(), broker.Config{Dir: dir, Kafka: "127.0.0.1:0", NodeID: 1})
	if err == nil || !strings.Contains(err.Error(), "another hawser") {
		t.Errorf("a second broker on the directory: %v", err)
	}
}

func TestD7_UnknownDirectoriesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	c := client(t, b, kgo.DefaultProduceTopic("orders"))
	create(t, c, "orders", 1)
	if err := c.ProduceSync(within(t), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	stop(t, b)
	dirs, err := filepath.Glob(filepath.Join(dir, "data", "*-0"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	stranger := filepath.Join(dir, "data", "AAAAAAAAAAAAAAAAAAAAAg-0")
	if err := os.CopyFS(stranger, os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir, nil)
	if _, err := os.Stat(stranger); !os.IsNotExist(err) {
		t.Errorf("the unknown directory is still in its place: %v", err)
	}
	happened(t, b, "directory_set_aside", "AAAAAAAAAAAAAAAAAAAAAg-0")
	var kept []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, "AAAAAAAAAAAAAAAAAAAAAg") && strings.HasSuffix(path, ".log") {
			kept = append(kept, path)
		}
		return nil
	})
	if len(kept) == 0 {
		t.Error("what was in it is gone")
	}
	stop(t, b)
}

func TestC108_DeletedTopicLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	c := client(t, b, kgo.DefaultProduceTopic("orders"))
	create(t, c, "orders", 1)
	if err := c.ProduceSync(within(t), kgo.StringRecord("old")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(c).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	create(t, c, "orders", 1)
	ends, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
	if o, ok := ends.Lookup("orders", 0); err != nil || !ok || o.Offset != 0 {
		t.Errorf("the new topic ends at %d, %v", o.Offset, err)
	}
	dirs, _ := filepath.Glob(filepath.Join(dir, "data", "*-0"))
	if len(dirs) > 1 {
		t.Errorf("directories of the deleted topic are left: %v", dirs)
	}
}

func TestCollidingTopicNamesAreRefused(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	c := client(t, b)
	create(t, c, "usa.clicks", 1)
	made, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, "usa_clicks")
	if err == nil && made.Err == nil {
		t.Error("usa_clicks was made beside usa.clicks")
	}
}

// The states of a topic's partitions are one record, so there is a most; what is beyond is refused before anything is made.
func TestATopicHasNoMorePartitionsThanItsRecordHolds(t *testing.T) {
	c := client(t, start(t, t.TempDir(), nil))
	admin := kadm.NewClient(c)
	create(t, c, "t", 1)
	if got, err := admin.UpdatePartitions(within(t), 10_001, "t"); err != nil || !errors.Is(got["t"].Err, kerr.InvalidPartitions) {
		t.Errorf("growing: %v, %v", got, err)
	}
	if _, err := admin.CreateTopic(within(t), 10_001, 1, nil, "u"); err == nil {
		t.Error("a topic of 10,001 partitions was created")
	}
	if all, err := admin.ListTopics(within(t)); err != nil || len(all["t"].Partitions) != 1 || all.Has("u") {
		t.Errorf("afterwards: %v, %v", all, err)
	}
}

func TestInternalTopicsCanBeMadeByHandAsTheBrokerMakesThem(t *testing.T) {
	b := start(t, t.TempDir(), map[string]string{"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "2"})
	c := client(t, b)
	admin := kadm.NewClient(c)
	for _, step := range []struct {
		name       string
		topic      string
		partitions int32
		configs    map[string]*string
		want       error
	}{
		{"other partitions", kafka.ConsumerOffsetsTopic, 1, nil, kerr.InvalidPartitions},
		{"other policy", kafka.ConsumerOffsetsTopic, 3, map[string]*string{"cleanup.policy": new("delete")}, kerr.InvalidConfig},
		{"offsets", kafka.ConsumerOffsetsTopic, 3, nil, nil},
		{"again", kafka.ConsumerOffsetsTopic, 3, nil, kerr.TopicAlreadyExists},
		{"transactions", kafka.TransactionStateTopic, 2, map[string]*string{"segment.bytes": new("1048576")}, nil},
	} {
		if _, err := admin.CreateTopic(within(t), step.partitions, 1, step.configs, step.topic); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	configs, err := admin.DescribeTopicConfigs(within(t), kafka.ConsumerOffsetsTopic)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "cleanup.policy" && config.MaybeValue() != "compact" {
			t.Errorf("cleanup.policy is %s", config.MaybeValue())
		}
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 7, -1)
	create(t, c, "t", 1)
	if err := admin.CommitAllOffsets(within(t), "g", offsets); err != nil {
		t.Error(err)
	}
	if got, err := admin.FetchOffsets(within(t), "g"); err != nil || got.Offsets()["t"][0].At != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestHTTPDoorAnswers(t *testing.T) {
	b := start(t, t.TempDir(), nil)
	get := func(path string) string {
		rs, err := http.Get("http://" + b.HTTPAddress() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer rs.Body.Close()
		text, err := io.ReadAll(rs.Body)
		if err != nil || rs.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s %v %s", path, rs.Status, err, text)
		}
		return string(text)
	}
	get("/health/ready")
	if !strings.Contains(get("/metrics"), "hawser_uptime_seconds") {
		t.Error("/metrics has no uptime")
	}
	if !strings.Contains(get("/"), "<html") {
		t.Error("/ is no page")
	}
	var clusters struct {
		Data []struct {
			ID string `json:"cluster_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(get("/kafka/v3/clusters")), &clusters); err != nil || len(clusters.Data) != 1 || clusters.Data[0].ID != b.ClusterID() {
		t.Errorf("clusters are %+v, %v", clusters, err)
	}
}

func TestStartRefusesWhatCannotBe(t *testing.T) {
	taken := start(t, t.TempDir(), nil)
	for name, c := range map[string]struct {
		config broker.Config
		words  string
	}{
		"no directory":         {broker.Config{Kafka: "127.0.0.1:0"}, "--data"},
		"a port that is taken": {broker.Config{Dir: t.TempDir(), Kafka: taken.KafkaAddress()}, "choose another address with --kafka"},
		"another cluster's id": {broker.Config{Dir: t.TempDir(), Kafka: "127.0.0.1:0", ClusterID: "bad id!"}, "cluster"},
		"unknown authorizer":   {broker.Config{Dir: t.TempDir(), Kafka: "127.0.0.1:0", Settings: map[string]string{"authorizer.class.name": "x.Y"}}, "authorizer.class.name"},
	} {
		b, err := broker.Start(t.Context(), c.config)
		if err == nil {
			stop(t, b)
			t.Errorf("%s: it started", name)
			continue
		}
		if !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q in it", name, err, c.words)
		}
	}
}
