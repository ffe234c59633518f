package handler

import (
	"fmt"
	"strings"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// orderedMax bounds the names in one entry of the audit log.
const orderedMax = 1000

// audit records a request that changes something. Produce, commits and the life of groups and transactions
// are data, not orders.
func (c *call) audit(api string, rq kmsg.Request, resp kmsg.Response) {
	if c.Audit == nil || resp == nil {
		return
	}
	o := event.Order{At: c.Now(), Principal: c.from.Principal, Client: strings.TrimPrefix(c.from.Host, "/"), Door: "kafka", Verb: api}
	if !aboutTopics(&o, rq) && !aboutConfigs(&o, rq) && !aboutOthers(rq) {
		return
	}
	if fails := failuresOf(resp, &o); len(fails) > 0 {
		o.Err = fmt.Sprintf("%d refused: %s", len(fails), fails[0])
	}
	o.Topics, o.Configs = o.Topics[:min(len(o.Topics), orderedMax)], o.Configs[:min(len(o.Configs), orderedMax)]
	c.Audit(o)
}

// aboutTopics fills in an order to topics, and reports whether the request is one.
func aboutTopics(o *event.Order, rq kmsg.Request) bool {
	switch rq := rq.(type) {
	case *kmsg.CreateTopicsRequest:
		o.DryRun = rq.ValidateOnly
		for _, t := range rq.Topics {
			o.Topics = append(o.Topics, t.Topic)
			for _, cfg := range t.Configs {
				o.Configs = append(o.Configs, cfg.Name)
				if cfg.Name == MirrorLinkConfig && cfg.Value != nil {
					o.Verb, o.Link = "create-mirror", *cfg.Value
				}
			}
		}
	case *kmsg.DeleteTopicsRequest: // the answer names them
	case *kmsg.CreatePartitionsRequest:
		o.DryRun = rq.ValidateOnly
		for _, t := range rq.Topics {
			o.Topics = append(o.Topics, t.Topic)
		}
	case *kmsg.DeleteRecordsRequest:
		for _, t := range rq.Topics {
			o.Topics = append(o.Topics, t.Topic)
		}
	default:
		return false
	}
	return true
}

// aboutConfigs is aboutTopics for configs, by which mirrors are ordered, too.
func aboutConfigs(o *event.Order, rq kmsg.Request) bool {
	switch rq := rq.(type) {
	case *kmsg.AlterConfigsRequest:
		o.DryRun = rq.ValidateOnly
		for _, r := range rq.Resources {
			noteResource(o, r.ResourceType, r.ResourceName)
			for _, cfg := range r.Configs {
				o.Configs = append(o.Configs, cfg.Name)
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		o.DryRun = rq.ValidateOnly
		for _, r := range rq.Resources {
			noteResource(o, r.ResourceType, r.ResourceName)
			for _, cfg := range r.Configs {
				o.Configs = append(o.Configs, cfg.Name)
				if cfg.Name == MirrorOrderConfig && cfg.Value != nil {
					o.Verb = *cfg.Value
				}
			}
		}
	default:
		return false
	}
	return true
}

// aboutOthers reports whether a request changes something else than topics and configs.
func aboutOthers(rq kmsg.Request) bool {
	switch rq.(type) {
	case *kmsg.CreateACLsRequest, *kmsg.DeleteACLsRequest, *kmsg.DeleteGroupsRequest, *kmsg.OffsetDeleteRequest,
		*kmsg.AlterClientQuotasRequest, *kmsg.AlterUserSCRAMCredentialsRequest, *kmsg.ElectLeadersRequest,
		*kmsg.AlterPartitionAssignmentsRequest:
		return true
	}
	return false
}

func noteResource(o *event.Order, kind kmsg.ConfigResourceType, name string) {
	if kind == kmsg.ConfigResourceTypeTopic {
		o.Topics = append(o.Topics, name)
	}
}

// failedName is one thing of a request that was refused.
type failedName struct {
	name string
	code int16
	text *string
}

func (f failedName) String() string {
	words := kafka.ErrorCode(f.code).String()
	if f.text != nil && *f.text != "" {
		words += ": " + *f.text
	}
	if f.name != "" {
		words = f.name + ": " + words
	}
	return words
}

// failuresOf lists what an answer refuses. Topics that were deleted by their id get their names from it.
func failuresOf(resp kmsg.Response, o *event.Order) []failedName {
	var fails []failedName
	note := func(name string, code int16, text *string) {
		if kafka.ErrorCode(code) != kafka.None {
			fails = append(fails, failedName{name, code, text})
		}
	}
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range resp.Topics {
			note(t.Topic, t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.DeleteTopicsResponse:
		o.Topics = nil
		for _, t := range resp.Topics {
			name := kafka.TopicID(t.TopicID).String()
			if t.Topic != nil {
				name = *t.Topic
			}
			o.Topics = append(o.Topics, name)
			note(name, t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range resp.Topics {
			note(t.Topic, t.ErrorCode, t.ErrorMessage)
		}
	case *kmsg.AlterConfigsResponse:
		for _, r := range resp.Resources {
			note(r.ResourceName, r.ErrorCode, r.ErrorMessage)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, r := range resp.Resources {
			note(r.ResourceName, r.ErrorCode, r.ErrorMessage)
		}
	case *kmsg.CreateACLsResponse:
		for _, r := range resp.Results {
			note("", r.ErrorCode, r.ErrorMessage)
		}
	case *kmsg.DeleteACLsResponse:
		for _, r := range resp.Results {
			note("", r.ErrorCode, r.ErrorMessage)
		}
	case *kmsg.DeleteGroupsResponse:
		for _, g := range resp.Groups {
			note(g.Group, g.ErrorCode, nil)
		}
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		for _, r := range resp.Results {
			note(r.User, r.ErrorCode, r.ErrorMessage)
		}
	case *kmsg.AlterClientQuotasResponse:
		for _, e := range resp.Entries {
			note("", e.ErrorCode, e.ErrorMessage)
		}
	}
	return fails
}
