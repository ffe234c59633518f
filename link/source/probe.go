package source

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// probesAtOnce bounds how many brokers ProbeBrokers tries at the same time.
const probesAtOnce = 8

// Probe is what a source says of itself.
type Probe struct {
	ClusterID string
	Brokers   []Broker // by id
}

// Broker is an advertised address.
type Broker struct {
	ID      int32
	Address string // host:port as advertised
	Err     error  // from ProbeBrokers: why it cannot be reached
}

// Probe connects, logs in and asks for metadata: the cluster's id and every advertised broker.
func (c *Cluster) Probe(ctx context.Context) (Probe, error) {
	answer, err := c.metadata(ctx, []string{})
	if err != nil {
		return Probe{}, err
	}
	var p Probe
	if answer.ClusterID != nil {
		p.ClusterID = *answer.ClusterID
	}
	for _, broker := range answer.Brokers {
		p.Brokers = append(p.Brokers, Broker{ID: broker.NodeID, Address: net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))})
	}
	slices.SortFunc(p.Brokers, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	return p, nil
}

// ProbeBrokers tries every advertised broker, at most eight at once, and fills in Err.
// It connects and logs in anew only where no connection is open.
func (c *Cluster) ProbeBrokers(ctx context.Context, brokers []Broker) []Broker {
	tried := slices.Clone(brokers)
	slots := make(chan struct{}, probesAtOnce)
	var wg sync.WaitGroup
	for i := range tried {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			_, tried[i].Err = c.ask(ctx, tried[i].Address, req)
		})
	}
	wg.Wait()
	return tried
}
