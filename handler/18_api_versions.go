package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, key 18, versions 0-5. Lists the table.
//
//	A version above 5 is answered in the form of version 0, with
//	UNSUPPORTED_VERSION and the whole list (KIP-511); the header of the answer is
//	that of version 0 always.
//	v3 flexible encoding; the client's name and version are checked.
//	v4 no feature has minimum version 0.
//	v5 the cluster and broker that the client wants to reach; another one is REBOOTSTRAP_REQUIRED (KIP-1242).
//	Finalized features: group.version 1 (KIP-848), and transaction.version 2 (KIP-890) where transactions are offered.
func apiVersions(_ context.Context, c *call, rq *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.version >= 3 && !(softwareName(rq.ClientSoftwareName) && softwareName(rq.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(kafka.InvalidRequest)
		return resp, nil
	}
	if c.version >= 5 {
		if err := c.addressee(rq.ClusterID, rq.NodeID); err != nil {
			resp.ErrorCode = code(err)
			return resp, nil
		}
	}
	resp.ApiKeys = c.Server.apiKeys()
	c.Server.features(resp)
	return resp, nil
}

// addressee says whether the client reached whom it wanted. Both or neither are given.
func (c *call) addressee(cluster *string, node int32) error {
	switch {
	case (cluster == nil) != (node == -1):
		return kafka.Errorf(kafka.InvalidRequest, "Cluster id and node id go together.")
	case cluster != nil && (*cluster != c.ClusterID || node != c.NodeID):
		return kafka.Errorf(kafka.RebootstrapRequired, "This is broker %d of cluster %s.", c.NodeID, c.ClusterID)
	}
	return nil
}

// features lists what clients take up only when the whole cluster has it (KIP-584).
func (s *Server) features(resp *kmsg.ApiVersionsResponse) {
	add := func(name string, level int16) {
		supported, finalized := kmsg.NewApiVersionsResponseSupportedFeature(), kmsg.NewApiVersionsResponseFinalizedFeature()
		supported.Name, supported.MinVersion, supported.MaxVersion = name, 1, level
		finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = name, level, level
		resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	}
	resp.FinalizedFeaturesEpoch = 1 // they never change while a broker runs
	add("group.version", 1)
	if s.Transactions != nil {
		add("transaction.version", 2)
	}
}

func (s *Server) apiKeys() []kmsg.ApiVersionsResponseApiKey {
	keys := s.table.keys()
	list := make([]kmsg.ApiVersionsResponseApiKey, len(keys))
	for i, key := range keys {
		list[i] = kmsg.NewApiVersionsResponseApiKey()
		list[i].ApiKey, list[i].MinVersion, list[i].MaxVersion = key, s.table[key].min, s.table[key].max
	}
	return list
}

// unknownApiVersions answers an ApiVersions request of a version that is not served.
func (s *Server) unknownApiVersions() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = int16(kafka.UnsupportedVersion)
	resp.ApiKeys = s.apiKeys()
	return resp
}

// softwareName is Kafka's rule: [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
func softwareName(s string) bool {
	alphanumeric := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for i := range len(s) {
		c := s[i]
		inner := i > 0 && i < len(s)-1
		if !alphanumeric(c) && !(inner && (c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}
