package handler

import (
	"context"
	"slices"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs, key 44, versions 0-1. Sets, deletes, appends to or subtracts from configs.
//
//	hawser.mirror.order on a topic gives its mirror an order: promote, failover, pause, …
//	v1 flexible encoding.
func incrementalAlterConfigs(ctx context.Context, c *call, rq *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	times := map[resource]int{}
	for _, in := range rq.Resources {
		times[resource{in.ResourceType, in.ResourceName}]++
	}
	for i := range rq.Resources {
		in := &rq.Resources[i]
		r := resource{in.ResourceType, in.ResourceName}
		if times[r] == 0 {
			continue
		}
		err := twiceError(times[r])
		times[r] = 0
		if err == nil {
			err = c.alterIncrementally(ctx, r, in.Configs, rq.ValidateOnly)
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = r.kind, r.name, code(err), kafka.MessageOf(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

type configOp = kmsg.IncrementalAlterConfigsRequestResourceConfig

func (c *call) alterIncrementally(ctx context.Context, r resource, ops []configOp, validateOnly bool) error {
	seen := map[string]bool{}
	var rest []configOp
	var order *string
	for _, op := range ops {
		switch {
		case seen[op.Name]:
			return kafka.Errorf(kafka.InvalidRequest, "Error due to duplicate config keys: %s", op.Name)
		case op.Value == nil && op.Op != kmsg.IncrementalAlterConfigOpDelete:
			return kafka.Errorf(kafka.InvalidRequest, "Null value not supported for : %s", op.Name)
		case r.kind != kmsg.ConfigResourceTypeTopic || !strings.HasPrefix(op.Name, MirrorConfigPrefix):
			rest = append(rest, op)
		case op.Name != MirrorOrderConfig:
			return kafka.Errorf(kafka.InvalidConfig, "Config %s only describes the mirror: it cannot be set. Orders are given with %s.",
				op.Name, MirrorOrderConfig)
		case op.Op != kmsg.IncrementalAlterConfigOpSet:
			return kafka.Errorf(kafka.InvalidRequest, "%s can only be set: it is an order, not a value that stays.", MirrorOrderConfig)
		default:
			order = op.Value
		}
		seen[op.Name] = true
	}
	if len(rest) > 0 || order == nil {
		err := c.alter(ctx, r, validateOnly, func(set map[string]string) (map[string]string, error) {
			return applyOps(set, rest, tableOf(r.kind), c.inEffect(r))
		})
		if err != nil {
			return err
		}
	}
	if order == nil {
		return nil
	}
	return c.orderMirror(ctx, r.name, *order, validateOnly)
}

// inEffect looks up what appending and subtracting start from where nothing was set.
func (c *call) inEffect(r resource) func(name string) string {
	return func(name string) string {
		entries := c.brokerEntries
		switch r.kind {
		case kmsg.ConfigResourceTypeTopic:
			entries = func() []entry { return c.topicEntries(nil) }
		case kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics:
			entries = func() []entry { return c.namedEntries(r.kind, r.name) }
		}
		for _, e := range entries() {
			if e.key.Name == name && e.value != nil {
				return *e.value
			}
		}
		return ""
	}
}

// applyOps changes set, which is the caller's to change.
func applyOps(set map[string]string, ops []configOp, table *config.Table, inEffect func(string) string) (map[string]string, error) {
	if set == nil {
		set = map[string]string{}
	}
	for _, op := range ops {
		key, known := table.Key(op.Name)
		switch op.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			set[op.Name] = *op.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(set, op.Name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if !known || key.Type != config.List {
				return nil, kafka.Errorf(kafka.InvalidConfig, "Can't append to or subtract from key %s because its type is not LIST.",
					op.Name)
			}
			now, ok := set[op.Name]
			if !ok {
				now = inEffect(op.Name)
			}
			set[op.Name] = changeList(now, *op.Value, op.Op)
		default:
			return nil, kafka.Errorf(kafka.InvalidRequest, "Unknown operation %d on config %s.", op.Op, op.Name)
		}
	}
	return set, nil
}

// changeList appends the elements that are not there yet, or takes those that are.
func changeList(now, change string, op kmsg.IncrementalAlterConfigOp) string {
	list := elements(now)
	for _, element := range elements(change) {
		at := slices.Index(list, element)
		switch {
		case op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			list = append(list, element)
		case op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			list = slices.Delete(list, at, at+1)
		}
	}
	return strings.Join(list, ",")
}

func elements(list string) []string {
	if list == "" {
		return nil
	}
	parts := strings.Split(list, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (c *call) orderMirror(ctx context.Context, topic, order string, validateOnly bool) error {
	if !c.clusterAllowed(kmsg.ACLOperationAlter) || !c.clusterAllowed(kmsg.ACLOperationDescribe) {
		return errClusterDenied
	}
	t, err := c.readable(topic, orderRight(order))
	if err != nil {
		return err
	}
	switch {
	case c.Mirrors == nil:
		return kafka.Errorf(kafka.InvalidConfig, "Topic '%s' is no mirror: this broker has no cluster links.", topic)
	case validateOnly:
		return c.Mirrors.ValidateOrder(ctx, t.ID, order)
	}
	return c.Mirrors.Order(ctx, t.ID, order)
}

// orderRight is what an order needs on the topic, beside ALTER and DESCRIBE on the cluster: those that turn a topic
// round or cut it need more than those that end or halt its mirroring.
func orderRight(order string) kmsg.ACLOperation {
	if strings.HasPrefix(order, "reverse-") || strings.HasPrefix(order, "truncate-") {
		return kmsg.ACLOperationAlter
	}
	return kmsg.ACLOperationDescribe
}
