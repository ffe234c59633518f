package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// Peer is the other cluster of a link, asked by the private keys.
type Peer interface {
	// Call asks and returns the body of the answer. The question may arrive more than once, and an error says nothing about
	// whether it did: what a message does must be repeatable. faultOf tells the errors apart.
	Call(ctx context.Context, ask peer.Ask) ([]byte, error)
}

var _ Peer = (*running)(nil)

// Call implements Peer with the link's own credentials.
func (r *running) Call(ctx context.Context, ask peer.Ask) ([]byte, error) {
	src, err := r.source()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	remote := r.rec.RemoteClusterID
	r.mu.Unlock()
	return src.Call(ctx, &peer.Request{Ask: ask, Link: r.id, Caller: r.ls.env.Metadata.Image().Cluster.ID, Callee: remote})
}

// peerFault is what an error of Peer.Call means.
type peerFault int8

// The faults.
const (
	peerUnreachable peerFault = iota // network, login, or the link is not connected: ask again later
	peerRefused                      // it answered no, with words: errors.As a *kafka.Error
	peerNotHawser                    // it is a Kafka that has no private keys: asking again is of no use
)

func faultOf(err error) peerFault {
	var unreached *source.Error
	var refused *kafka.Error
	switch {
	case errors.Is(err, peer.ErrNotHawser):
		return peerNotHawser
	case errors.As(err, &unreached), !errors.As(err, &refused), refused.Code == kafka.NetworkException:
		return peerUnreachable
	}
	return peerRefused
}

// question is what the other cluster of a link asks. Its rights were checked, on this cluster and on every topic
// that it names; an answer touches no others.
type question struct {
	*peer.Request
	principal string
	img       *meta.Image
	link      *meta.Link // nil only where the key is answered without a half here
}

// answers is who answers which key.
var answers = map[peer.Key]func(*Links, context.Context, question) ([]byte, error){
	peer.Hello:           (*Links).answerHello,
	peer.DescribeMirrors: (*Links).answerMirrors,
	peer.Chain:           (*Links).answerChain,
	peer.DescribeACLs:    (*Links).answerACLs,
	peer.DescribeKin:     (*Links).answerKin,
	peer.Freeze:          (*Links).answerFreeze,
	peer.DescribeFreeze:  (*Links).answerDescribeFreeze,
	peer.HandOver:        (*Links).answerHandOver,
	peer.DescribeReverse: (*Links).answerReverse,
	peer.Pledge:          (*Links).answerPledge,
	peer.Release:         (*Links).answerRelease,
	peer.Lineage:         (*Links).answerLineage,
}

// Answer answers what the other cluster of a link asks; the caller has checked the rights that peer's table names.
// Errors are kafka.Error.
func (ls *Links) Answer(ctx context.Context, principal string, rq *peer.Request) ([]byte, error) {
	q, err := ls.questionOf(rq)
	if err != nil {
		return nil, err
	}
	q.principal = principal
	row, _ := peer.RowOf(rq.Ask.Key)
	answer := answers[rq.Ask.Key]
	if answer == nil {
		return nil, kafka.Errorf(kafka.UnsupportedVersion, "This cluster does not answer %s yet: upgrade it.", row.Name)
	}
	body, err := answer(ls, ctx, q)
	var known *kafka.Error
	if err != nil && !errors.As(err, &known) {
		err = kafka.Errorf(kafka.UnknownServerError, "%s failed on cluster %s: %v", row.Name, q.img.Cluster.ID, err)
	}
	return body, err
}

// questionOf finds the link that a question is about, and refuses one of another cluster than the link's.
func (ls *Links) questionOf(rq *peer.Request) (question, error) {
	row, _ := peer.RowOf(rq.Ask.Key)
	q := question{Request: rq, img: ls.env.Metadata.Image()}
	q.link = q.img.Links[rq.Link]
	switch {
	case q.link == nil && row.Half == peer.WithHalf:
		return q, kafka.Errorf(kafka.ResourceNotFound, "Cluster %s has no cluster link with the id %s: create its half of the link.",
			q.img.Cluster.ID, rq.Link)
	case q.link != nil && q.link.RemoteClusterID != "" && q.link.RemoteClusterID != rq.Caller:
		return q, kafka.Errorf(kafka.InconsistentClusterID, "Cluster link '%s' of cluster %s is linked with cluster %s, not with %s.",
			q.link.Name, q.img.Cluster.ID, q.link.RemoteClusterID, rq.Caller)
	}
	return q, nil
}

