// Package auth is who is asking and what they may do: ACLs with Kafka's
// semantics over the records in metadata, SASL exchanges, TLS of listeners.
// handler and rest ask it; it knows no requests' meaning and no connections.
package auth

import (
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClusterName is the one name that a resource of kind CLUSTER has.
const ClusterName = "kafka-cluster"

// Wildcard stands for every name in an ACL's resource, and for every host.
const Wildcard = "*"

// anyPrincipal stands for every principal in an ACL.
const anyPrincipal = "User:*"

// Rules says who stands above the ACLs.
type Rules struct {
	SuperUsers map[string]bool // principals, as User:admin
	// AllowUnlisted lets everyone use a resource that no ACL speaks of (allow.everyone.if.no.acl.found).
	AllowUnlisted bool
}

// ParseSuperUsers reads super.users: principals separated by semicolons.
func ParseSuperUsers(text string) map[string]bool {
	users := map[string]bool{}
	for _, name := range strings.Split(text, ";") {
		if name = strings.TrimSpace(name); name != "" {
			users[name] = true
		}
	}
	return users
}

// Authorizer answers who may do what, by the ACLs of the newest metadata image.
type Authorizer struct {
	image func() *meta.Image
	rules Rules
	index atomic.Pointer[aclIndex]
}

// NewAuthorizer makes an authorizer over images.
func NewAuthorizer(image func() *meta.Image, rules Rules) *Authorizer {
	return &Authorizer{image: image, rules: rules}
}

// aclIndex is the ACLs of one image, by what they speak of.
type aclIndex struct {
	of       map[kafka.TopicID]*meta.ACL // what it was made from, held so that no later map gets its address
	literal  map[resource][]*meta.ACL
	prefixed map[kmsg.ACLResourceType][]*meta.ACL
}

type resource struct {
	kind kmsg.ACLResourceType
	name string
}

func (a *Authorizer) current() *aclIndex {
	acls := a.image().ACLs
	if index := a.index.Load(); index != nil && sameMap(index.of, acls) {
		return index
	}
	index := &aclIndex{of: acls, literal: map[resource][]*meta.ACL{}, prefixed: map[kmsg.ACLResourceType][]*meta.ACL{}}
	for _, acl := range acls {
		kind, err := kmsg.ParseACLResourceType(acl.ResourceType)
		if err != nil {
			continue // of a newer version: a rule that is not understood grants nothing
		}
		if acl.PatternType == kmsg.ACLResourcePatternTypePrefixed.String() {
			index.prefixed[kind] = append(index.prefixed[kind], acl)
			continue
		}
		key := resource{kind, acl.Resource}
		index.literal[key] = append(index.literal[key], acl)
	}
	a.index.Store(index)
	return index
}

// sameMap reports whether two images share their ACLs, as they do while no ACL changes.
func sameMap(a, b map[kafka.TopicID]*meta.ACL) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// implied is which granted operations include another one (KIP-679, AclOperation's contract).
var implied = map[kmsg.ACLOperation][]kmsg.ACLOperation{
	kmsg.ACLOperationDescribe:        {kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter},
	kmsg.ACLOperationDescribeConfigs: {kmsg.ACLOperationAlterConfigs},
}

// Allowed implements handler.Authorizer. A DENY wins over every ALLOW.
func (a *Authorizer) Allowed(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	if a.rules.SuperUsers[principal] {
		return true
	}
	allowed, spoken := false, false
	for acl := range a.current().about(kind, name) {
		spoken = true
		if acl.Principal != principal && acl.Principal != anyPrincipal || acl.Host != host && acl.Host != Wildcard {
			continue
		}
		granted, err := parseOperation(acl.Operation)
		if err != nil {
			continue
		}
		switch acl.Permission {
		case kmsg.ACLPermissionTypeDeny.String():
			if granted == op || granted == kmsg.ACLOperationAll {
				return false
			}
		case kmsg.ACLPermissionTypeAllow.String():
			allowed = allowed || grants(granted, op)
		}
	}
	return allowed || !spoken && a.rules.AllowUnlisted
}

func grants(granted, op kmsg.ACLOperation) bool {
	if granted == op || granted == kmsg.ACLOperationAll {
		return true
	}
	for _, wider := range implied[op] {
		if granted == wider {
			return true
		}
	}
	return false
}

// about walks the ACLs whose pattern covers the name.
func (x *aclIndex) about(kind kmsg.ACLResourceType, name string) func(yield func(*meta.ACL) bool) {
	return func(yield func(*meta.ACL) bool) {
		for _, key := range []resource{{kind, name}, {kind, Wildcard}} {
			for _, acl := range x.literal[key] {
				if !yield(acl) {
					return
				}
			}
			if name == Wildcard {
				break
			}
		}
		for _, acl := range x.prefixed[kind] {
			if strings.HasPrefix(name, acl.Resource) && !yield(acl) {
				return
			}
		}
	}
}

// AllowedSomewhere reports whether the principal may do op on any resource of the
// kind: what InitProducerId without a transactional id asks (KIP-679).
func (a *Authorizer) AllowedSomewhere(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType) bool {
	if a.rules.SuperUsers[principal] {
		return true
	}
	index := a.current()
	mine := func(acl *meta.ACL) bool {
		granted, err := parseOperation(acl.Operation)
		return err == nil && acl.Permission == kmsg.ACLPermissionTypeAllow.String() && grants(granted, op) &&
			(acl.Principal == principal || acl.Principal == anyPrincipal) && (acl.Host == host || acl.Host == Wildcard)
	}
	for key, acls := range index.literal {
		for _, acl := range acls {
			if key.kind == kind && mine(acl) && (key.name == Wildcard || a.Allowed(principal, host, op, kind, key.name)) {
				return a.Allowed(principal, host, op, kind, key.name)
			}
		}
	}
	for _, acl := range index.prefixed[kind] {
		if mine(acl) && a.Allowed(principal, host, op, kind, acl.Resource) {
			return true
		}
	}
	return false
}

// operations is what may be done to each kind of resource.
var operations = map[kmsg.ACLResourceType][]kmsg.ACLOperation{
	kmsg.ACLResourceTypeTopic: {kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDelete,
		kmsg.ACLOperationAlter, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs},
	kmsg.ACLResourceTypeGroup: {kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs},
	kmsg.ACLResourceTypeCluster: {kmsg.ACLOperationCreate, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs,
		kmsg.ACLOperationAlterConfigs,
		kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe},
	kmsg.ACLResourceTypeTransactionalId: {kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite, twoPhaseCommit},
	kmsg.ACLResourceTypeDelegationToken: {kmsg.ACLOperationDescribe},
	kmsg.ACLResourceTypeUser:            {kmsg.ACLOperation(13), kmsg.ACLOperation(14)}, // CREATE_TOKENS, DESCRIBE_TOKENS
}

// twoPhaseCommit is KIP-939's operation. Nothing here asks for it; ACLs with it are kept for those who read them.
const twoPhaseCommit = kmsg.ACLOperation(15)

func parseOperation(word string) (kmsg.ACLOperation, error) {
	number, err := kafka.ParseACLOperation(word)
	return kmsg.ACLOperation(number), err
}

// CheckOperation says, as INVALID_REQUEST, that an ACL's operation is none of its resource's. Such an ACL has no effect; Kafka
// takes it, and so do we from Kafka's clients.
func CheckOperation(acl meta.ACL) error {
	kind, _ := kmsg.ParseACLResourceType(acl.ResourceType)
	op, err := parseOperation(acl.Operation)
	if err == nil && (op == kmsg.ACLOperationAll || slices.Contains(operations[kind], op)) {
		return nil
	}
	return kafka.Errorf(kafka.InvalidRequest, "Operation %s does not apply to resources of type %s.", acl.Operation, acl.ResourceType)
}

// CheckACL says what is wrong with an ACL that is to be made, as INVALID_REQUEST.
func CheckACL(acl meta.ACL) error {
	bad := func(format string, args ...any) error { return kafka.Errorf(kafka.InvalidRequest, format, args...) }
	kind, err := kmsg.ParseACLResourceType(acl.ResourceType)
	if err != nil || operations[kind] == nil {
		return bad("Resource type %s cannot have an ACL; it must be TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER.",
			acl.ResourceType)
	}
	op, err := parseOperation(acl.Operation)
	name, _, _ := strings.Cut(acl.Principal, ":")
	switch {
	case acl.PatternType != kmsg.ACLResourcePatternTypeLiteral.String() && acl.PatternType != kmsg.ACLResourcePatternTypePrefixed.String():
		return bad("Pattern type %s cannot be stored; it must be LITERAL or PREFIXED.", acl.PatternType)
	case acl.Resource == "":
		return bad("The resource name is empty; '*' stands for every name.")
	case kind == kmsg.ACLResourceTypeCluster && acl.Resource != ClusterName:
		return bad("The cluster's resource name is %s, not '%s'.", ClusterName, acl.Resource)
	case err != nil || op == kmsg.ACLOperationUnknown || op == kmsg.ACLOperationAny:
		return bad("Operation %s cannot be stored; it must be ALL or one that the resource knows.", acl.Operation)
	case acl.Permission != kmsg.ACLPermissionTypeAllow.String() && acl.Permission != kmsg.ACLPermissionTypeDeny.String():
		return bad("Permission %s cannot be stored; it must be ALLOW or DENY.", acl.Permission)
	case !strings.Contains(acl.Principal, ":") || name == "" || strings.HasSuffix(acl.Principal, ":"):
		return bad("Principal '%s' is not of the form Type:name, as User:alice.", acl.Principal)
	case acl.Host == "":
		return bad("The host is empty; '*' stands for every host.")
	}
	return nil
}
