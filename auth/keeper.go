package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records is where ACLs, credentials and quotas are kept; *meta.Meta is one.
type Records interface {
	Image() *meta.Image
	Update(ctx context.Context, decide func(*meta.Image) ([]meta.Change, error)) error
}

// updateMax bounds how many records one metadata transaction writes.
const updateMax = 50

// Keeper answers the requests that show and change ACLs, SCRAM credentials and
// quotas. It implements handler.Security.
type Keeper struct {
	records Records
	// Disabled says that there is no authorizer: ACLs cannot be seen or made then,
	// credentials and quotas can.
	disabled bool
}

// NewKeeper makes a keeper that knows ACLs.
func NewKeeper(records Records) *Keeper { return &Keeper{records: records} }

// NewKeeperWithoutACLs makes a keeper for a broker without an authorizer.
func NewKeeperWithoutACLs(records Records) *Keeper { return &Keeper{records: records, disabled: true} }

var errDisabled = kafka.Errorf(kafka.SecurityDisabled, "No Authorizer is configured. Start the broker with authorizer.class.name set.")

// Filter is which ACLs are meant. Empty texts match everything; so do ANY and, for
// patterns, MATCH: every pattern that covers the name.
type Filter struct {
	ResourceType, Resource, PatternType string
	Principal, Host                     string
	Operation, Permission               string
}

const (
	anyWord   = "ANY"
	matchWord = "MATCH"
)

// Check says what is wrong with a filter, as INVALID_REQUEST.
func (f Filter) Check() error {
	_, kind := kmsg.ParseACLResourceType(f.ResourceType)
	_, pattern := kmsg.ParseACLResourcePatternType(f.PatternType)
	_, op := kafka.ParseACLOperation(f.Operation)
	_, permission := kmsg.ParseACLPermissionType(f.Permission)
	if err := errors.Join(kind, pattern, op, permission); err != nil {
		return kafka.Errorf(kafka.InvalidRequest, "The filter holds an unknown word: %v", err)
	}
	for _, word := range []string{f.ResourceType, f.PatternType, f.Operation, f.Permission} {
		if word == "UNKNOWN" {
			return kafka.Errorf(kafka.InvalidRequest, "The filter holds UNKNOWN; ANY stands for everything.")
		}
	}
	return nil
}

// Matches reports whether an ACL is meant.
func (f Filter) Matches(acl *meta.ACL) bool {
	is := func(wanted, have string) bool { return wanted == "" || wanted == anyWord || wanted == have }
	return is(f.ResourceType, acl.ResourceType) && f.covers(acl) &&
		(f.Principal == "" || f.Principal == acl.Principal) && (f.Host == "" || f.Host == acl.Host) &&
		is(f.Operation, acl.Operation) && is(f.Permission, acl.Permission)
}

func (f Filter) covers(acl *meta.ACL) bool {
	prefixed := kmsg.ACLResourcePatternTypePrefixed.String()
	switch f.PatternType {
	case "", anyWord:
		return f.Resource == "" || f.Resource == acl.Resource
	case matchWord:
		return f.Resource == "" || acl.Resource == f.Resource ||
			acl.PatternType == prefixed && strings.HasPrefix(f.Resource, acl.Resource) ||
			acl.PatternType != prefixed && acl.Resource == Wildcard
	}
	return f.PatternType == acl.PatternType && (f.Resource == "" || f.Resource == acl.Resource)
}

// List is the ACLs that a filter means, in a fixed order.
func List(img *meta.Image, f Filter) []*meta.ACL {
	var found []*meta.ACL
	for _, acl := range img.ACLs {
		if f.Matches(acl) {
			found = append(found, acl)
		}
	}
	slices.SortFunc(found, compareACLs)
	return found
}

