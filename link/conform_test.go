package link

import (
	"strings"
	"testing"

	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/task"
)

func TestReverseAndRestoreNeedABidirectionalLink(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	for _, verb := range []Verb{ReverseAndStart, ReverseAndPause, TruncateAndRestore} {
		got := r.order("l", verb, "t")[0]
		if got.Code != 400 || !strings.Contains(got.Text, "BIDIRECTIONAL") {
			t.Errorf("%s on a link in one direction: %d %s", verb, got.Code, got.Text)
		}
	}
	r.state("t", mirror.Active)
}

// TestC47_DotAndUnderscoreLookAlike has a topic here that differs from a mirror-to-be in them alone.
func TestC47_DotAndUnderscoreLookAlike(t *testing.T) {
	r := newRig(t)
	r.source.topic("usa_clicks", 1)
	r.source.topic("usa.clicks", 1)
	r.source.topic("other", 1)
	r.link("l")
	r.mirror("l", "usa.clicks")
	_, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "usa_clicks"})
	if err == nil || !strings.Contains(err.Error(), "usa.clicks") {
		t.Errorf("made by hand: %v", err)
	}
	on, filters := "true", `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &on}, {keyTopicFilters, &filters}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("the other is made and the collision told", func() bool {
		info, _ := r.links.Describe("l")
		for _, one := range info.Tasks {
			if one.Name == task.AutoCreateMirror && len(info.Topics) == 2 && len(one.Errors) == 1 {
				return one.Errors[0].Code == string(mirror.InvalidTopic) && strings.Contains(one.Errors[0].Text, "usa_clicks")
			}
		}
		return false
	})
}
