package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/rest/api"
	rest "github.com/hawserio/hawser/rest/client"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// site is one of two clusters that are linked in both directions by the link "ab".
type site struct {
	t    *testing.T
	name string
	b    *broker.Broker
	dir  string
	kgo  *kgo.Client
	rest *rest.Client
}

// twoSites starts clusters A and B with their halves of the link.
func twoSites(t *testing.T, configs ...api.ConfigData) (a, b *site) {
	t.Helper()
	a, b = newSite(t, "A"), newSite(t, "B")
	id := a.link(b, "", configs)
	b.link(a, id, configs)
	return a, b
}

func newSite(t *testing.T, name string) *site {
	t.Helper()
	return newSiteWith(t, name, nil)
}

func newSiteWith(t *testing.T, name string, settings map[string]string) *site {
	t.Helper()
	s := &site{t: t, name: name, dir: t.TempDir()}
	s.b = start(t, s.dir, settings)
	s.connect()
	return s
}

func (s *site) connect() {
	s.kgo = client(s.t, s.b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10*time.Millisecond))
	door, err := rest.New("http://"+s.b.HTTPAddress(), rest.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rest = door
}

// link makes this site's half; the second one names the first one's id.
func (s *site) link(to *site, id string, configs []api.ConfigData) string {
	s.t.Helper()
	set := func(name, value string) api.ConfigData { return api.ConfigData{Name: name, Value: &value} }
	all := append([]api.ConfigData{
		set("bootstrap.servers", to.b.KafkaAddress()), set("link.mode", "BIDIRECTIONAL"),
		set("topic.config.sync.ms", "1000"), set("consumer.offset.sync.ms", "1000"), set("metadata.max.age.ms", "1000"),
	}, configs...)
	made, err := s.rest.CreateLink(within(s.t), rest.NewLink{Name: "ab", Body: api.CreateLinkRequest{RemoteClusterID: to.b.ClusterID(), ClusterLinkID: id, Configs: all}})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.ClusterLinkID
}

func (s *site) create(topic string, partitions int32) {
	s.t.Helper()
	create(s.t, s.kgo, topic, partitions)
}

func (s *site) mirror(topic string) {
	s.t.Helper()
	if _, err := s.rest.CreateMirror(within(s.t), "ab", api.CreateMirrorRequest{SourceTopicName: topic, Configs: []api.ConfigData{}}); err != nil {
		s.t.Fatal(err)
	}
}

