package rest

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/hawserio/hawser/rest/api"
)

func listClusters(c *call) error {
	return list(c, api.KindClusterList, c.root(), []api.Cluster{c.clusterJSON()})
}

func getCluster(c *call) error { return c.json(http.StatusOK, c.clusterJSON()) }

// root is the address of the list of clusters.
func (c *call) root() string {
	self := c.self()
	return self[:len(self)-len("/"+escape(c.Cluster.ID()))]
}

func (c *call) clusterJSON() api.Cluster {
	out := api.Cluster{
		Kind:                   api.KindCluster,
		Metadata:               c.metadata(c.self(), ""),
		ClusterID:              c.Cluster.ID(),
		ACLs:                   api.Related{Related: c.self("acls")},
		Brokers:                api.Related{Related: c.self("brokers")},
		BrokerConfigs:          api.Related{Related: c.self("broker-configs")},
		ConsumerGroups:         api.Related{Related: c.self("consumer-groups")},
		Topics:                 api.Related{Related: c.self("topics")},
		PartitionReassignments: api.Related{Related: c.self("topics", "-", "partitions", "-", "reassignment")},
	}
	if id := c.Cluster.Controller(); id >= 0 {
		out.Controller = &api.Related{Related: c.self("brokers", itoa(id))}
	}
	return out
}

// metadata names a resource as Kafka REST does: crn:///kafka=<cluster>/<rest>.
func (c *call) metadata(self, rest string) api.Metadata {
	name := "crn:///kafka=" + c.Cluster.ID() + rest
	return api.Metadata{Self: self, ResourceName: &name}
}

func itoa(n int32) string { return strconv.FormatInt(int64(n), 10) }

// pathInt reads a number in the path; none of that name is answered as not found.
func (c *call) pathInt(key, what string) (int32, error) {
	text := c.r.PathValue(key)
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, badRequest("A %s is a whole number from 0 to %d, not '%s'.", what, math.MaxInt32, text)
	}
	return int32(n), nil
}

func noBroker(id int32) error {
	return notFound("Broker %d cannot be found. GET …/brokers lists those there are.", id)
}

func listBrokers(c *call) error {
	brokers := slices.SortedFunc(slices.Values(c.Cluster.Brokers()), func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	var out []api.Broker
	for _, b := range brokers {
		out = append(out, c.brokerJSON(b))
	}
	return list(c, api.KindBrokerList, c.self("brokers"), out)
}

func getBroker(c *call) error {
	id, err := c.pathInt("broker_id", "broker id")
	if err != nil {
		return err
	}
	for _, b := range c.Cluster.Brokers() {
		if b.ID == id {
			return c.json(http.StatusOK, c.brokerJSON(b))
		}
	}
	return noBroker(id)
}

func (c *call) brokerJSON(b Broker) api.Broker {
	at := []string{"brokers", itoa(b.ID)}
	out := api.Broker{
		Kind:              api.KindBroker,
		Metadata:          c.metadata(c.self(at...), "/broker="+itoa(b.ID)),
		ClusterID:         c.Cluster.ID(),
		BrokerID:          b.ID,
		Host:              &b.Host,
		Port:              &b.Port,
		Configs:           api.Related{Related: c.self(append(at, "configs")...)},
		PartitionReplicas: api.Related{Related: c.self(append(at, "partition-replicas")...)},
	}
	if b.Rack != "" {
		out.Rack = &b.Rack
	}
	return out
}
