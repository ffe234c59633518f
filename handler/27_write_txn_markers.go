package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// WriteTxnMarkers, key 27, version 1. Writes the markers that end transactions; for brokers and the tool that aborts hanging ones.
//
//	On a partition that is not open for producers it succeeds without writing.
func writeTxnMarkers(ctx context.Context, c *call, rq *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error) {
	if c.clusterAllowed(kmsg.ACLOperationClusterAction) || c.clusterAllowed(kmsg.ACLOperationAlter) {
		return c.Transactions.WriteTxnMarkers(ctx, rq), nil
	}
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, marker := range rq.Markers {
		out := kmsg.NewWriteTxnMarkersResponseMarker()
		out.ProducerID = marker.ProducerID
		for _, in := range marker.Topics {
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = in.Topic
			for _, number := range in.Partitions {
				p := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				p.Partition, p.ErrorCode = number, code(errClusterDenied)
				topic.Partitions = append(topic.Partitions, p)
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp, nil
}
