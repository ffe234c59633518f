package link

import (
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/source"
)

// A dry run lists the rights that the order needs at the source, also those that only make it better.
func TestDryRunsListMissingRights(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.source.topic("well", 1)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.mirror("l", "well")
	r.status("t", "ACTIVE")
	r.source.change(func(s *fakeSource) {
		s.rights = map[string]source.Rights{"t": source.OnlyRights(source.Read), "well": source.OnlyRights(source.Read, source.DescribeConfigs), kafka.ConsumerOffsetsTopic: source.OnlyRights()}
	})
	for verb, want := range map[Verb][2][]string{
		Promote:  {{"DESCRIBE_CONFIGS t", "READ __consumer_offsets"}, {"READ __consumer_offsets"}},
		Failover: {nil, nil},
		Pause:    {nil, nil},
	} {
		out, err := r.links.Order(t.Context(), "l", verb, []string{"t", "well"}, "", true)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range out {
			var got []string
			for _, m := range one.Missing {
				if m.Need == "" {
					t.Errorf("%s: %+v does not say what it is for", verb, m)
				}
				got = append(got, m.Operation+" "+m.Topic)
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("%s of %s: missing %q, want %q", verb, one.Topic, got, want[i])
			}
		}
	}
	if out := r.order("l", Pause, "t"); out[0].Missing != nil {
		t.Errorf("an order that is carried out lists %v", out[0].Missing)
	}
}
