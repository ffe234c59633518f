//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestC33_MirrorIsBornWithItsConfigs mirrors records of 2001 to a broker whose own defaults would delete them
// within a second.
func TestC33_MirrorIsBornWithItsConfigs(t *testing.T) {
	src := StartHawser(t)
	dst := StartHawser(t, "--set", "log.retention.ms=3600000", "--set", "log.retention.check.interval.ms=100", "--set", "log.cleaner.backoff.ms=50")
	source := Client(t, src.Kafka)
	want := map[string]map[string]string{
		"c33-compact": {"cleanup.policy": "compact", "retention.ms": "-1"},
		"c33-delete":  {"cleanup.policy": "delete", "retention.ms": "-1"},
	}
	for topic, configs := range want {
		CreateTopic(t, source, topic, 1, 1, configs)
		for i := range 100 {
			r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v"), Timestamp: time.Date(2001, 1, 1, 0, 0, i, 0, time.UTC)}
			if err := source.ProduceSync(testContext(t), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dst.CreateLink("east", src.Kafka, fastLink)
	mirror := Client(t, dst.Kafka)
	for topic, configs := range want {
		dst.Must("POST", dst.path("/links/east/mirrors"), map[string]any{"source_topic_name": topic})
		sameConfigs(t, mirror, topic, configs)
		WaitLevel(t, source, mirror, topic, 1, time.Minute)
	}
	until := time.Now().Add(2 * time.Second)
	for time.Now().Before(until) { // twenty looks of the retention
		for topic, configs := range want {
			sameConfigs(t, mirror, topic, configs)
			if start, end := Ends(t, mirror, topic, 0); start != 0 || end != 100 {
				t.Fatalf("%s holds [%d, %d)", topic, start, end)
			}
		}
	}
	// A topic of the mirror's own does lose such records: the broker's defaults are in force.
	CreateTopic(t, mirror, "own", 1, 1, nil)
	r := &kgo.Record{Topic: "own", Value: []byte("v"), Timestamp: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}
	if err := mirror.ProduceSync(testContext(t), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "retention removes what is old", func() (bool, string) {
		start, end := Ends(t, mirror, "own", 0)
		return start == 1 && end == 1, fmt.Sprintf("[%d, %d)", start, end)
	})
	for topic := range want {
		SameAll(t, source, mirror, topic, 1)
	}
}

func sameConfigs(t *testing.T, c *kgo.Client, topic string, want map[string]string) {
	t.Helper()
	found, err := kadm.NewClient(c).DescribeTopicConfigs(testContext(t), topic)
	if err != nil || len(found) != 1 || found[0].Err != nil {
		t.Fatalf("describe configs of %s: %v, %v", topic, found, err)
	}
	for name, value := range want {
		for _, have := range found[0].Configs {
			if have.Key == name && !strings.EqualFold(have.MaybeValue(), value) {
				t.Fatalf("%s has %s=%s, want %s", topic, name, have.MaybeValue(), value)
			}
		}
	}
}
