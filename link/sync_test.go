package link

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

func TestC21_GroupOffsetAboveMirrorEndIsClamped(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.source.commit("a", "t", 0, 80)
	r.source.commit("b", "t", 0, 95)
	r.source.commit("zero", "t", 0, 0)
	r.source.commit("none", "t", 0, -1)
	r.eventually("offsets are synced", func() bool {
		a, _ := r.commits.get("a", "t", 0)
		b, _ := r.commits.get("b", "t", 0)
		zero, is := r.commits.get("zero", "t", 0)
		return a == 80 && b == 90 && zero == 0 && is
	})
	if _, is := r.commits.get("none", "t", 0); is {
		t.Error("an offset of -1 was copied")
	}
	// C34: nothing changes, nothing is written.
	n := r.commits.written()
	r.eventually("three more rounds", func() bool {
		r.links.runningOf(r.meta.Image().LinkIDs["l"]).offsetsRunner().Poke()
		return r.links.runningOf(r.meta.Image().LinkIDs["l"]).settled() > 3
	})
	if got := r.commits.written(); got != n {
		t.Errorf("%d offsets were written though nothing changed", got-n)
	}
	r.source.commit("a", "t", 0, 10)
	r.eventually("C24: an offset goes back", func() bool { a, _ := r.commits.get("a", "t", 0); return a == 10 })
}

// TestOffsetsComeOverWhenAMirrorHasCaughtUp: a mirror that was just made does not wait for the next round of offsets.
func TestOffsetsComeOverWhenAMirrorHasCaughtUp(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.source.commit("a", "t", 0, 80)
	r.link("l", keyOffsetSync, "true", keyOffsetSyncMs, "3600000", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	runner := r.links.runningOf(r.meta.Image().LinkIDs["l"]).offsetsRunner()
	r.eventually("the first round is over, before there is a mirror", func() bool { state, _ := runner.Status(); return state == task.StateActive })
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.eventually("t is fetched", func() bool { return r.pool().fetches("t") == 2 })
	level := func(p int32) {
		pool := r.pool()
		pool.mu.Lock()
		pool.status[kafka.TopicPartition{Topic: "t", Partition: p}] = fetcher.Status{CaughtUp: time.Now()}
		pool.mu.Unlock()
	}
	level(0)
	level(1)
	r.eventually("the offset is here", func() bool { at, _ := r.commits.get("a", "t", 0); return at == 80 })
}

func (r *running) settled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts.Equal / 3
}

func TestC23_GroupInUseIsSkippedAndReported(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.commits.members["busy"] = true
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.part("t", 0).grow(100)
	r.source.commit("busy", "t", 0, 60)
	r.source.commit("idle", "t", 0, 60)
	r.eventually("the other group goes on", func() bool { o, _ := r.commits.get("idle", "t", 0); return o == 60 })
	r.eventually("the task tells", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.ConsumerOffsetSync })
		return info.Tasks[i].State == task.StateInError && info.Tasks[i].Errors[0].Code == "CONSUMER_GROUP_IN_USE_ERROR"
	})
}

func TestG1_LateSyncDoesNotPassTheClamp(t *testing.T) {
	r := newRig(t)
	if late := lateSync(r); late != "" {
		t.Error(late)
	}
}

func lateSync(r *rig) string {
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.commits.set("late", "t", 0, 95) // as if an older sync had brought it
	h := here{r.links.runningOf(r.meta.Image().LinkIDs["l"])}
	tp := kafka.TopicPartition{Topic: "t"}
	b, _ := h.Bound(tp)
	held, free := make(chan struct{}), make(chan struct{})
	r.commits.before = func() { close(held); <-free }
	done := make(chan int, 1)
	go func() {
		n, _ := h.Commit(r.t.Context(), "g", []plan.Commit{{TopicPartition: tp, Offset: 95}}, map[kafka.TopicPartition]plan.Bound{tp: b})
		done <- n
	}()
	<-held
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopped)
	close(free)
	if n := <-done; n != 0 {
		return fmt.Sprintf("%d offsets of a sync from before the stop were written", n)
	}
	if _, is := r.commits.get("g", "t", 0); is {
		return "the late offset is there"
	}
	if o, _ := r.commits.get("late", "t", 0); o > 90 {
		return fmt.Sprintf("a group stands at %d, the mirror stopped at 90", o)
	}
	return ""
}

func TestC13_PartitionsAddedOnTheSource(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 3)
	r.link("l", keyStartSpec, "latest")
	r.source.change(func(s *fakeSource) {
		for p := range int32(12) {
			s.ends[kafka.TopicPartition{Topic: "t", Partition: p}] = 50
		}
	})
	r.mirror("l", "t")
	r.source.topic("t", 12, "retention.ms", "1000")
	r.eventually("twelve are fetched", func() bool { return r.pool().fetches("t") == 12 })
	if a, b := r.part("t", 0).Offsets(), r.part("t", 11).Offsets(); a.LogStart != 50 || b.LogStart != 0 {
		t.Errorf("first partition begins at %d, want 50 by the spec; a new one at %d, want the source's start", a.LogStart, b.LogStart)
	}
	r.eventually("configs follow", func() bool { return r.meta.Image().TopicByName("t").Configs["retention.ms"] == "1000" })
	r.eventually("the open partitions are told", func() bool { return slices.Contains(r.traced(), "configure t") })
}

