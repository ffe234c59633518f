package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/event"
)

var all = []event.Event{
	event.LinkCreated{Link: "l", ID: "id", Mode: "DESTINATION", RemoteClusterID: "c"},
	event.LinkDeleted{Link: "l"}, event.LinkDeleted{Link: "l", Forced: true},
	event.LinkConfigsChanged{Link: "l", Names: []string{"sasl.jaas.config"}},
	event.LinkStateChanged{Link: "l", From: "ACTIVE", To: "UNAVAILABLE", Code: "TIMEOUT_ERROR", Text: "no answer."},
	event.TaskStateChanged{Link: "l", Task: "AclSync", From: "ACTIVE", To: "IN_ERROR", Code: "AUTHORIZATION_ERROR"},
	event.MirrorCreated{Link: "l", Topic: "t", SourceTopic: "s", Partitions: 3},
	event.MirrorStateChanged{Link: "l", Topic: "t", From: "ACTIVE", To: "FAILED", Code: "RECORD_TOO_LARGE", Text: "too large"},
	event.MirrorFault{Link: "l", Topic: "t", Partition: 0, Code: "X", Text: "y"},
	event.MirrorHealed{Link: "l", Topic: "t", Partition: 2},
	event.MirrorTruncated{Link: "l", Topic: "t", Offset: 5, Epoch: 1, Records: 7},
	event.RecordsLost{Link: "l", Topic: "t", Offset: 5, Records: 7},
	event.BrokerReady{NodeID: 1, ClusterID: "c", Listeners: "PLAINTEXT://a:1", Took: time.Second},
	event.BrokerStopping{Reason: "SIGTERM"},
	event.TopicCreated{Topic: "t", ID: "id", Partitions: 1}, event.TopicDeleted{Topic: "t", ID: "id"},
	event.PartitionOutOfService{Topic: "t", Err: errors.New("crc")}, event.PartitionInService{Topic: "t", Partition: 1},
	event.RecoveryFound{Topic: "t", Offset: 5, TornBytes: 9}, event.RecoveryFound{Topic: "t", Offset: 5, Rebuilt: 2},
	event.DirectorySetAside{From: "a", To: "b"},
	event.MetadataReadOnly{ReadOnly: true, UsedBytes: 1, QuotaBytes: 2}, event.MetadataReadOnly{},
}

func TestEveryEventMakesOneLine(t *testing.T) {
	var out bytes.Buffer
	log := event.Log(slog.New(slog.NewJSONHandler(&out, nil)))
	for _, e := range all {
		out.Reset()
		log.Emit(e)
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Fatalf("%T made %q", e, out.String())
		}
		if got["event"] != e.Line().Name || got["msg"] != e.String() || e.String() == "" {
			t.Errorf("%T made %v", e, got)
		}
		if _, has := got["offset"]; has != strings.Contains(e.String(), "offset") {
			t.Errorf("%T: offset in the keys: %v, text: %s", e, has, e)
		}
	}
	out.Reset()
	log.Emit(event.MirrorFault{Link: "l", Topic: "t", Partition: 0})
	if !strings.Contains(out.String(), `"partition":0`) {
		t.Errorf("partition 0 is not said: %s", out.String())
	}
}

func TestRingKeepsTheNewest(t *testing.T) {
	r := event.NewRing(3, nil)
	if got := r.After(0, 10); len(got) != 0 {
		t.Fatalf("an empty ring has %v", got)
	}
	for i := range 7 {
		r.Emit(event.MirrorHealed{Link: "l", Topic: "t", Partition: int32(i)})
	}
	got := r.After(0, 10)
	if len(got) != 3 || got[0].Seq != 5 || got[2].Seq != 7 || *got[2].Partition != 6 {
		t.Fatalf("kept %+v", got)
	}
	if got := r.After(6, 10); len(got) != 1 || got[0].Seq != 7 {
		t.Fatalf("after 6 comes %+v", got)
	}
	if got := r.After(0, 2); len(got) != 2 || got[1].Seq != 7 {
		t.Fatalf("the newest two are %+v", got)
	}
	if r.Counts()["mirror_healed"] != 7 {
		t.Fatalf("counts = %v", r.Counts())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	waited := make(chan error)
	go func() { waited <- r.Wait(ctx, 7) }()
	r.Emit(event.TopicDeleted{Topic: "t"})
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := r.Wait(ctx, 8); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait = %v", err)
	}
}

func TestAuditAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for range 2 {
		a, err := event.OpenAudit(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Record(event.Order{At: time.Unix(1, 0).UTC(), Principal: "User:a", Door: "rest", Verb: "promote", Link: "l", Topics: []string{"t\n"}}); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Record(event.Order{}); err == nil {
			t.Fatal("an order was lost without an error")
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var o event.Order
	if len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &o) != nil || o.Verb != "promote" || o.Topics[0] != "t\n" {
		t.Fatalf("file holds %q", data)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	// A crash has kept the end of the last line from the disk: the next order gets a line of its own.
	if err := os.WriteFile(path, data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := event.OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Record(event.Order{Verb: "failover"}), again.Close()); err != nil {
		t.Fatal(err)
	}
	data, _ = os.ReadFile(path)
	lines = strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 3 || json.Unmarshal([]byte(lines[2]), &o) != nil || o.Verb != "failover" {
		t.Errorf("after a torn line the file holds %q", data)
	}
	var none *event.Audit
	if none.Record(event.Order{}) != nil || none.Close() != nil {
		t.Error("no audit is not harmless")
	}
}
