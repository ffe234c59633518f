//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestC26_OneSourceBrokerAway hides one broker of the source from the link: groups that another one coordinates go on, the rest
// come back with it by themselves, and so does the task.
func TestC26_OneSourceBrokerAway(t *testing.T) {
	const groups = 30
	topic := again("c26")
	w := newPairTo(t, SharedKafka(t), allGroups(topic+"-"))
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "v", 0, 100)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	var names []string
	for i := range groups {
		names = append(names, fmt.Sprintf("%s-%d", topic, i))
	}
	commitAll := func(at int64) {
		t.Helper()
		for _, name := range names {
			commit(t, w.source, name, topic, at)
		}
	}
	waitAll := func(at int64, groups []string) {
		t.Helper()
		for _, name := range groups {
			waitCommitted(t, w.mirror, name, topic, at)
		}
	}
	commitAll(1)
	waitAll(1, names)
	leader, _, _, err := leader(testContext(t), w.source, topic, 0)
	fatal(t, err)
	var here, away []string
	hidden := int32(0) // a broker that coordinates groups and does not lead the topic
	for name, found := range kadm.NewClient(w.source).FindGroupCoordinators(testContext(t), names...) {
		fatal(t, found.Err)
		if hidden == 0 && found.NodeID != leader {
			hidden = found.NodeID
		}
		if found.NodeID == hidden {
			away = append(away, name)
		} else {
			here = append(here, name)
		}
	}
	if len(away) == 0 || len(here) == 0 {
		t.Fatalf("%d groups with one broker, %d with others: nothing to see", len(away), len(here))
	}
	proxy := w.proxies[hidden-1]
	proxy.Refuse()
	commitAll(2)
	begun := time.Now()
	waitAll(2, here)
	took := time.Since(begun)
	eventually(t, 30*time.Second, "the task tells of it", func() (bool, string) {
		state, text := w.h.task("east", "ConsumerOffsetSync")
		return state == "IN_ERROR", state + text
	})
	for _, name := range away {
		if at := committed(t, w.mirror, name, topic); at != 1 {
			t.Errorf("group %s, whose coordinator is away, is at %d", name, at)
		}
	}
	commitAll(3)
	waitAll(3, here)
	proxy.Allow()
	waitAll(3, names)
	eventually(t, 30*time.Second, "the task is well again", func() (bool, string) {
		state, text := w.h.task("east", "ConsumerOffsetSync")
		return state == "ACTIVE", state + text
	})
	t.Logf("%d groups with a broker that is away, %d with others, which were in sync after %v", len(away), len(here), took.Round(time.Millisecond))
}

// TestC27_DeletedGroupsAndOffsets deletes an offset and then its group at the source: what was known stays here, and other groups go on.
func TestC27_DeletedGroupsAndOffsets(t *testing.T) {
	topic := again("c27")
	other, stranger, g1, g2 := topic+"-other", topic+"-not-mirrored", topic+"-g1", topic+"-g2"
	w := newPairTo(t, SharedKafka(t), allGroups(topic+"-"))
	admin := kadm.NewClient(w.source)
	for _, name := range []string{topic, other, stranger} {
		CreateTopic(t, w.source, name, 1, 1, nil)
		produce(t, w.source, texts(name, "v", 0, 100)...)
	}
	for _, name := range []string{topic, other} {
		w.h.CreateMirror("east", name)
		w.level(name, 1)
	}
	for _, name := range []string{topic, other, stranger} {
		commit(t, w.source, g1, name, 10)
	}
	at := int64(10)
	follows := func(when string) {
		t.Helper()
		for range 2 { // two rounds
			at++
			commit(t, w.source, g2, topic, at)
			waitCommitted(t, w.mirror, g2, topic, at)
		}
		for _, name := range []string{topic, other} {
			if have := committed(t, w.mirror, g1, name); have != 10 {
				t.Errorf("%s: the other group is at %d of %s, want what was last known, 10", when, have, name)
			}
		}
		if state, text := w.h.task("east", "ConsumerOffsetSync"); state != "ACTIVE" {
			t.Errorf("%s: the task is %s: %s", when, state, text)
		}
	}
	waitCommitted(t, w.mirror, g1, topic, 10)
	waitCommitted(t, w.mirror, g1, other, 10)
	follows("before")
	if have := committedAt(t, kadm.NewClient(w.mirror), g1, stranger, 0).At; have != -1 {
		t.Errorf("the group is at %d of a topic that is not mirrored", have)
	}
	gone := kadm.TopicsSet{}
	gone.Add(topic, 0)
	if rs, err := admin.DeleteOffsets(testContext(t), g1, gone); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	follows("an offset was deleted")
	if rs, err := admin.DeleteGroups(testContext(t), g1); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	follows("the group was deleted")
}

// TestC30_GroupsOfEveryKind copies the offsets of groups with classic members, with members of the new protocol, without any, and of
// one that everybody left. Here each is taken over by a member of either protocol, one after the other.
func TestC30_GroupsOfEveryKind(t *testing.T) {
	topic := again("c30")
	w := newPairTo(t, SharedKafka(t), allGroups(topic+"-"))
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "v", 0, 100)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	member := func(bootstrap, group string, options ...kgo.Opt) *kgo.Client {
		t.Helper()
		return Client(t, bootstrap, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10 * time.Millisecond)}, options...)...)
	}
	// takes reads n records from an offset on and commits them.
	takes := func(m *kgo.Client, from int64, n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
		defer cancel()
		var last *kgo.Record
		for next := from; next < from+int64(n); {
			fetches := m.PollRecords(ctx, int(from)+n-int(next))
			if ctx.Err() != nil {
				t.Fatalf("read up to %d of %d", next, from+int64(n))
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset != next {
					t.Fatalf("read %d, want %d", r.Offset, next)
				}
				last, next = r, next+1
			})
		}
		if err := m.CommitRecords(ctx, last); err != nil {
			t.Fatal(err)
		}
	}
	classic := member(w.k.Bootstrap(), topic+"-classic")
	takes(classic, 0, 10)
	server := member(w.k.Bootstrap(), topic+"-consumer", kgo.ServerSideBalancer())
	takes(server, 0, 20)
	commit(t, w.source, topic+"-assigned", topic, 30)
	left := member(w.k.Bootstrap(), topic+"-empty")
	takes(left, 0, 40)
	left.Close()
	if kinds := groupKinds(t, w.source); kinds[topic+"-classic"] != "classic Stable" || kinds[topic+"-consumer"] != "consumer Stable" || !strings.HasSuffix(kinds[topic+"-empty"], "Empty") {
		t.Errorf("at the source the groups are %v", kinds)
	}
	for i, group := range []string{topic + "-classic", topic + "-consumer", topic + "-assigned", topic + "-empty"} {
		at := int64(10 * (i + 1))
		waitCommitted(t, w.mirror, group, topic, at)
		for _, options := range [][]kgo.Opt{nil, {kgo.ServerSideBalancer()}, nil} {
			m := member(w.h.Kafka, group, options...)
			takes(m, at, 5)
			m.Close()
			at += 5
			if have := committed(t, w.mirror, group, topic); have != at {
				t.Errorf("%s is at %d, want %d", group, have, at)
			}
		}
	}
}

// groupKinds is each group's protocol and state.
func groupKinds(t *testing.T, client *kgo.Client) map[string]string {
	t.Helper()
	listed, err := kadm.NewClient(client).ListGroups(testContext(t))
	fatal(t, err)
	kinds := map[string]string{}
	for name, g := range listed {
		kinds[name] = strings.ToLower(g.GroupType) + " " + g.State
	}
	return kinds
}
