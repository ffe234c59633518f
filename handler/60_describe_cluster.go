package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of endpoints.
const endpointBrokers = 1

// DescribeCluster, key 60, versions 0-2. Lists the brokers, as clients of the listener that was asked see them.
//
//	v1 brokers or controllers (KIP-919): controllers are not separate here. v2 fenced brokers: there are none.
func describeCluster(_ context.Context, c *call, rq *kmsg.DescribeClusterRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID, resp.EndpointType = c.ClusterID, c.NodeID, rq.EndpointType
	resp.ClusterAuthorizedOperations = noAuthorizedOps
	if c.version >= 1 && rq.EndpointType != endpointBrokers {
		err := kafka.Errorf(kafka.MismatchedEndpointType,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER.")
		resp.ErrorCode, resp.ErrorMessage = code(err), kafka.MessageOf(err)
		resp.ClusterID, resp.ControllerID, resp.EndpointType = "", -1, endpointBrokers
		return resp, nil
	}
	if rq.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = c.authorizedClusterOps()
	}
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID, broker.Host, broker.Port, broker.Rack = c.self(c.listener)
	resp.Brokers = append(resp.Brokers, broker)
	return resp, nil
}
