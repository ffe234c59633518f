package handler

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs, key 33, versions 0-2. Replaces all that was set of a topic's or broker's configs.
//
//	A change that would touch a config which follows a mirror's source is refused.
//	v2 flexible encoding.
func alterConfigs(ctx context.Context, c *call, rq *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	times := map[resource]int{}
	for _, in := range rq.Resources {
		times[resource{in.ResourceType, in.ResourceName}]++
	}
	for _, in := range rq.Resources {
		r := resource{in.ResourceType, in.ResourceName}
		if times[r] == 0 {
			continue
		}
		wanted := map[string]string{}
		err := twiceError(times[r])
		for _, e := range in.Configs {
			switch {
			case e.Value == nil:
				err = kafka.Errorf(kafka.InvalidRequest, "Null value not supported for : %s", e.Name)
			case strings.HasPrefix(e.Name, MirrorConfigPrefix):
				// Tools send back all that DescribeConfigs showed them; what describes a mirror is not set by it.
			default:
				wanted[e.Name] = *e.Value
			}
		}
		times[r] = 0
		if err == nil {
			err = c.alter(ctx, r, rq.ValidateOnly, func(map[string]string) (map[string]string, error) { return wanted, nil })
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = r.kind, r.name, code(err), kafka.MessageOf(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// resource names what is configured.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

func twiceError(times int) error {
	if times > 1 {
		return kafka.Errorf(kafka.InvalidRequest, "Each resource must appear at most once.")
	}
	return nil
}

// errValidated ends an update that was only to be checked.
var errValidated = kafka.Errorf(kafka.None, "only validated")

// alter changes what was set of a resource's configs.
func (c *call) alter(ctx context.Context, r resource, validateOnly bool, change ConfigChange) error {
	var err error
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		err = c.alterTopic(ctx, r.name, validateOnly, change)
	case kmsg.ConfigResourceTypeBroker:
		err = c.alterBroker(ctx, r.name, validateOnly, change)
	case kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics:
		err = c.alterNamed(ctx, r, validateOnly, change)
	case kmsg.ConfigResourceTypeBrokerLogger:
		err = c.alterLogger(r.name)
	default:
		err = errResourceType(r.kind)
	}
	if errors.Is(err, errValidated) {
		return nil
	}
	return err
}

// alterLogger refuses as Kafka refuses a logger that it does not have.
func (c *call) alterLogger(broker string) error {
	if !c.clusterAllowed(kmsg.ACLOperationAlterConfigs) {
		return errClusterDenied
	}
	if err := c.brokerResource(broker); err != nil {
		return err
	}
	return kafka.Errorf(kafka.InvalidConfig, "There are no loggers here whose level could be changed.")
}

func (c *call) alterTopic(ctx context.Context, name string, validateOnly bool, change ConfigChange) error {
	t, err := c.alterableTopic(name)
	if err != nil {
		return err
	}
	var changed []string
	err = c.Configs.UpdateTopic(ctx, t.ID, func(old map[string]string) (map[string]string, error) {
		wanted, err := change(maps.Clone(old))
		if err != nil {
			return nil, err
		}
		if err := invalidConfigs(config.Topic.Check(wanted)); err != nil {
			return nil, err
		}
		changed = differing(old, wanted)
		if c.Mirrors != nil && len(changed) > 0 {
			if err := c.Mirrors.CheckConfigs(t.ID, changed); err != nil {
				return nil, err
			}
		}
		if validateOnly {
			return nil, errValidated
		}
		return wanted, nil
	})
	if err == nil && c.Mirrors != nil && len(changed) > 0 {
		c.Mirrors.ConfigsChanged(ctx, t.ID, changed)
	}
	return err
}

func (c *call) alterableTopic(name string) (*meta.Topic, error) {
	if !c.topicAllowed(kmsg.ACLOperationAlterConfigs, name) {
		return nil, topicDenied(name)
	}
	if err := kafka.CheckTopicName(name); err != nil {
		return nil, err
	}
	t := c.Topics.ByName(name)
	if t == nil {
		return nil, kafka.UnknownTopicError(name)
	}
	return t, nil
}

func (c *call) alterBroker(ctx context.Context, name string, validateOnly bool, change ConfigChange) error {
	if !c.clusterAllowed(kmsg.ACLOperationAlterConfigs) {
		return errClusterDenied
	}
	return c.changeBroker(ctx, name, validateOnly, change)
}

// AlterBroker replaces what was set of a broker's configs ("" is the defaults of all) by
// what change makes of it. That the caller may was checked.
func (s *Server) AlterBroker(ctx context.Context, name string, validateOnly bool, change ConfigChange) error {
	if err := s.changeBroker(ctx, name, validateOnly, change); !errors.Is(err, errValidated) {
		return err
	}
	return nil
}

func (s *Server) changeBroker(ctx context.Context, name string, validateOnly bool, change ConfigChange) error {
	if err := s.brokerResource(name); err != nil {
		return err
	}
	return s.Configs.UpdateBroker(ctx, name, func(old map[string]string) (map[string]string, error) {
		wanted, err := change(maps.Clone(old))
		if err != nil {
			return nil, err
		}
		if err := invalidConfigs(config.Broker.Check(wanted)); err != nil {
			return nil, err
		}
		changed := differing(old, wanted)
		if err := changeable(changed, name == ""); err != nil {
			return nil, err
		}
		if err := s.Configs.CheckBroker(name, wanted); err != nil {
			return nil, err
		}
		if validateOnly {
			return nil, errValidated
		}
		s.tellIdle(changed, wanted)
		return wanted, nil
	})
}

// changeable says, in Kafka's words, which of the broker configs cannot be changed while it runs, or not for all brokers at once.
func changeable(names []string, everyBroker bool) error {
	for _, name := range names {
		key, ok := config.Broker.Key(name)
		switch listener := config.ListenerOf(name); {
		case !ok:
		case key.Fixed:
			return kafka.Errorf(kafka.InvalidRequest,
				"Cannot update these configs dynamically: %s. Set it in the configuration file and start the broker again.", name)
		case listener == "" && config.OnlyPerListener(name):
			return kafka.Errorf(kafka.InvalidRequest, "These security configs can be dynamically updated only per-listener "+
				"using the listener prefix: %s. Set listener.name.NAME.%s.", name, name)
		case everyBroker && config.OnlyPerListener(key.Name):
			return kafka.Errorf(kafka.InvalidRequest,
				"Cannot update these configs at default cluster level, broker id must be specified: %s.", name)
		}
	}
	return nil
}

// tellIdle says in the log which configs were taken that change nothing.
func (s *Server) tellIdle(changed []string, wanted map[string]string) {
	for _, name := range changed {
		if key, _ := config.Broker.Key(name); key.Idle && wanted[name] != "" {
			s.Logger.Warn("a config was set that has no effect here", "config", name, "why", key.Doc)
		}
	}
}

// differing is the names whose values differ, in order.
func differing(old, wanted map[string]string) []string {
	changed := map[string]string{}
	for name, value := range wanted {
		if before, ok := old[name]; !ok || before != value {
			changed[name] = value
		}
	}
	for name, value := range old {
		if _, ok := wanted[name]; !ok {
			changed[name] = value
		}
	}
	return sortedNames(changed)
}
