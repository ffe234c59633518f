package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// checkMode says what a link's mode lacks or does not allow.
func checkMode(set map[string]string) error {
	mode, conn := orDefault(set, keyMode, peer.Destination), orDefault(set, keyConnection, peer.Outbound)
	if mode == peer.Source {
		for _, f := range features {
			if isTrue(set[f.enable]) {
				return fmt.Errorf("%s has no effect on a SOURCE half: set it on the link's other half, which holds the mirrors", f.enable)
			}
		}
	}
	if conn == peer.Outbound && strings.TrimSpace(set[keyBootstrap]) == "" {
		return fmt.Errorf("%s is missing: give host:port of the other cluster", keyBootstrap)
	}
	if isTrue(set[keyGroupPrefix]) {
		switch {
		case mode == peer.Bidirectional:
			return fmt.Errorf("invalid configuration: %s cannot be true on a BIDIRECTIONAL link", keyGroupPrefix)
		case prefixOf(set) == "":
			return fmt.Errorf("%s is true, but the link has no %s", keyGroupPrefix, keyPrefix)
		}
	}
	return nil
}

// agreed is what the clusters of a new link agree on.
type agreed struct {
	id     kafka.TopicID
	remote string // the other cluster's id; empty where it is found out later
}

// agree finds out who the other cluster is, and the id that both halves of a two-sided link have: the half that is made
// second takes over the first's. Two that are made at the same moment, or without asking, come to the same id by themselves.
func (ls *Links) agree(ctx context.Context, spec CreateSpec, set map[string]string) (agreed, error) {
	deal := agreed{remote: spec.RemoteClusterID}
	var err error
	if spec.LinkID != "" {
		if deal.id, err = kafka.ParseTopicID(spec.LinkID); err != nil {
			return deal, badRequest("The cluster link id %q is none: %v.", spec.LinkID, err)
		}
	}
	if own := ls.env.Metadata.Image().Cluster.ID; spec.RemoteClusterID == own {
		return deal, unreachable("create the link", selfLink(own))
	}
	mode, inbound := orDefault(set, keyMode, peer.Destination), orDefault(set, keyConnection, peer.Outbound) == peer.Inbound
	switch {
	case inbound && spec.RemoteClusterID == "":
		return deal, badRequest("A half with %s=%s does not dial, so it cannot find out who the other cluster is: give its id.",
			keyConnection, peer.Inbound)
	case inbound && mode == peer.Bidirectional && spec.LinkID != "":
		return deal, badRequest("Unexpected cluster link id. Should not be provided for bi-directional cluster link with inbound connections.")
	case mode == peer.Source && !spec.Validate && spec.LinkID == "" && spec.RemoteClusterID == "":
		return deal, badRequest("The id of a SOURCE half is that of its other half: let the link be validated, or give " +
			"cluster_link_id or the other cluster's id.")
	case !inbound:
		if deal, err = ls.reach(ctx, spec, set, deal); err != nil {
			return deal, err
		}
	}
	if deal.id.IsZero() {
		deal.id = kafka.NewTopicID()
		half := peer.LinkHalf{Name: spec.Name, Mode: mode, Connection: orDefault(set, keyConnection, peer.Outbound)}
		if half.TwoSided() && deal.remote != "" {
			deal.id = peer.LinkID(spec.Name, ls.env.Metadata.Image().Cluster.ID, deal.remote)
		}
	}
	return deal, nil
}

// reach asks the other cluster who it is, and about its half. Without validation a cluster that cannot be reached is no
// error: the link is made in error and heals.
func (ls *Links) reach(ctx context.Context, spec CreateSpec, set map[string]string, deal agreed) (agreed, error) {
	ctx, cancel := context.WithTimeout(ctx, reachMax)
	defer cancel()
	s, err := readSettings(spec.Name, set)
	if err != nil {
		return deal, badRequest("%v.", err)
	}
	s.source.Logger = ls.env.Logger
	src, err := ls.env.Dial(s.source)
	if err != nil {
		return deal, unreachable("use the link's configs", err)
	}
	defer src.Close()
	if !spec.Validate && spec.RemoteClusterID != "" {
		return deal, nil
	}
	answer, err := src.Probe(ctx)
	if err != nil {
		if !spec.Validate {
			return deal, nil
		}
		return deal, unreachable("reach the source cluster", err)
	}
	if own := ls.env.Metadata.Image().Cluster.ID; answer.ClusterID == own {
		return deal, unreachable("create the link", selfLink(own))
	}
	if spec.RemoteClusterID != "" && spec.RemoteClusterID != answer.ClusterID {
		return deal, unreachable("create the link", wrongCluster(spec.RemoteClusterID, answer.ClusterID))
	}
	deal.remote = answer.ClusterID
	if !spec.Validate {
		return deal, nil
	}
	if err := eachBroker(ctx, src, answer); err != nil {
		return deal, err
	}
	plain, secrets := split(set)
	own := &meta.Link{ID: deal.id, Name: spec.Name, RemoteClusterID: deal.remote, Configs: plain, Secrets: secrets}
	return ls.meet(ctx, src, own, s, deal)
}

