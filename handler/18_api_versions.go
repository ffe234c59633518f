package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, key 18, versions 0-4. Lists the table.
//
//	A version above 4 is answered in the form of version 0, with
//	UNSUPPORTED_VERSION and the whole list (KIP-511); the header of the answer is
//	that of version 0 always.
//	v3 flexible encoding; the client's name and version are checked.
//	v4 no feature has minimum version 0.
//	Finalized features: transaction.version where transactions are offered, group.version never.
func apiVersions(_ context.Context, c *call, rq *kmsg.ApiVersionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.version >= 3 && !(softwareName(rq.ClientSoftwareName) && softwareName(rq.ClientSoftwareVersion)) {
		resp.ErrorCode = int16(kafka.InvalidRequest)
		return resp, nil
	}
	resp.ApiKeys = c.Server.apiKeys()
	return resp, nil
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