// compareACLs orders ACLs by what they speak of, so that those of one resource stand together.
func compareACLs(a, b *meta.ACL) int {
	for _, pair := range [...][2]string{
		{a.ResourceType, b.ResourceType}, {a.PatternType, b.PatternType}, {a.Resource, b.Resource},
		{a.Principal, b.Principal}, {a.Operation, b.Operation}, {a.Permission, b.Permission}, {a.Host, b.Host},
	} {
		if n := strings.Compare(pair[0], pair[1]); n != 0 {
			return n
		}
	}
	return 0
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// DescribeACLs implements handler.Security.
func (k *Keeper) DescribeACLs(_ context.Context, rq *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	resp := rq.ResponseKind().(*kmsg.DescribeACLsResponse)
	f := Filter{
		ResourceType: rq.ResourceType.String(), Resource: text(rq.ResourceName), PatternType: rq.ResourcePatternType.String(),
		Principal: text(rq.Principal), Host: text(rq.Host), Operation: kafka.ACLOperation(int8(rq.Operation)),
		Permission: rq.PermissionType.String(),
	}
	err := f.Check()
	if k.disabled {
		err = errDisabled
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		return resp
	}
	for _, acl := range List(k.records.Image(), f) {
		kind, _ := kmsg.ParseACLResourceType(acl.ResourceType)
		pattern, _ := kmsg.ParseACLResourcePatternType(acl.PatternType)
		n := len(resp.Resources)
		if n == 0 || resp.Resources[n-1].ResourceType != kind || resp.Resources[n-1].ResourcePatternType != pattern ||
			resp.Resources[n-1].ResourceName != acl.Resource {
			r := kmsg.NewDescribeACLsResponseResource()
			r.ResourceType, r.ResourceName, r.ResourcePatternType = kind, acl.Resource, pattern
			resp.Resources = append(resp.Resources, r)
		}
		entry := kmsg.NewDescribeACLsResponseResourceACL()
		entry.Principal, entry.Host = acl.Principal, acl.Host
		entry.Operation, _ = parseOperation(acl.Operation)
		entry.PermissionType, _ = kmsg.ParseACLPermissionType(acl.Permission)
		last := &resp.Resources[len(resp.Resources)-1]
		last.ACLs = append(last.ACLs, entry)
	}
	return resp
}

// CreateACLs implements handler.Security: what is wrong with one does not keep the others.
func (k *Keeper) CreateACLs(ctx context.Context, rq *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	resp := rq.ResponseKind().(*kmsg.CreateACLsResponse)
	results := make([]error, len(rq.Creations))
	var good []*meta.ACL
	places := map[kafka.TopicID][]int{} // a rule that is named twice is made once
	for i, in := range rq.Creations {
		acl := &meta.ACL{
			ResourceType: in.ResourceType.String(), Resource: in.ResourceName, PatternType: in.ResourcePatternType.String(),
			Principal: in.Principal, Host: in.Host, Operation: kafka.ACLOperation(int8(in.Operation)), Permission: in.PermissionType.String(),
		}
		if results[i] = CheckACL(*acl); k.disabled {
			results[i] = errDisabled
		}
		if results[i] != nil {
			continue
		}
		key := acl.Key()
		if places[key] == nil {
			good = append(good, acl)
		}
		places[key] = append(places[key], i)
	}
	var mu sync.Mutex
	inParts(good, func(part []*meta.ACL) {
		err := k.Add(ctx, part)
		mu.Lock()
		defer mu.Unlock()
		for _, acl := range part {
			for _, i := range places[acl.Key()] {
				results[i] = err
			}
		}
	})
	for _, err := range results {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		resp.Results = append(resp.Results, r)
	}
	return resp
}

// Add makes ACLs, all or none, at most updateMax of them; one that exists is left as it is.
func (k *Keeper) Add(ctx context.Context, acls []*meta.ACL) error {
	return k.records.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		var changes []meta.Change
		seen := map[kafka.TopicID]bool{}
		for _, acl := range acls {
			// Made by hand it stays when a link's sync would take it away again.
			old := img.ACLs[acl.Key()]
			if seen[acl.Key()] || old != nil && old.Link.IsZero() {
				continue
			}
			seen[acl.Key()] = true
			changes = append(changes, meta.PutACL(acl))
		}
		return changes, nil
	})
}

// updatesAtOnce is how many metadata transactions of one request are under way side by side: the image that the next
// ones wait for is made once for all of them, and making it takes as long as there are ACLs.
const updatesAtOnce = 32

// inParts hands out ACLs in parts that one transaction can take, several at once.
func inParts(acls []*meta.ACL, do func([]*meta.ACL)) {
	var wg sync.WaitGroup
	free := make(chan struct{}, updatesAtOnce)
	for part := range slices.Chunk(acls, updateMax) {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			do(part)
		})
	}
	wg.Wait()
}

// Remove deletes the ACLs that a filter means now and returns those that it did delete, in List's order.
func (k *Keeper) Remove(ctx context.Context, f Filter) ([]*meta.ACL, error) {
	var mu sync.Mutex
	var removed []*meta.ACL
	var errs []error
	inParts(List(k.records.Image(), f), func(part []*meta.ACL) {
		var there []*meta.ACL
		err := k.records.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			there = nil
			var changes []meta.Change
			for _, acl := range part {
				if img.ACLs[acl.Key()] != nil {
					there = append(there, acl)
					changes = append(changes, meta.DeleteACL(acl))
				}
			}
			return changes, nil
		})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			return
		}
		removed = append(removed, there...)
	})
	slices.SortFunc(removed, compareACLs)
	if len(errs) > 0 {
		return removed, errs[0]
	}
	return removed, nil
}

// DeleteACLs implements handler.Security. An ACL that several filters mean is in the answer to each, as in Kafka.
func (k *Keeper) DeleteACLs(ctx context.Context, rq *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	resp := rq.ResponseKind().(*kmsg.DeleteACLsResponse)
	var gone []*meta.ACL
	for _, in := range rq.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		f := Filter{
			ResourceType: in.ResourceType.String(), Resource: text(in.ResourceName), PatternType: in.ResourcePatternType.String(),
			Principal: text(in.Principal), Host: text(in.Host), Operation: kafka.ACLOperation(int8(in.Operation)),
			Permission: in.PermissionType.String(),
		}
		err := f.Check()
		if k.disabled {
			err = errDisabled
		}
		var removed []*meta.ACL
		if err == nil {
			removed, err = k.Remove(ctx, f)
			before := slices.DeleteFunc(slices.Clone(gone), func(acl *meta.ACL) bool { return !f.Matches(acl) })
			gone = append(gone, removed...)
			removed = append(removed, before...)
		}
		result.ErrorCode, result.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		for _, acl := range removed {
			match := kmsg.NewDeleteACLsResponseResultMatchingACL()
			match.ResourceType, _ = kmsg.ParseACLResourceType(acl.ResourceType)
			match.ResourcePatternType, _ = kmsg.ParseACLResourcePatternType(acl.PatternType)
			match.Operation, _ = parseOperation(acl.Operation)
			match.PermissionType, _ = kmsg.ParseACLPermissionType(acl.Permission)
			match.ResourceName, match.Principal, match.Host = acl.Resource, acl.Principal, acl.Host
			result.MatchingACLs = append(result.MatchingACLs, match)
		}
		resp.Results = append(resp.Results, result)
	}
	return resp
}