// eachBroker tries every broker that the source advertises: records are fetched from those that lead.
func eachBroker(ctx context.Context, src Source, answer source.Probe) error {
	for _, b := range src.ProbeBrokers(ctx, answer.Brokers) {
		if b.Err != nil {
			e := unreachable(fmt.Sprintf("reach broker %d of the source, which advertises %s", b.ID, b.Address), b.Err)
			if e.Code != string(mirror.Authentication) {
				e.Hint = "Every broker of the source must be reachable from here; where it advertises addresses that are not, set " +
					keyAddressMap + "."
			}
			return e
		}
	}
	return nil
}

// meet asks the other cluster about its half of a link that is being made.
func (ls *Links) meet(ctx context.Context, src Source, own *meta.Link, set settings, deal agreed) (agreed, error) {
	img := ls.env.Metadata.Image()
	half := ls.halfOf(own)
	answer, err := ls.hello(ctx, src, own)
	if err != nil {
		return deal, half.unmet(deal.remote, err)
	}
	switch {
	case !half.TwoSided():
	case answer.Half != nil:
		if err := peer.Fit(img.Cluster.ID, half.LinkHalf, *answer.Half); err != nil {
			return deal, badRequest("Cannot create the link: %v.", err)
		}
		deal.id = answer.Half.ID
		own.ID = deal.id
		if half.Lends(answer.Half) {
			return deal, ls.tryLending(ctx, src, own, set)
		}
	case half.Mode == peer.Source:
		return deal, half.alone()
	}
	return deal, nil
}

// ownHalf is this cluster's half of a link.
type ownHalf struct{ peer.LinkHalf }

// alone says that the other half, without which this one is of no use, is not there.
func (h ownHalf) alone() *Error {
	return &Error{
		Kind: BadRequest, Code: string(mirror.RemoteLinkNotFound),
		Text: fmt.Sprintf("Cannot use cluster link '%s': the destination cluster does not have a link named %s.", h.Name, h.Name),
		Hint: "Create its half there first, with link.mode=DESTINATION and connection.mode=INBOUND.",
	}
}

// unmet words why the other cluster did not say who it is; nil where that does not matter.
func (h ownHalf) unmet(remote string, err error) error {
	var copied *errWrongCluster
	switch {
	case errors.As(err, &copied):
		return unreachable("create the link", err)
	case !h.TwoSided():
		return nil // any Kafka may be mirrored
	case faultOf(err) == peerNotHawser:
		return &Error{Kind: BadRequest, Code: string(mirror.InvalidRequest), Err: err,
			Text: fmt.Sprintf("Cluster %s is no hawser, and a %s link needs one on both sides.", remote, h.Mode),
			Hint: "From an Apache Kafka a DESTINATION link with OUTBOUND connections mirrors: create it on the cluster that shall hold the mirrors."}
	case faultOf(err) == peerRefused:
		out := refused(err)
		if kafkaReason(err) == mirror.Authorization {
			out.Kind = Forbidden
		}
		return out
	}
	return unreachable("ask the other cluster about its half of the link", err)
}

// otherHalf is what the other cluster last said of its half.
type otherHalf struct {
	half    *peer.LinkHalf // nil where it has none, or has not said
	problem plan.Problem   // why it has none, or why this one does not know; empty where all is well
}

// greet asks the other cluster for its half and compares both. An error means that the link cannot be used as it is;
// what is merely missing is kept, to be shown.
func (r *running) greet(ctx context.Context, src Source, rec *meta.Link) error {
	own := r.ls.halfOf(rec)
	r.mu.Lock()
	known := r.greeted == src
	r.mu.Unlock()
	if known && !own.TwoSided() {
		return nil
	}
	answer, err := r.ls.hello(ctx, src, rec)
	if ctx.Err() != nil {
		return nil
	}
	var copied *errWrongCluster
	if errors.As(err, &copied) {
		return err
	}
	found := otherHalf{half: answer.Half}
	switch {
	case !own.TwoSided():
		found = otherHalf{}
	case err != nil:
		r.mu.Lock()
		found.half = r.other.half
		r.mu.Unlock()
		found.problem = plan.Problem{Code: codeOf(err), Text: "The other cluster does not tell about its half of the link: " + err.Error()}
	case answer.Half == nil:
		found.problem = plan.Problem{Code: string(mirror.RemoteLinkNotFound),
			Text: fmt.Sprintf("Cluster %s has no cluster link '%s': create the other half there.", rec.RemoteClusterID, rec.Name)}
	default:
		if misfit := peer.Fit(r.ls.env.Metadata.Image().Cluster.ID, own.LinkHalf, *answer.Half); misfit != nil {
			err = &errWrongCluster{"The halves of the link do not fit: " + misfit.Error() + "."}
			found.problem = plan.Problem{Code: string(mirror.Misconfiguration), Text: err.Error()}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.src != src {
		return nil
	}
	r.other = found
	switch fault := faultOf(err); {
	case err != nil && fault == peerUnreachable: // it is asked again: it may be a copy of this cluster
	case err != nil && fault == peerNotHawser:
		r.greeted, r.foreign = src, src
	default:
		r.greeted = src
	}
	r.wake()
	switch {
	case errors.As(err, &copied):
		return err
	case own.Mode == peer.Source && found.problem.Code == string(mirror.RemoteLinkNotFound):
		return own.alone()
	}
	return nil
}

// lendFault is why connections are not lent that should be.
func (r *running) lendFault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.lendProblem(); p.Code != "" {
		return &Error{Kind: Unreachable, Code: p.Code, Text: p.Text}
	}
	return nil
}