func TestC34_NoWritesWhenNothingChanged(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	sync := func() {
		run := r.links.runningOf(r.meta.Image().LinkIDs["l"])
		if res := run.configs.Run(t.Context()); res.Err != nil || res.Changed != 0 || len(res.Problems) != 0 {
			t.Errorf("a round without differences: %+v", res)
		}
	}
	sync()
	rev := r.meta.Image().Revision
	sync()
	if now := r.meta.Image().Revision; now != rev {
		t.Errorf("metadata went from revision %d to %d", rev, now)
	}
}

func TestC35_ValuesThatAreNotTakenAreSkippedOneByOne(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyConfigInclude, strings.Join(append(plan.AlwaysSynced(), "retention.ms", "segment.bytes"), ","))
	r.mirror("l", "t")
	r.source.topic("t", 1, "retention.ms", "abc", "cleanup.policy", "compact", "max.message.bytes", "2000000")
	r.eventually("the good ones are taken", func() bool {
		c := r.meta.Image().TopicByName("t").Configs
		return c["cleanup.policy"] == "compact" && c["max.message.bytes"] == "2000000" && c["retention.ms"] == "604800000"
	})
	r.eventually("the task names the bad one", func() bool {
		info, _ := r.links.Describe("l")
		return info.Tasks[0].State == task.StateInError && strings.Contains(info.Tasks[0].Errors[0].Text, "retention.ms=abc")
	})
	if r.pool().fetches("t") != 1 {
		t.Error("data does not flow")
	}
}

// TestAutoCreateRunsAtOnceWhenItIsSwitchedOn has rounds an hour apart: only the switch and the filters can have set one off.
func TestAutoCreateRunsAtOnceWhenItIsSwitchedOn(t *testing.T) {
	r := newRig(t)
	r.source.topic("a", 1)
	r.source.topic("b", 1)
	r.link("l", keyAutoCreateMs, "3600000")
	take := func(prefix string) *string {
		text := `{"topicFilters":[{"name":"` + prefix + `","patternType":"PREFIXED","filterType":"INCLUDE"}]}`
		return &text
	}
	on := "true"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &on}, {keyTopicFilters, take("a")}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("switched on, it takes what its filters name", func() bool { return r.pool().fetches("a") == 1 })
	if r.pool().fetches("b") != 0 {
		t.Error("b is mirrored")
	}
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyTopicFilters, take("b")}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("with other filters it takes what they name", func() bool { return r.pool().fetches("b") == 1 })
}

func TestC44_AutoCreate(t *testing.T) {
	r := newRig(t)
	for _, n := range []string{"a", "b", "c", "__consumer_offsets", "_schemas", "_confluent-x", "tmp.x"} {
		r.source.topic(n, 1)
	}
	taken := &meta.Topic{ID: kafka.NewTopicID(), Name: "a", Partitions: 1}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutTopic(taken)}, nil }); err != nil {
		t.Fatal(err)
	}
	r.link("l", keyAutoCreate, "true", keyTopicFilters, `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"},{"name":"tmp","patternType":"PREFIXED","filterType":"EXCLUDE"}]}`)
	r.eventually("the free ones are mirrored", func() bool { return r.pool().fetches("b") == 1 && r.pool().fetches("c") == 1 })
	r.eventually("the taken one is reported", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.AutoCreateMirror })
		return len(info.Tasks[i].Errors) == 1 && info.Tasks[i].Errors[0].Code == "TOPIC_EXISTS_ERROR"
	})
	info, _ := r.links.Describe("l")
	if !slices.Equal(info.Topics, []string{"b", "c"}) {
		t.Errorf("mirrors %v, want b and c", info.Topics)
	}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.DeleteTopic(taken.ID, taken.Name)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	r.eventually("and mirrored once it is free", func() bool { return r.pool().fetches("a") == 1 })
	off := "false"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &off}}, false); err != nil {
		t.Fatal(err)
	}
	if set := r.meta.Image().LinkByName("l").Configs; set[keyTopicFilters] != "" {
		t.Error("C50: turning it off does not clear the filters")
	}
}