func malformed(err error) error {
	return kafka.Errorf(kafka.InvalidRequest, "The other cluster does not understand the message: %v. Both should run the same "+
		"version of hawser.", err)
}

// self is what this cluster says of itself.
func (ls *Links) self(img *meta.Image) peer.Self {
	return peer.Self{Incarnation: img.Cluster.Incarnation, ProducerPrefix: int32(img.Cluster.ProducerPrefix), Version: ls.env.Version}
}

// halfOf is this cluster's half of a link as the other one may see it.
func (ls *Links) halfOf(rec *meta.Link) ownHalf {
	groups := ""
	if isTrue(rec.Configs[keyOffsetSync]) {
		groups = rec.Configs[keyGroupFilters]
	}
	return ownHalf{peer.LinkHalf{
		Groups: groups,
		Name:   rec.Name, ID: rec.ID, Mode: orDefault(rec.Configs, keyMode, peer.Destination),
		Connection: orDefault(rec.Configs, keyConnection, peer.Outbound),
		Prefix:     prefixOf(rec.Configs), Remote: rec.RemoteClusterID, State: ls.stateOf(rec),
	}}
}

func (ls *Links) stateOf(rec *meta.Link) string {
	r := ls.runningOf(rec.ID)
	if r == nil {
		return health(0).String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.healthNow().String()
}

// answerHello tells who this cluster is, and its half of the link: that of the id, else of the name.
func (ls *Links) answerHello(_ context.Context, q question) ([]byte, error) {
	m, err := peer.DecodeHelloRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	rec := q.link
	if rec == nil {
		rec = q.img.Links[q.img.LinkIDs[m.Half.Name]]
	}
	if rec != nil && rec.RemoteClusterID != "" && rec.RemoteClusterID != q.Caller {
		rec = nil // a link of that name with somebody else
	}
	answer := peer.HelloAnswer{Self: ls.self(q.img)}
	if rec != nil {
		half := ls.halfOf(rec)
		answer.Half = &half.LinkHalf
	}
	return answer.Encode(), nil
}

// distinct refuses a cluster that is a copy of this one (rule P3): it hands out the same producer ids.
func distinct(own, other peer.Self, id string) error {
	const remedy = "One of them is a copy of the other: start the copy once with --new-identity."
	switch {
	case own.Incarnation == other.Incarnation:
		return &errWrongCluster{fmt.Sprintf("Cluster %s has the same incarnation, %s, as this one. %s", id, own.Incarnation, remedy)}
	case own.ProducerPrefix == other.ProducerPrefix:
		return &errWrongCluster{fmt.Sprintf("Cluster %s hands out producer ids with the same prefix, %d, as this one. %s", id,
			own.ProducerPrefix, remedy)}
	}
	return nil
}

// hello asks the other cluster who it is and about its half; it refuses a copy of this one.
func (ls *Links) hello(ctx context.Context, src Source, rec *meta.Link) (peer.HelloAnswer, error) {
	img := ls.env.Metadata.Image()
	ask := peer.HelloRequest{Self: ls.self(img), Half: ls.halfOf(rec).LinkHalf}
	body, err := src.Call(ctx, &peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: ask.Encode()}, Link: rec.ID, Caller: img.Cluster.ID,
		Callee: rec.RemoteClusterID})
	if err != nil {
		return peer.HelloAnswer{}, err
	}
	answer, err := peer.DecodeHelloAnswer(body)
	if err != nil {
		return answer, fmt.Errorf("read %s: %w", peer.Hello.Name(), malformed(err))
	}
	return answer, distinct(ask.Self, answer.Self, rec.RemoteClusterID)
}
