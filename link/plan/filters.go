package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// FiltersMax bounds how many filters a config may hold.
const FiltersMax = 1000

// Filter matches names; in a list an EXCLUDE wins over any INCLUDE.
type Filter struct {
	Name        string   `json:"name"`
	PatternType string   `json:"patternType"` // LITERAL or PREFIXED; '*' with LITERAL is everything
	FilterType  string   `json:"filterType"`  // INCLUDE or EXCLUDE
	TopicTypes  []string `json:"topicTypes,omitempty"`
}

// The words of filters.
const (
	patternLiteral  = "LITERAL"
	patternPrefixed = "PREFIXED"
	filterInclude   = "INCLUDE"
	filterExclude   = "EXCLUDE"
	topicLocal      = "LOCAL_MIRROR"
	topicRemote     = "REMOTE_MIRROR"
)

// Filters is a parsed filter config. The zero value matches nothing.
type Filters struct{ list []Filter }

// ParseTopicFilters reads auto.create.mirror.topics.filters; empty text matches nothing.
func ParseTopicFilters(text string) (Filters, error) {
	var doc struct {
		Filters *[]Filter `json:"topicFilters"`
	}
	if err := parseFilters("topicFilters", text, &doc); err != nil {
		return Filters{}, fmt.Errorf("auto.create.mirror.topics.filters: %w", err)
	}
	return checkFilters("auto.create.mirror.topics.filters", "topicFilters", text, doc.Filters)
}

// ParseGroupFilters reads consumer.offset.group.filters; empty text matches nothing.
func ParseGroupFilters(text string) (Filters, error) {
	var doc struct {
		Filters *[]Filter `json:"groupFilters"`
	}
	if err := parseFilters("groupFilters", text, &doc); err != nil {
		return Filters{}, fmt.Errorf("consumer.offset.group.filters: %w", err)
	}
	return checkFilters("consumer.offset.group.filters", "groupFilters", text, doc.Filters)
}

func parseFilters(field, text string, into any) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf(`is not JSON as {"%s":[{"name":"orders","patternType":"LITERAL","filterType":"INCLUDE"}]}: %w`, field, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has text after its JSON object")
	}
	return nil
}

func checkFilters(key, field, text string, list *[]Filter) (Filters, error) {
	if strings.TrimSpace(text) == "" {
		return Filters{}, nil
	}
	if list == nil || len(*list) == 0 {
		return Filters{}, fmt.Errorf("%s: needs at least one filter in %q", key, field)
	}
	if len(*list) > FiltersMax {
		return Filters{}, fmt.Errorf("%s: holds %d filters, at most %d are allowed", key, len(*list), FiltersMax)
	}
	out := slices.Clone(*list)
	for i, f := range out {
		f.PatternType, f.FilterType = strings.ToUpper(f.PatternType), strings.ToUpper(f.FilterType)
		switch {
		case f.Name == "":
			return Filters{}, fmt.Errorf("%s: filter %d has no name; '*' is everything", key, i+1)
		case f.PatternType != patternLiteral && f.PatternType != patternPrefixed:
			return Filters{}, fmt.Errorf("%s: filter %d (%q): patternType is %q, want LITERAL or PREFIXED", key, i+1, f.Name, f.PatternType)
		case f.FilterType != filterInclude && f.FilterType != filterExclude:
			return Filters{}, fmt.Errorf("%s: filter %d (%q): filterType is %q, want INCLUDE or EXCLUDE", key, i+1, f.Name, f.FilterType)
		}
		for _, t := range f.TopicTypes {
			if t != topicLocal && t != topicRemote {
				return Filters{}, fmt.Errorf("%s: filter %d (%q): topicTypes has %q, want LOCAL_MIRROR or REMOTE_MIRROR", key, i+1, f.Name, t)
			}
		}
		out[i] = f
	}
	return Filters{out}, nil
}

// Empty reports whether there is no filter at all: nothing matches.
func (f Filters) Empty() bool { return len(f.list) == 0 }

// Match reports whether a name is included and not excluded.
func (f Filters) Match(name string) bool { return f.match(name, func(Filter) bool { return true }) }

// MatchLocal is Match among the filters that speak of mirrors on this cluster:
// those that name LOCAL_MIRROR, or no topic type.
func (f Filters) MatchLocal(name string) bool {
	return f.match(name, func(one Filter) bool {
		return len(one.TopicTypes) == 0 || slices.Contains(one.TopicTypes, topicLocal)
	})
}

// MatchRemote is Match among the filters that name REMOTE_MIRROR: they speak of this cluster's topics that are mirrored on the
// other one, whose groups there have their offsets copied back here.
func (f Filters) MatchRemote(name string) bool {
	return f.match(name, func(one Filter) bool { return slices.Contains(one.TopicTypes, topicRemote) })
}

// NamesRemote reports whether any filter names REMOTE_MIRROR.
func (f Filters) NamesRemote() bool {
	return slices.ContainsFunc(f.list, func(one Filter) bool { return slices.Contains(one.TopicTypes, topicRemote) })
}

// NamesLiterally reports whether an INCLUDE names exactly this, and nothing excludes it.
func (f Filters) NamesLiterally(name string) bool {
	return f.Match(name) && slices.ContainsFunc(f.list, func(one Filter) bool {
		return one.FilterType == filterInclude && one.PatternType == patternLiteral && one.Name == name
	})
}

func (f Filters) match(name string, of func(Filter) bool) bool {
	included := false
	for _, one := range f.list {
		if !of(one) || !one.matches(name) {
			continue
		}
		if one.FilterType == filterExclude {
			return false
		}
		included = true
	}
	return included
}

func (f Filter) matches(name string) bool {
	switch {
	case f.Name == "*" && f.PatternType == patternLiteral:
		return true
	case f.PatternType == patternPrefixed:
		return strings.HasPrefix(name, f.Name)
	default:
		return name == f.Name
	}
}
