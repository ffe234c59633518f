package link

import (
	"errors"
	"testing"
)

const everyGroup = `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`

// TestOffsetsFollowTheOffsetsTopic lets no second round come, so that what arrives was told by the offsets topic.
func TestOffsetsFollowTheOffsetsTopic(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyOffsetSync, "true", keyOffsetSyncMs, "3600000", keyGroupFilters, everyGroup)
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.eventually("the offsets topic is followed", func() bool {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		return r.source.watch != nil
	})
	r.source.commit("g", "t", 0, 50)
	r.eventually("a commit comes over", func() bool { at, _ := r.commits.get("g", "t", 0); return at == 50 })
	// It lies above what is mirrored, and no further commit tells of it: the group is looked at until the records are here.
	r.source.commit("g", "t", 0, 95)
	r.eventually("it is clamped", func() bool { at, _ := r.commits.get("g", "t", 0); return at == 90 })
	r.part("t", 0).grow(100)
	r.eventually("it follows the mirror's end", func() bool { at, _ := r.commits.get("g", "t", 0); return at == 95 })
	// Switched off it stops at once, and in place of the old connection the new one is followed.
	off, on := "false", "true"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyOffsetSync, &off}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("nobody follows it", func() bool {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		return r.source.watch == nil
	})
	filters := everyGroup
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyOffsetSync, &on}, {keyGroupFilters, &filters}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is followed again", func() bool {
		r.source.mu.Lock()
		defer r.source.mu.Unlock()
		return r.source.watch != nil
	})
}

// TestOffsetsComeWithRoundsWhereTheOffsetsTopicCannotBeRead is a principal without READ on the offsets topic.
func TestOffsetsComeWithRoundsWhereTheOffsetsTopicCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.source.change(func(s *fakeSource) { s.deaf = errors.New("topic authorization failed") })
	r.source.topic("t", 1)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, everyGroup)
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.source.commit("g", "t", 0, 50)
	r.eventually("a round brings it", func() bool { at, _ := r.commits.get("g", "t", 0); return at == 50 })
}
