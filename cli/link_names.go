package cli

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
)

// nameFlags are the features of a link that people want first, without the JSON of their filters.
type nameFlags struct {
	groups, topics []string
	acls           bool
}

const everyACL = `{"aclFilters":[{"resourceFilter":{"resourceType":"any","patternType":"any"},` +
	`"accessFilter":{"operation":"any","permissionType":"any"}}]}`

const nameWords = "a `name`, a beginning with * behind it, or * for all; !name leaves out; may be repeated"

func (f *nameFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.groups, "sync-groups", nil, "carry the offsets of these consumer groups over: "+nameWords)
	cmd.Flags().StringSliceVar(&f.topics, "auto-mirror", nil, "mirror these topics by themselves, also those that come later: "+nameWords)
	cmd.Flags().BoolVar(&f.acls, "sync-acls", false, "carry all ACLs over; some of them by the config acl.filters")
}

// into adds the configs that the flags stand for.
func (f *nameFlags) into(set map[string]string) error {
	if f.acls {
		if set["acl.sync.enable"] != "" || set["acl.filters"] != "" {
			return errors.New("--sync-acls stands for acl.sync.enable and acl.filters, which --config gives too. Give one of them")
		}
		maps.Copy(set, map[string]string{"acl.sync.enable": "true", "acl.filters": everyACL})
	}
	for _, feature := range []struct {
		flag        string
		names       []string
		enable, key string
		list        string
	}{
		{"--sync-groups", f.groups, "consumer.offset.sync.enable", "consumer.offset.group.filters", "groupFilters"},
		{"--auto-mirror", f.topics, "auto.create.mirror.topics.enable", "auto.create.mirror.topics.filters", "topicFilters"},
	} {
		if len(feature.names) == 0 {
			continue
		}
		if set[feature.enable] != "" || set[feature.key] != "" {
			return fmt.Errorf("%s stands for %s and %s, which --config gives too. Give one of them", feature.flag, feature.enable, feature.key)
		}
		filters, err := nameFilters(feature.names)
		if err != nil {
			return fmt.Errorf("%s: %w", feature.flag, err)
		}
		maps.Copy(set, map[string]string{feature.enable: "true", feature.key: filterJSON(feature.list, filters)})
	}
	return nil
}

func nameFilters(names []string) ([]nameFilter, error) {
	var filters []nameFilter
	included := false
	for _, name := range names {
		kind := "INCLUDE"
		if rest, out := strings.CutPrefix(strings.TrimSpace(name), "!"); out {
			kind, name = "EXCLUDE", rest
		}
		name = strings.TrimSpace(name)
		begin, many := strings.CutSuffix(name, "*")
		switch {
		case name == "" || strings.Contains(begin, "*"):
			return nil, fmt.Errorf("%q is neither a name, nor the beginning of names with * behind it, nor *", name)
		case many && begin != "":
			filters = append(filters, nameFilter{begin, "PREFIXED", kind})
		default: // * by itself is every name
			filters = append(filters, nameFilter{name, "LITERAL", kind})
		}
		included = included || kind == "INCLUDE"
	}
	if !included {
		return nil, errors.New("it only leaves out. Say what is in, as with '*'")
	}
	return filters, nil
}
