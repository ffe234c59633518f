package handler

import (
	"context"
	"strconv"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources, key 74, versions 0-1. Lists what has configs: topics, groups and client-metrics subscriptions of which
// some were set, and this broker.
//
//	v0 lists client-metrics subscriptions only. v1 the kinds asked for, all for an empty list (KIP-1142).
func listConfigResources(_ context.Context, c *call, rq *kmsg.ListConfigResourcesRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if !c.clusterAllowed(kmsg.ACLOperationDescribeConfigs) {
		resp.ErrorCode = code(errClusterDenied)
		return resp, nil
	}
	wanted := map[kmsg.ConfigResourceType]bool{}
	if c.version == 0 {
		wanted[kmsg.ConfigResourceTypeClientMetrics] = true
	}
	for _, kind := range rq.ResourceTypes {
		wanted[kmsg.ConfigResourceType(kind)] = true
		switch kmsg.ConfigResourceType(kind) {
		case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
			kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		default:
			resp.ErrorCode = int16(kafka.UnsupportedVersion)
			return resp, nil
		}
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		if len(wanted) > 0 && !wanted[kind] {
			return
		}
		row := kmsg.NewListConfigResourcesResponseConfigResource()
		row.Name, row.Type = name, int8(kind)
		resp.ConfigResources = append(resp.ConfigResources, row)
	}
	for _, t := range c.Topics.All() {
		add(kmsg.ConfigResourceTypeTopic, t.Name)
	}
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics} {
		for _, name := range c.Configs.Resources(kind) {
			add(kind, name)
		}
	}
	add(kmsg.ConfigResourceTypeBrokerLogger, strconv.Itoa(int(c.NodeID)))
	add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(c.NodeID)))
	return resp, nil
}
