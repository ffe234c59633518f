package handler

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/link/peer"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// File name, head of the file and row of the table must tell the same.
func TestTableFilesAndHeadsAgree(t *testing.T) {
	files, err := filepath.Glob("[0-9][0-9]_*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(files) != len(apis) {
		t.Errorf("%d files and %d rows", len(files), len(apis))
	}
	head := regexp.MustCompile(`(?m)^// (\w+), key (\d+), versions? ([\d-]+)`)
	for i, row := range apis {
		if i > 0 && apis[i-1].key >= row.key {
			t.Errorf("%s is out of order", row.name)
		}
		want := fmt.Sprintf("%02d_%s.go", row.key, snake(row.name))
		content, err := os.ReadFile(want)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		found := head.FindStringSubmatch(string(content))
		if found == nil {
			t.Errorf("%s has no head «// Name, key N, versions A-B»", want)
			continue
		}
		first := row.min
		if row.key == kmsg.Produce.Int16() {
			first = 3 // the older ones are listed only
		}
		versions := fmt.Sprintf("%d-%d", first, row.max)
		if first == row.max {
			versions = fmt.Sprint(first)
		}
		if found[1] != row.name || found[2] != fmt.Sprint(row.key) || found[3] != versions {
			t.Errorf("%s: the head says %v, the row %s, key %d, versions %s", want, found[1:], row.name, row.key, versions)
		}
		rq := kmsg.RequestForKey(row.key)
		if rq == nil || row.min < 0 || row.max > rq.MaxVersion() || row.handle == nil {
			t.Errorf("%s: no codec for all of %d-%d, or no handler", row.name, row.min, row.max)
		}
	}
}

func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_${2}"))
}

// If any API with topic ids is offered, all that clients need for ids are.
func TestC96_AdvertisedVersionsFitTogether(t *testing.T) {
	offered := newTable(&Deps{})
	for key, least := range map[kmsg.Key]int16{kmsg.Produce: 13, kmsg.Fetch: 13, kmsg.OffsetCommit: 10, kmsg.OffsetFetch: 10, kmsg.Metadata: 12, kmsg.CreateTopics: 7, kmsg.DeleteTopics: 6} {
		row := offered[key.Int16()]
		if row == nil || row.max < least {
			t.Errorf("%s is not offered up to version %d", key.Name(), least)
		}
	}
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.WriteTxnMarkers, kmsg.TxnOffsetCommit, kmsg.DescribeTransactions, kmsg.ListTransactions} {
		if offered[key.Int16()] != nil {
			t.Errorf("%s is offered without a transaction coordinator", key.Name())
		}
	}
}

const protocolDoc = "../docs/protocol.md"

// docs/protocol.md is generated: HAWSER_UPDATE=1 go test ./handler -run TestProtocolDoc
func TestProtocolDocIsFresh(t *testing.T) {
	want := protocolDocument()
	if os.Getenv("HAWSER_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(protocolDoc), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(protocolDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("docs/protocol.md is stale: HAWSER_UPDATE=1 go test ./handler -run TestProtocolDoc")
	}
}

func protocolDocument() string {
	var doc strings.Builder
	doc.WriteString("# Kafka protocol\n\nGenerated from the table in `handler/table.go`; do not edit.\n\n")
	doc.WriteString("The APIs that the Kafka listeners serve. A request of another key or version closes the connection, as in Apache Kafka;\n")
	doc.WriteString("only ApiVersions answers an unknown version, in the form of version 0.\n\n")
	doc.WriteString("| key | API | versions | notes |\n|---|---|---|---|\n")
	for _, row := range apis {
		note := row.note
		switch row.needs {
		case transactions:
			note = strings.TrimPrefix(note+"; where transactions are offered", "; ")
		case security:
			note = strings.TrimPrefix(note+"; where users and quotas are kept", "; ")
		}
		versions := fmt.Sprintf("%d-%d", row.min, row.max)
		if row.min == row.max {
			versions = fmt.Sprint(row.min)
		}
		fmt.Fprintf(&doc, "| %d | %s | %s | %s |\n", row.key, row.name, versions, note)
	}
	doc.WriteString("\n## Private API keys\n\nGenerated from the table in `link/peer/peer.go`. Two hawser clusters speak them over a link, with the link's credentials; other clients pass over\n")
	doc.WriteString("keys that they do not know. Rights are needed at the answering cluster: on the cluster, and on every topic that a request names.\n\n")
	doc.WriteString("| key | API | versions | cluster | topics | what |\n|---|---|---|---|---|---|\n")
	for _, row := range peer.Rows() {
		cluster, topics := "-", "-"
		if row.Cluster != kmsg.ACLOperationUnknown {
			cluster = row.Cluster.String()
		}
		if row.Topic != kmsg.ACLOperationUnknown {
			topics = row.Topic.String()
		}
		versions := fmt.Sprintf("%d-%d", row.Min, row.Max)
		if row.Min == row.Max {
			versions = fmt.Sprint(row.Min)
		}
		fmt.Fprintf(&doc, "| %d | %s | %s | %s | %s | %s |\n", row.Key, row.Name, versions, cluster, topics, row.Doc)
	}
	return doc.String()
}
