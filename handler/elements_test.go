package handler

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestElementsOfARequestAreCounted(t *testing.T) {
	metadata := kmsg.NewPtrMetadataRequest()
	for range 3 {
		metadata.Topics = append(metadata.Topics, kmsg.NewMetadataRequestTopic())
	}
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"a", "b"}
	fetch := kmsg.NewPtrFetchRequest()
	for range 2 {
		topic := kmsg.NewFetchRequestTopic()
		topic.Partitions = make([]kmsg.FetchRequestTopicPartition, 5)
		fetch.Topics = append(fetch.Topics, topic)
	}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Groups = []kmsg.OffsetFetchRequestGroup{{Topics: []kmsg.OffsetFetchRequestGroupTopic{{Partitions: make([]int32, 7)}}}}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberAssignment: make([]byte, 1000)}}
	for _, c := range []struct {
		rq   kmsg.Request
		want int
	}{{metadata, 3}, {groups, 2}, {fetch, 12}, {offsets, 9}, {sync, 1}} {
		for _, most := range []int{c.want, c.want - 1} {
			left := most
			if got := within(reflect.ValueOf(c.rq).Elem(), &left); got != (most == c.want) {
				t.Errorf("%s with %d elements, %d taken: %t", kmsg.NameForKey(c.rq.Key()), c.want, most, got)
			}
		}
	}
}