// put writes n records to each partition; the first error is returned.
func (s *site) put(topic string, partitions int32, n int, value string) error {
	s.t.Helper()
	for p := range partitions {
		for i := range n {
			r := &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%s-%d", value, i)}
			if err := s.kgo.ProduceSync(within(s.t), r).FirstErr(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
}

// order gives a verb and returns what it answered about each topic.
func (s *site) order(verb string, mode rest.Mode, topics ...string) []api.AlteredMirror {
	s.t.Helper()
	done, err := s.rest.Order(within(s.t), "ab", verb, api.AlterMirrorsRequest{MirrorTopicNames: topics}, mode)
	s.must(err)
	return done
}

func (s *site) mustOrder(verb string, topics ...string) {
	s.t.Helper()
	for _, one := range s.order(verb, rest.Do, topics...) {
		if one.ErrorMessage != nil {
			s.t.Fatalf("%s: %s %s: %s", s.name, verb, one.MirrorTopicName, *one.ErrorMessage)
		}
	}
}

// status waits until the topic is shown so.
func (s *site) status(topic, want string) api.Mirror {
	s.t.Helper()
	var last api.Mirror
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if last, err = s.rest.Mirror(within(s.t), "ab", topic); err == nil && last.MirrorStatus == want {
			return last
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("%s: %s is %s (%s %s, %v), want %s; %v", s.name, topic, last.MirrorStatus, last.MirrorTopicError, last.MirrorTopicErrorMessage, last.MirrorStateTransitionErrors, want, err)
	return last
}

// follow makes a link to a cluster that has no half of it.
func (s *site) follow(source *site) {
	s.t.Helper()
	set := func(name, value string) api.ConfigData { return api.ConfigData{Name: name, Value: &value} }
	_, err := s.rest.CreateLink(within(s.t), rest.NewLink{Name: "ab", Body: api.CreateLinkRequest{SourceClusterID: source.b.ClusterID(), Configs: []api.ConfigData{
		set("bootstrap.servers", source.b.KafkaAddress()), set("metadata.max.age.ms", "1000"), set("topic.config.sync.ms", "1000"),
	}}})
	s.must(err)
}

// stored waits until the record that is stored of a mirror is as wanted: orders go by that, which what is shown may run ahead of.
func (s *site) stored(topic string, wanted func(*meta.Mirror) bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(within(s.t))
	defer cancel()
	var last meta.Mirror
	found := false
	s.b.Watch(ctx, func(_, img *meta.Image) {
		if rec := img.Mirrors[img.TopicIDs[topic]]; rec != nil {
			if last = *rec; wanted(rec) {
				found = true
				cancel()
			}
		}
	})
	if !found {
		s.t.Fatalf("%s: the record of %s stays %+v", s.name, topic, last)
	}
}

// ends waits until every partition of the topic ends there.
func (s *site) ends(topic string, partitions int32, want int64) {
	s.t.Helper()
	var text string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		list, err := kadm.NewClient(s.kgo).ListEndOffsets(within(s.t), topic)
		s.must(err)
		level := true
		text = ""
		list.Each(func(o kadm.ListedOffset) {
			level = level && o.Err == nil && o.Offset == want
			text += fmt.Sprint(o.Partition, ": ", o.Offset, " ", o.Err, "; ")
		})
		if level && len(list[topic]) == int(partitions) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("%s: %s does not come to end at %d: %s", s.name, topic, want, text)
}

// values reads a partition from its start to its end.
func (s *site) values(topic string, partition int32) []string {
	s.t.Helper()
	admin := kadm.NewClient(s.kgo)
	ends, err := admin.ListEndOffsets(within(s.t), topic)
	s.must(err)
	starts, err := admin.ListStartOffsets(within(s.t), topic)
	s.must(err)
	end, _ := ends.Lookup(topic, partition)
	from, _ := starts.Lookup(topic, partition)
	if end.Offset == from.Offset {
		return nil
	}
	c := client(s.t, s.b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}), kgo.KeepControlRecords())
	defer c.Close()
	var list []string
	ctx, cancel := context.WithTimeout(within(s.t), 15*time.Second)
	defer cancel()
	for {
		fs := c.PollFetches(ctx)
		s.must(fs.Err())
		last := int64(-1)
		fs.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if !r.Attrs.IsControl() {
				list = append(list, fmt.Sprintf("%d:%s", r.Offset, r.Value))
			}
		})
		if last+1 >= end.Offset {
			return list
		}
	}
}

// same wants the same records on both sides.
func same(t *testing.T, a, b *site, topic string, partitions int32) {
	t.Helper()
	for p := range partitions {
		have, want := a.values(topic, p), b.values(topic, p)
		if strings.Join(have, " ") != strings.Join(want, " ") {
			t.Errorf("%s-%d: A has %v, B has %v", topic, p, have, want)
		}
	}
}

func TestReverseAndStartTurnsSourceAndMirror(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 3)
	a.must(a.put("t", 3, 5, "first"))
	b.mirror("t")
	b.ends("t", 3, 5)
	begun := time.Now()
	b.mustOrder("reverse-and-start-mirror", "t")
	b.status("t", "STOPPED")
	t.Logf("STOPPED after %v", time.Since(begun))
	b.must(b.put("t", 3, 4, "second"))
	a.status("t", "ACTIVE")
	a.ends("t", 3, 9)
	if err := a.put("t", 1, 1, "refused"); err != kerr.InvalidRequest {
		t.Errorf("a producer on the new mirror hears %v", err)
	}
	same(t, a, b, "t", 3)
	// And back.
	a.mustOrder("reverse-and-pause-mirror", "t")
	a.status("t", "STOPPED")
	a.must(a.put("t", 3, 1, "third"))
	b.status("t", "PAUSED")
	b.ends("t", 3, 9)
	b.mustOrder("resume", "t")
	b.ends("t", 3, 10)
	same(t, a, b, "t", 3)
}

