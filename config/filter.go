package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hawserio/hawser/link/plan"
)

func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// ParseTopicFilters reads auto.create.mirror.topics.filters; empty text matches nothing.
func ParseTopicFilters(text string) (plan.Filters, error) { return plan.ParseTopicFilters(text) }

// ParseGroupFilters reads consumer.offset.group.filters; empty text matches nothing.
func ParseGroupFilters(text string) (plan.Filters, error) { return plan.ParseGroupFilters(text) }

func checkTopicFilters(text string) error {
	_, err := ParseTopicFilters(text)
	return err
}

func checkGroupFilters(text string) error {
	_, err := ParseGroupFilters(text)
	return err
}

// ACLFilter matches ACLs. Words are Kafka's, upper case; a field that was left
// out, or is "any", matches everything.
type ACLFilter struct {
	ResourceType string // ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER
	PatternType  string // ANY, MATCH, LITERAL, PREFIXED
	Name         string // of the resource; "" matches all
	Operation    string // ANY, ALL, READ, …
	Permission   string // ANY, ALLOW, DENY
	Principal    string // as User:alice; "" matches all
	Host         string // "" matches all
}

// ACL is an ACL to match, in the same words.
type ACL struct {
	ResourceType, PatternType, Name, Operation, Permission, Principal, Host string
}

var (
	aclResources   = []string{"ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	aclPatterns    = []string{"ANY", "MATCH", "LITERAL", "PREFIXED"}
	aclPermissions = []string{"ANY", "ALLOW", "DENY"}
	aclOperations  = []string{"ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
		"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
)

type aclFiltersDoc struct {
	Filters *[]struct {
		Resource struct {
			Type    string `json:"resourceType"`
			Pattern string `json:"patternType"`
			Name    string `json:"name"`
		} `json:"resourceFilter"`
		Access struct {
			Operation  string `json:"operation"`
			Permission string `json:"permissionType"`
			Principal  string `json:"principal"`
			Host       string `json:"host"`
		} `json:"accessFilter"`
	} `json:"aclFilters"`
}

const aclFiltersExample = `{"aclFilters":[{` +
	`"resourceFilter":{"resourceType":"TOPIC","patternType":"LITERAL","name":"orders"},` +
	`"accessFilter":{"operation":"READ","permissionType":"ALLOW"}}]}`

// ParseACLFilters reads acl.filters; empty text matches nothing.
func ParseACLFilters(text string) ([]ACLFilter, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var doc aclFiltersDoc
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("acl.filters: is not JSON as "+aclFiltersExample+": %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("acl.filters: has text after its JSON object")
	}
	if doc.Filters == nil || len(*doc.Filters) == 0 {
		return nil, errors.New(`acl.filters: needs at least one filter in "aclFilters"`)
	}
	if len(*doc.Filters) > plan.FiltersMax {
		return nil, fmt.Errorf("acl.filters: holds %d filters, at most %d are allowed", len(*doc.Filters), plan.FiltersMax)
	}
	var all []ACLFilter
	for i, f := range *doc.Filters {
		one := ACLFilter{
			ResourceType: aclWord(f.Resource.Type), PatternType: aclWord(f.Resource.Pattern), Name: f.Resource.Name,
			Operation: aclWord(f.Access.Operation), Permission: aclWord(f.Access.Permission),
			Principal: f.Access.Principal, Host: f.Access.Host,
		}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("acl.filters: filter %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func aclWord(text string) string {
	if text == "" {
		return "ANY"
	}
	return strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
}

func (f ACLFilter) check() error {
	for _, w := range []struct {
		field, word string
		allowed     []string
	}{
		{"resourceType", f.ResourceType, aclResources},
		{"patternType", f.PatternType, aclPatterns},
		{"operation", f.Operation, aclOperations},
		{"permissionType", f.Permission, aclPermissions},
	} {
		if !slices.Contains(w.allowed, w.word) {
			return fmt.Errorf("%s is %q, want one of %s", w.field, w.word, strings.Join(w.allowed, ", "))
		}
	}
	if kind, name, ok := strings.Cut(f.Principal, ":"); f.Principal != "" && (!ok || kind == "" || name == "") {
		return fmt.Errorf("principal is %q, want it as User:name", f.Principal)
	}
	return nil
}

func checkACLFilters(text string) error {
	_, err := ParseACLFilters(text)
	return err
}

// Match reports whether the filter takes the ACL (Kafka's AclBindingFilter).
func (f ACLFilter) Match(a ACL) bool {
	is := func(want, have string) bool { return want == "ANY" || want == have }
	opt := func(want, have string) bool { return want == "" || want == have }
	return is(f.ResourceType, a.ResourceType) && f.matchesName(a) &&
		is(f.Operation, a.Operation) && is(f.Permission, a.Permission) &&
		opt(f.Principal, a.Principal) && opt(f.Host, a.Host)
}

func (f ACLFilter) matchesName(a ACL) bool {
	switch {
	case f.PatternType != "ANY" && f.PatternType != "MATCH":
		return f.PatternType == a.PatternType && (f.Name == "" || f.Name == a.Name)
	case f.Name == "":
		return true
	case f.PatternType == "ANY":
		return f.Name == a.Name
	case a.PatternType == "PREFIXED":
		return strings.HasPrefix(f.Name, a.Name)
	}
	return a.Name == f.Name || a.Name == "*"
}