func TestACLsAreCopiedAndMarkedAsTheLinks(t *testing.T) {
	r := newRig(t)
	acl := func(principal string) meta.ACL {
		return meta.ACL{ResourceType: "TOPIC", PatternType: "LITERAL", Resource: "t", Principal: principal, Host: "*", Operation: "READ", Permission: "ALLOW"}
	}
	r.source.change(func(s *fakeSource) { s.acls = []meta.ACL{acl("User:a"), acl("User:b")} })
	local := &meta.ACL{ResourceType: "TOPIC", PatternType: "LITERAL", Resource: "t", Principal: "User:local", Host: "*", Operation: "READ", Permission: "ALLOW"}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutACL(local)}, nil }); err != nil {
		t.Fatal(err)
	}
	r.link("l", keyACLSync, "true", keyACLSyncMs, "100", keyACLFilters, `{"aclFilters":[{"resourceFilter":{"resourceType":"topic"},"accessFilter":{"principal":"User:a"}}]}`)
	r.eventually("the ACL that the filter takes is here", func() bool { return len(r.meta.Image().ACLs) == 2 })
	for _, a := range r.meta.Image().ACLs {
		if ours := a.Link == r.meta.Image().LinkIDs["l"]; ours != (a.Principal == "User:a") {
			t.Errorf("%+v is marked as the link's: %v", a, ours)
		}
	}
	r.source.change(func(s *fakeSource) { s.acls, s.aclsErr = nil, kafka.SecurityDisabled })
	r.eventually("C41: a source without an authorizer is told", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.ACLSync })
		return len(info.Tasks[i].Errors) == 1 && info.Tasks[i].Errors[0].Code == "SECURITY_DISABLED_ERROR"
	})
	if n := len(r.meta.Image().ACLs); n != 2 {
		t.Errorf("%d ACLs after an error, want 2", n)
	}
	r.source.change(func(s *fakeSource) { s.aclsErr = nil })
	r.eventually("what went at the source goes here", func() bool { return len(r.meta.Image().ACLs) == 1 })
}

// Two clusters copy ACLs from each other, over the halves of one link or over two links. What was made on one of them and is removed there
// goes on both: the copy at the other must not be taken for an ACL of its own, or nobody could ever take the right away.
func TestACLsThatAreCopiedBothWaysCanBeRemoved(t *testing.T) {
	for _, mode := range []string{peer.Bidirectional, peer.Destination} {
		t.Run(mode, func(t *testing.T) {
			a, b := newPair(t)
			var asked atomic.Int64 // how often a has listed b's
			shown := func(r *rig) (list []meta.ACL) {
				for _, one := range r.meta.Image().ACLs {
					plain := *one
					plain.Link = kafka.TopicID{} // as every client sees it
					list = append(list, plain)
				}
				return list
			}
			a.source.change(func(s *fakeSource) { s.aclsOf = func() []meta.ACL { asked.Add(1); return shown(b) } })
			b.source.change(func(s *fakeSource) { s.aclsOf = func() []meta.ACL { return shown(a) } })
			right := &meta.ACL{ResourceType: "TOPIC", PatternType: "LITERAL", Resource: "t", Principal: "User:eve", Host: "*", Operation: "READ", Permission: "ALLOW"}
			change := func(changes ...meta.Change) {
				t.Helper()
				if err := a.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return changes, nil }); err != nil {
					t.Fatal(err)
				}
			}
			change(meta.PutACL(right))
			for _, r := range []*rig{a, b} {
				r.link("l", keyMode, mode, keyACLSync, "true", keyACLSyncMs, "100", keyACLFilters, `{"aclFilters":[{"resourceFilter":{"resourceType":"any"},"accessFilter":{}}]}`)
			}
			b.eventually("b has the copy", func() bool { return len(b.meta.Image().ACLs) == 1 })
			if own := a.meta.Image().ACLs[right.Key()]; own == nil || !own.Link.IsZero() {
				t.Errorf("a's own is %+v", own)
			}
			// While b cannot follow, a looks at b twice.
			err := b.links.runningOf(b.meta.Image().LinkIDs["l"]).aclRunner().Exclusive(t.Context(), func(context.Context) {
				change(meta.DeleteACL(right))
				n := asked.Load()
				a.eventually("a has looked at b again", func() bool { return asked.Load() > n+2 })
			})
			if back := len(a.meta.Image().ACLs); err != nil || back != 0 {
				t.Errorf("a has taken its own ACL back from b: %d are there, %v", back, err)
			}
			b.eventually("the copy goes with what it was copied from", func() bool { return len(b.meta.Image().ACLs) == 0 })
		})
	}
}

// A partition that could not be opened says that it is empty: no group's offset goes back to 0 for that, neither by a sync nor by a stop.
func TestD2_OffsetsOnAPartitionOutOfServiceStay(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	broken := kafka.Errorf(kafka.KafkaStorageError, "the log is corrupt")
	part := r.part("t", 0)
	part.mu.Lock()
	part.err = broken
	part.mu.Unlock()
	r.part("t", 1).grow(90)
	r.commits.set("a", "t", 0, 80)
	r.source.commit("a", "t", 0, 85)
	r.source.commit("a", "t", 1, 70)
	r.eventually("the other partition's offset is synced", func() bool { at, _ := r.commits.get("a", "t", 1); return at == 70 })
	if at, _ := r.commits.get("a", "t", 0); at != 80 {
		t.Errorf("a sync moved the offset from 80 to %d", at)
	}
	m := topicMirror{topic: r.meta.Image().Topics[r.meta.Image().TopicIDs["t"]]}
	ends, _ := r.links.runningOf(r.meta.Image().LinkIDs["l"]).stopEnds(r.meta.Image(), m)
	if ends[0] != math.MaxInt64 || ends[1] != 90 {
		t.Errorf("a stop clamps to %v", ends)
	}
}
