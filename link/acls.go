package link

import (
	"bytes"
	"context"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// answerACLs lists the ACLs that this cluster has copied from the asking one, over any link.
func (ls *Links) answerACLs(_ context.Context, q question) ([]byte, error) {
	var answer peer.ACLsAnswer
	for key, acl := range q.img.ACLs {
		if link := q.img.Links[acl.Link]; link != nil && link.RemoteClusterID == q.Caller {
			answer.Keys = append(answer.Keys, key)
		}
	}
	if len(answer.Keys) > peer.ACLsMax {
		return nil, kafka.Errorf(kafka.PolicyViolation, "Cluster %s has copied %d ACLs, of which at most %d can be told: narrow "+
			"acl.filters there.",
			q.img.Cluster.ID, len(answer.Keys), peer.ACLsMax)
	}
	slices.SortFunc(answer.Keys, func(a, b kafka.TopicID) int { return bytes.Compare(a[:], b[:]) })
	return answer.Encode(), nil
}

// aclsFromHere asks which of its ACLs the source has copied from this cluster. An Apache Kafka, or a hawser that does not know the
// question yet, tells of none.
func (r *running) aclsFromHere(ctx context.Context) (func(plan.ACL) bool, error) {
	body, err := r.Call(ctx, peer.Ask{Key: peer.DescribeACLs})
	switch {
	case err != nil && (faultOf(err) == peerNotHawser || kafka.CodeOf(err) == kafka.UnsupportedVersion):
		return func(plan.ACL) bool { return false }, nil
	case err != nil:
		return nil, err
	}
	answer, err := peer.DecodeACLsAnswer(body)
	if err != nil {
		return nil, malformed(err)
	}
	keys := make(map[kafka.TopicID]bool, len(answer.Keys))
	for _, key := range answer.Keys {
		keys[key] = true
	}
	return func(a plan.ACL) bool { return keys[metaACL(a, kafka.TopicID{}).Key()] }, nil
}

// planACL is a record in link/plan's words, metaACL the other way round.
func planACL(a *meta.ACL) plan.ACL {
	return plan.ACL{
		ResourceType: a.ResourceType, Resource: a.Resource, PatternType: a.PatternType,
		Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission,
	}
}

func metaACL(a plan.ACL, link kafka.TopicID) *meta.ACL {
	return &meta.ACL{
		ResourceType: a.ResourceType, Resource: a.Resource, PatternType: a.PatternType,
		Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission, Link: link,
	}
}
