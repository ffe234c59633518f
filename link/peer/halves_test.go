package peer

import (
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
)

func TestHalvesFit(t *testing.T) {
	id := kafka.TopicID{7}
	half := func(mode, connection string) LinkHalf {
		return LinkHalf{Name: "l", ID: id, Mode: mode, Connection: connection, Remote: "a"}
	}
	fits := map[[2]LinkHalf]bool{
		{half(Destination, Inbound), half(Source, Outbound)}:           true,
		{half(Source, Outbound), half(Destination, Inbound)}:           true,
		{half(Bidirectional, Outbound), half(Bidirectional, Outbound)}: true,
		{half(Bidirectional, Outbound), half(Bidirectional, Inbound)}:  true,
		{half(Bidirectional, Inbound), half(Bidirectional, Outbound)}:  true,
	}
	kinds := []LinkHalf{half(Destination, Inbound), half(Destination, Outbound), half(Source, Outbound), half(Bidirectional, Outbound), half(Bidirectional, Inbound)}
	for _, own := range kinds {
		for _, other := range kinds {
			err := Fit("a", own, other)
			if fits[[2]LinkHalf{own, other}] != (err == nil) {
				t.Errorf("%s with %s: %v", own.kind(), other.kind(), err)
			}
		}
		if own.TwoSided() != (own != half(Destination, Outbound)) {
			t.Errorf("%s: two-sided is %v", own.kind(), own.TwoSided())
		}
	}
	for word, change := range map[string]func(own, other *LinkHalf){
		"one name":      func(_, other *LinkHalf) { other.Name = "m" },
		"not with this": func(_, other *LinkHalf) { other.Remote = "b" },
		"the id":        func(own, _ *LinkHalf) { own.ID = kafka.TopicID{8} },
		"":              func(own, other *LinkHalf) { own.ID, other.Remote = kafka.TopicID{}, "" },
	} {
		own, other := half(Bidirectional, Outbound), half(Bidirectional, Inbound)
		change(&own, &other)
		if err := Fit("a", own, other); (err == nil) != (word == "") || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", word, err)
		}
	}
}

func TestHalvesThatAreMadeTogetherHaveOneID(t *testing.T) {
	id := LinkID("l", "a", "b")
	if id.IsZero() || id != LinkID("l", "b", "a") {
		t.Errorf("%s and %s", id, LinkID("l", "b", "a"))
	}
	for _, other := range []kafka.TopicID{LinkID("m", "a", "b"), LinkID("l", "a", "c"), LinkID("l", "ab", "")} {
		if other == id {
			t.Errorf("%s twice", id)
		}
	}
}

func TestWhoLendsConnections(t *testing.T) {
	in, out := LinkHalf{Mode: Bidirectional, Connection: Inbound}, LinkHalf{Mode: Bidirectional, Connection: Outbound}
	for name, got := range map[string]bool{
		"a source half":                      LinkHalf{Mode: Source, Connection: Outbound}.Lends(nil),
		"one that dials for one that cannot": out.Lends(&in),
		"not one that is dialled":            !in.Lends(&out),
		"not where both dial":                !out.Lends(&out),
		"not before the other is known":      !out.Lends(nil),
		"not a destination":                  !LinkHalf{Mode: Destination, Connection: Outbound}.Lends(nil),
	} {
		if !got {
			t.Errorf("%s: wrong", name)
		}
	}
}
