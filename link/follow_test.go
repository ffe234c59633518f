package link

import (
	"maps"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// The watch hands out an image that was the newest when it looked. Where a link was made meanwhile, and followed by who made it, that image lacked
// it: the link was ended and begun again, and a mirror made just then heard "client closed" or "not running yet".
func TestALateImageEndsNoLink(t *testing.T) {
	r := newRig(t)
	late := r.meta.Image()
	r.link("l")
	id := r.meta.Image().LinkIDs["l"]
	run := r.links.runningOf(id)
	r.links.follow(late)
	if now := r.links.runningOf(id); now != run || run == nil {
		t.Errorf("the link runs as %p, then as %p", run, now)
	}
}

func TestLinksAreWokenOnlyByWhatIsTheirs(t *testing.T) {
	a, b := &meta.Link{ID: kafka.NewTopicID()}, &meta.Link{ID: kafka.NewTopicID()}
	ofA, ofB, plain := &meta.Topic{ID: kafka.NewTopicID()}, &meta.Topic{ID: kafka.NewTopicID()}, &meta.Topic{ID: kafka.NewTopicID()}
	old := &meta.Image{
		Links:      map[kafka.TopicID]*meta.Link{a.ID: a, b.ID: b},
		Topics:     map[kafka.TopicID]*meta.Topic{ofA.ID: ofA, ofB.ID: ofB, plain.ID: plain},
		Mirrors:    map[kafka.TopicID]*meta.Mirror{ofA.ID: {Topic: ofA.ID, Link: a.ID}, ofB.ID: {Topic: ofB.ID, Link: b.ID}},
		Partitions: map[kafka.TopicID]*meta.Partitions{ofA.ID: {Topic: ofA.ID}, ofB.ID: {Topic: ofB.ID}, plain.ID: {Topic: plain.ID}},
	}
	copied := kafka.NewTopicID()
	for what, c := range map[string]struct {
		change func(*meta.Image)
		links  []*meta.Link
		all    bool
	}{
		"nothing":          {func(*meta.Image) {}, nil, false},
		"a link's record":  {func(i *meta.Image) { i.Links[a.ID] = &meta.Link{ID: a.ID} }, []*meta.Link{a}, false},
		"a new link":       {func(i *meta.Image) { c := kafka.NewTopicID(); i.Links[c] = &meta.Link{ID: c} }, nil, true},
		"a mirror's state": {func(i *meta.Image) { i.Mirrors[ofA.ID] = &meta.Mirror{Topic: ofA.ID, Link: a.ID, State: "STOPPED"} }, []*meta.Link{a}, false},
		"a new mirror": {func(i *meta.Image) {
			id := kafka.NewTopicID()
			i.Topics[id], i.Partitions[id] = &meta.Topic{ID: id}, &meta.Partitions{Topic: id}
			i.Mirrors[id] = &meta.Mirror{Topic: id, Link: b.ID}
		}, []*meta.Link{b}, false},
		"a mirror that went":          {func(i *meta.Image) { delete(i.Mirrors, ofA.ID) }, []*meta.Link{a}, false},
		"a mirror whose topic went":   {func(i *meta.Image) { delete(i.Topics, ofB.ID) }, []*meta.Link{b}, false},
		"a mirror over another link":  {func(i *meta.Image) { i.Mirrors[ofA.ID] = &meta.Mirror{Topic: ofA.ID, Link: b.ID} }, []*meta.Link{a, b}, false},
		"a mirror's partitions":       {func(i *meta.Image) { i.Partitions[ofB.ID] = &meta.Partitions{Topic: ofB.ID} }, []*meta.Link{b}, false},
		"those of a copy of a mirror": {func(i *meta.Image) { i.Partitions[copied] = &meta.Partitions{Topic: copied, CopyOf: ofA.ID} }, []*meta.Link{a}, false},
		"those of another topic":      {func(i *meta.Image) { i.Partitions[plain.ID] = &meta.Partitions{Topic: plain.ID} }, nil, false},
		"another topic":               {func(i *meta.Image) { i.Topics[plain.ID] = &meta.Topic{ID: plain.ID, Name: "again"} }, nil, true},
	} {
		now := &meta.Image{Links: maps.Clone(old.Links), Topics: maps.Clone(old.Topics), Mirrors: maps.Clone(old.Mirrors), Partitions: maps.Clone(old.Partitions)}
		c.change(now)
		links, all := news(old, now)
		if all != c.all || !all && len(links) != len(c.links) {
			t.Errorf("%s: %d links, all %t", what, len(links), all)
		}
		for _, l := range c.links {
			if !links[l.ID] {
				t.Errorf("%s: a link is not woken", what)
			}
		}
	}
	if _, all := news(nil, old); !all {
		t.Error("at first not all are woken")
	}
}