// split makes the usual disaster: topic t is mirrored from A to B, B is failed over while A goes on, and both are written to. Both
// have 5 records; A gets 3 more, B 4.
func split(t *testing.T, a, b *site, partitions int32) {
	t.Helper()
	a.create("t", partitions)
	a.must(a.put("t", partitions, 5, "both"))
	b.mirror("t")
	b.ends("t", partitions, 5)
	b.mustOrder("failover", "t")
	b.status("t", "STOPPED")
	a.must(a.put("t", partitions, 3, "only A"))
	b.must(b.put("t", partitions, 4, "only B"))
}

// quarantined finds the topic that keeps what a restore cut off.
func (s *site) quarantined(topic string) string {
	s.t.Helper()
	all, err := kadm.NewClient(s.kgo).ListTopics(within(s.t))
	s.must(err)
	for _, name := range all.Names() {
		if strings.HasPrefix(name, "hawser.cut."+topic+".") {
			return name
		}
	}
	s.t.Fatalf("%s: no quarantine of %s among %v", s.name, topic, all.Names())
	return ""
}

func TestTruncateAndRestoreKeepsTheTailInQuarantine(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	split(t, a, b, 2)
	commitAt(t, a, "g", 8)
	dry := a.order("truncate-and-restore", rest.ValidateOnly, "t")[0]
	if dry.ErrorMessage != nil || dry.MessagesTruncated == nil || *dry.MessagesTruncated != 6 {
		t.Fatalf("the dry run says %+v", dry)
	}
	if len(dry.GroupOffsets) != 1 || dry.GroupOffsets[0] != (api.GroupOffset{GroupID: "g", Offset: 8, LoweredTo: 5}) {
		t.Errorf("the dry run shows group offsets %+v", dry.GroupOffsets)
	}
	a.must(a.put("t", 1, 0, ""))
	a.mustOrder("truncate-and-restore", "t")
	a.status("t", "ACTIVE")
	a.ends("t", 2, 9)
	same(t, a, b, "t", 2)
	if got := committedAt(t, a, "g"); got != 5 {
		t.Errorf("T8: the group is at %d, want the cut, 5", got)
	}
	cut := a.quarantined("t")
	for p := range int32(2) {
		want := "5:only A-0 6:only A-1 7:only A-2"
		if got := strings.Join(a.values(cut, p), " "); got != want {
			t.Errorf("the quarantine of partition %d has %q, want %q", p, got, want)
		}
	}
	if err := a.put(cut, 1, 1, "x"); err != kerr.InvalidRequest {
		t.Errorf("a producer on the quarantine hears %v", err)
	}
	// And back to where it began.
	a.mustOrder("reverse-and-start-mirror", "t")
	a.status("t", "STOPPED")
	b.status("t", "ACTIVE")
	a.must(a.put("t", 2, 2, "home"))
	b.ends("t", 2, 11)
	same(t, a, b, "t", 2)
}

func commitAt(t *testing.T, s *site, group string, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, at, -1)
	rs, err := kadm.NewClient(s.kgo).CommitOffsets(within(t), group, offsets)
	if err == nil {
		err = rs.Error()
	}
	s.must(err)
}

func committedAt(t *testing.T, s *site, group string) int64 {
	t.Helper()
	rs, err := kadm.NewClient(s.kgo).FetchOffsetsForTopics(within(t), group, "t")
	s.must(err)
	o, ok := rs.Lookup("t", 0)
	if !ok {
		return -1
	}
	return o.At
}
