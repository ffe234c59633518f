package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// Whatever is ordered, fails, heals and restarts in whatever order: partitions open only as StopMirrors of
// the rig allows, no state is left that an order cannot leave, and in the end everything can be failed over.
func TestRandomLivesEndStopped(t *testing.T) {
	for range 3 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func randomLife(t *testing.T, random *rand.Rand) {
	r := newRig(t)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	var topics []string
	for i := range 4 {
		topics = append(topics, fmt.Sprintf("t%d", i))
		r.source.topic(topics[i], 2)
		r.mirror("l", topics[i])
	}
	pick := func() string { return topics[random.IntN(len(topics))] }
	verbs := []Verb{Pause, Resume, Resume, Promote, Failover}
	faults := []fetcher.Fault{fetcher.SourceUnreachable, fetcher.SourceDenied, fetcher.TopicMissing, fetcher.CorruptBatch, fetcher.OldFormat}
	away := &source.Error{Class: source.Refused, Err: errors.New("refused")}
	locked := &source.Error{Class: source.Auth, Err: errors.New("bad password")}
	for range 120 {
		topic := pick()
		switch random.IntN(12) {
		case 0, 1, 2:
			verb := verbs[random.IntN(len(verbs))]
			if _, err := r.links.Order(t.Context(), "l", verb, []string{topic, pick()}, "", random.IntN(4) == 0); err != nil {
				t.Fatal(err)
			}
		case 3:
			r.pool().fault(topic, int32(random.IntN(2)), faults[random.IntN(len(faults))], time.Now().Add(-time.Duration(random.IntN(600))*time.Second))
		case 4:
			r.pool().heal(topic, int32(random.IntN(2)))
		case 5:
			r.source.change(func(s *fakeSource) { s.err = []error{nil, nil, away, locked}[random.IntN(4)] })
		case 6, 7:
			if part := r.part(topic, int32(random.IntN(2))); part.Offsets().Role == meta.RoleMirror {
				part.grow(part.Offsets().LogEnd + kafka.Offset(random.IntN(50)))
			}
		case 8, 9:
			r.source.commit(fmt.Sprintf("g%d", random.IntN(3)), topic, int32(random.IntN(2)), kafka.Offset(random.IntN(2000)))
		case 10:
			level := random.IntN(2) == 0
			r.pool().script(func(string) (bool, string) { return level, "scripted" })
		case 11:
			r.randomConfig(random)
		}
		if random.IntN(40) == 0 {
			r.restart()
			r.eventually("the pool is back", func() bool { return r.pool() != nil })
		}
		r.checkStates(topics)
	}
	if _, err := r.links.Order(t.Context(), "l", Failover, topics, "", false); err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		r.state(topic, mirror.Stopped)
	}
}

func (r *rig) randomConfig(random *rand.Rand) {
	value := []string{"true", "false", "false"}[random.IntN(3)]
	if err := r.links.AlterConfigs(r.t.Context(), "l", []AlterConfig{{keyPaused, &value}}, false); err != nil {
		r.t.Fatal(err)
	}
}

// checkStates is NoProduceWhileMirroring as far as it is stored: a partition is open only if its topic stops or has
// stopped, and a stopped topic has only open partitions.
func (r *rig) checkStates(topics []string) {
	r.t.Helper()
	img := r.meta.Image()
	for _, topic := range topics {
		id := img.TopicIDs[topic]
		for p, state := range img.Partitions[id].List {
			open := state.Role == meta.RoleOpen
			switch stored := img.Mirrors[id].State; {
			case open && stored != mirror.Stopping.String() && stored != mirror.Stopped.String():
				r.t.Errorf("%s-%d is open while its mirror is %s", topic, p, stored)
			case !open && stored == mirror.Stopped.String():
				r.t.Errorf("%s-%d is %s while its mirror is STOPPED", topic, p, state.Role)
			}
		}
	}
}
