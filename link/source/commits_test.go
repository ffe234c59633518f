package source

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	untied        = kgo.RecordAttrsOpts{}
	transactional = kgo.RecordAttrsOpts{Transactional: true}
)

func commitRecord(group string, attrs kgo.RecordAttrsOpts, producer int64) *kgo.Record {
	key := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: "t"}
	r := &kgo.Record{Topic: "__consumer_offsets", Key: key.AppendTo(nil), ProducerID: producer}
	r.Attrs = kgo.NewRecordAttrs(attrs)
	return r
}

func fetched(records ...*kgo.Record) kgo.Fetches {
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "__consumer_offsets", Partitions: []kgo.FetchPartition{{Records: records}}}}}}
}

// TestCommitsAreToldWhenTheyCount tells plain commits at once and those in a transaction when it ends.
func TestCommitsAreToldWhenTheyCount(t *testing.T) {
	w := commitWatch{open: map[openCommit][]string{}}
	tell := func(want []string, records ...*kgo.Record) {
		t.Helper()
		if got := w.groups(fetched(records...)); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	}
	marker := &kgo.Record{Topic: "__consumer_offsets", Key: []byte{0, 0, 0, 1}, ProducerID: 7, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})}
	tell([]string{"a", "b"}, commitRecord("b", untied, -1), commitRecord("a", untied, -1), commitRecord("a", untied, -1))
	tell([]string{}, commitRecord("x", transactional, 7), commitRecord("y", transactional, 7))
	tell([]string{"c"}, commitRecord("c", untied, -1))
	tell([]string{"x", "y"}, marker)
	tell([]string{}, marker)
	var many []*kgo.Record
	for i := range commitsGroupsMax {
		many = append(many, commitRecord(fmt.Sprint("g", i), transactional, 8))
	}
	tell([]string{"z"}, append(many, commitRecord("z", transactional, 8))...) // one more than is remembered
	member := &kgo.Record{Key: []byte{0, 2, 0, 1, 'g'}}
	tell([]string{}, member, &kgo.Record{Key: []byte{0, 1, 0}}, &kgo.Record{Key: []byte{0}}, &kgo.Record{})
}
