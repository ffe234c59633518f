package handler

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peers answers what the other cluster of a link asks by the private API keys; broker plugs link in.
type Peers interface {
	// Answer is asked when the caller's rights were checked, on the cluster and on every topic that rq names; it must not
	// touch others. Errors are kafka.Error with words for the operator of the other cluster.
	Answer(ctx context.Context, principal string, rq *peer.Request) (body []byte, err error)
}

// peerAnswerMax bounds an answer: less than request.timeout.ms of the links that ask.
const peerAnswerMax = 25 * time.Second

// privateRows makes rows of package peer's table.
func privateRows() []api {
	var list []api
	for _, row := range peer.Rows() {
		list = append(list, api{key: int16(row.Key), name: row.Name, min: row.Min, max: row.Max, handle: private(row), note: row.Doc})
	}
	return list
}

// private answers a key of package peer's table: it checks what the row needs and passes the request on.
func private(row peer.Row) handle {
	return on(func(ctx context.Context, c *call, rq *peer.Request) (kmsg.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, peerAnswerMax)
		defer cancel()
		resp := rq.ResponseKind().(*peer.Answer)
		resp.Cluster = c.ClusterID
		err := c.mayAsk(row, rq)
		if err == nil {
			resp.Body, err = c.Peers.Answer(ctx, c.from.Principal, rq)
		}
		if err == nil && len(resp.Body) > peer.BodyMax {
			err = kafka.Errorf(kafka.MessageTooLarge, "The answer to %s has %d bytes, more than %d: ask for fewer topics at once.", row.Name, len(resp.Body), peer.BodyMax)
		}
		if err != nil {
			resp.Code, resp.Words, resp.Body = kafka.CodeOf(err), *kafka.MessageOf(err), nil
		}
		return resp, nil
	})
}

// mayAsk checks addressee and rights (rule R9).
func (c *call) mayAsk(row peer.Row, rq *peer.Request) error {
	if rq.Callee != "" && rq.Callee != c.ClusterID {
		return kafka.Errorf(kafka.InconsistentClusterID, "This is cluster %s, not %s: check the link's bootstrap.servers.", c.ClusterID, rq.Callee)
	}
	if !c.clusterAllowed(row.Cluster) {
		return kafka.Errorf(kafka.ClusterAuthorizationFailed, "%s needs %s on cluster %s: allow it to the link's principal, %s.", row.Name, row.Cluster, c.ClusterID, c.from.Principal)
	}
	if row.Topic == kmsg.ACLOperationUnknown {
		if len(rq.Topics) > 0 {
			return kafka.Errorf(kafka.InvalidRequest, "%s names no topics.", row.Name)
		}
		return nil
	}
	if len(rq.Topics) == 0 {
		return kafka.Errorf(kafka.InvalidRequest, "%s must name its topics.", row.Name)
	}
	for _, topic := range rq.Topics {
		if !c.topicAllowed(row.Topic, topic) {
			return kafka.Errorf(kafka.TopicAuthorizationFailed, "%s needs %s on topic '%s' of cluster %s: allow it to the link's principal, %s.", row.Name, row.Topic, topic, c.ClusterID, c.from.Principal)
		}
	}
	return nil
}
