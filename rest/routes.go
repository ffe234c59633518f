package rest

import (
	"net/http"

	"github.com/hawserio/hawser/link"
)

// route is one row of the API. The path is as in openapi.yaml, below the root.
type route struct {
	method string
	path   string
	needs  []right
	about  subject // whose fault a failure is, where that gives two statuses
	do     func(*call) error
}

// The paths that several routes share.
const (
	atCluster     = "/clusters/{cluster_id}"
	atLinks       = atCluster + "/links"
	atLink        = atLinks + "/{link_name}"
	atLinkConfigs = atLink + "/configs"
	atLinkConfig  = atLinkConfigs + "/{config_name}"
	atMirrors     = atLink + "/mirrors"
	atMirror      = atMirrors + "/{mirror_topic_name}"
	atTopics      = atCluster + "/topics"
	atTopic       = atTopics + "/{topic_name}"
	atConfigs     = atTopic + "/configs"
	atConfig      = atConfigs + "/{config_name}"
	atPartitions  = atTopic + "/partitions"
	atPartition   = atPartitions + "/{partition_id}"
	atBrokers     = atCluster + "/brokers"
	atBroker      = atBrokers + "/{broker_id}"
	atACLs        = atCluster + "/acls"
	atUsers       = atCluster + "/users"
	atConsumer    = atGroup + "/consumers/{consumer_id}"
	atGroups      = atCluster + "/consumer-groups"
	atGroup       = atGroups + "/{consumer_group_id}"
)

// routes is the whole API below /kafka/v3; what each needs is link-semantics' table of permissions.
var routes = []route{
	{"GET", "/clusters", open, aboutTopic, listClusters},
	{"GET", atCluster, open, aboutTopic, getCluster},
	{"GET", atCluster + "/report-key", open, aboutTopic, getReportKey},
	{"GET", atBrokers, describeCluster, aboutTopic, listBrokers},
	{"GET", atBroker, describeCluster, aboutTopic, getBroker},
	{"GET", atBroker + "/configs", readBrokers, aboutTopic, listBrokerConfigs},
	{"GET", atBroker + "/configs/{config_name}", readBrokers, aboutTopic, getBrokerConfig},
	{"PUT", atBroker + "/configs/{config_name}", writeBrokers, aboutTopic, putBrokerConfig},
	{"DELETE", atBroker + "/configs/{config_name}", writeBrokers, aboutTopic, deleteBrokerConfig},
	{"POST", atBroker + "/configs:alter", writeBrokers, aboutTopic, alterBrokerConfigs},
	{"GET", atCluster + "/broker-configs", readBrokers, aboutTopic, listBrokerConfigs},
	{"GET", atCluster + "/broker-configs/{config_name}", readBrokers, aboutTopic, getBrokerConfig},
	{"PUT", atCluster + "/broker-configs/{config_name}", writeBrokers, aboutTopic, putBrokerConfig},
	{"DELETE", atCluster + "/broker-configs/{config_name}", writeBrokers, aboutTopic, deleteBrokerConfig},
	{"POST", atCluster + "/broker-configs:alter", writeBrokers, aboutTopic, alterBrokerConfigs},

	{"GET", atUsers, describeCluster, aboutTopic, listUsers},
	{"POST", atUsers, alterCluster, aboutTopic, setUser},
	{"GET", atUsers + "/{user_name}", describeCluster, aboutTopic, getUser},
	{"DELETE", atUsers + "/{user_name}", alterCluster, aboutTopic, deleteUser},

	{"GET", atCluster + "/events", describeCluster, aboutTopic, listEvents},

	{"GET", atLinks, describeCluster, aboutLink, listLinks},
	{"POST", atLinks, alterCluster, aboutLink, createLink},
	{"GET", atLink, describeCluster, aboutLink, getLink},
	{"DELETE", atLink, alterCluster, aboutLink, deleteLink},
	{"GET", atLinkConfigs, describeCluster, aboutLink, listLinkConfigs},
	{"GET", atLinkConfig, describeCluster, aboutLink, getLinkConfig},
	{"PUT", atLinkConfig, alterCluster, aboutLink, putLinkConfig},
	{"DELETE", atLinkConfig, alterCluster, aboutLink, deleteLinkConfig},
	{"PUT", atLink + "/configs:alter", alterCluster, aboutLink, alterLinkConfigs},
	{"POST", atLink + "/configs:alter", alterCluster, aboutLink, alterLinkConfigs},

	{"GET", atMirrors, describeCluster, aboutTopic, listMirrors},
	{"POST", atMirrors, createMirrors, aboutTopic, createMirror},
	{"GET", atMirror, describeCluster, aboutMirror, getMirror},
	{"POST", atMirror + "/verification", orderMirrors, aboutMirror, startVerification},
	{"GET", atMirror + "/verification", describeCluster, aboutMirror, getVerification},
	{"POST", atMirrors + ":promote", orderMirrors, aboutTopic, order(link.Promote)},
	{"POST", atMirrors + ":failover", orderMirrors, aboutTopic, order(link.Failover)},
	{"POST", atMirrors + ":pause", orderMirrors, aboutTopic, order(link.Pause)},
	{"POST", atMirrors + ":resume", orderMirrors, aboutTopic, order(link.Resume)},
	{"POST", atMirrors + ":reverse-and-start-mirror", alterCluster, aboutTopic, order(link.ReverseAndStart)},
	{"POST", atMirrors + ":reverse-and-pause-mirror", alterCluster, aboutTopic, order(link.ReverseAndPause)},
	{"POST", atMirrors + ":truncate-and-restore", alterCluster, aboutTopic, order(link.TruncateAndRestore)},

	{"GET", atTopics, open, aboutTopic, listTopics},
	{"POST", atTopics, open, aboutTopic, createTopic},
	{"GET", atTopic, describeTopic, aboutTopic, getTopic},
	{"PATCH", atTopic, alterTopic, aboutTopic, patchTopic},
	{"DELETE", atTopic, deleteTopicRight, aboutTopic, deleteTopic},
	{"GET", atConfigs, readTopicConfig, aboutTopic, listTopicConfigs},
	{"GET", atConfig, readTopicConfig, aboutTopic, getTopicConfig},
	{"PUT", atConfig, writeTopicConfig, aboutTopic, putTopicConfig},
	{"DELETE", atConfig, writeTopicConfig, aboutTopic, deleteTopicConfig},
	{"POST", atTopic + "/configs:alter", writeTopicConfig, aboutTopic, alterTopicConfigs},
	{"PUT", atTopic + "/configs:alter", writeTopicConfig, aboutTopic, alterTopicConfigs},
	{"GET", atTopic + "/default-configs", readTopicConfig, aboutTopic, listDefaultConfigs},
	{"GET", atPartitions, describeTopic, aboutTopic, listPartitions},
	{"GET", atPartition, describeTopic, aboutTopic, getPartition},
	{"GET", atPartition + "/replicas", describeTopic, aboutTopic, listReplicas},
	{"GET", atPartition + "/replicas/{broker_id}", describeTopic, aboutTopic, getReplica},

	{"GET", atACLs, describeCluster, aboutTopic, listACLs},
	{"POST", atACLs, alterCluster, aboutTopic, createACL},
	{"POST", atACLs + ":batch", alterCluster, aboutTopic, createACLs},
	{"DELETE", atACLs, alterCluster, aboutTopic, deleteACLs},

	{"GET", atGroups, open, aboutTopic, listGroups},
	{"GET", atGroup, describeGroup, aboutTopic, getGroup},
	{"GET", atGroup + "/consumers", describeGroup, aboutTopic, listConsumers},
	{"GET", atConsumer, describeGroup, aboutTopic, getConsumer},
	{"GET", atConsumer + "/assignments", describeGroup, aboutTopic, listAssignments},
	{"GET", atConsumer + "/assignments/{topic_name}/partitions/{partition_id}", describeGroup, aboutTopic, getAssignment},
	{"GET", atGroup + "/lags", describeGroup, aboutTopic, listLags},
	{"GET", atGroup + "/lags/{topic_name}/partitions/{partition_id}", describeGroup, aboutTopic, getLag},
	{"GET", atGroup + "/lag-summary", describeGroup, aboutTopic, getLagSummary},
}

// mountBeside puts what stands beside the API on the mux: it needs no login, as
// probes and scrapers have none.
func (s *server) mountBeside() {
	s.mux.HandleFunc("/health/live", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, http.HandlerFunc(live)) })
	s.mux.HandleFunc("/health/ready", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, http.HandlerFunc(s.ready)) })
	s.mux.HandleFunc("/openapi.yaml", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, http.HandlerFunc(document)) })
	if s.Metrics != nil {
		s.mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, s.Metrics) })
	}
	if s.Profiles {
		s.mountProfiles()
	}
	if s.Console != nil {
		s.mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, s.Console) })
		s.mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) { s.reading(w, r, s.Console) })
	}
}

// reading lets only GET and HEAD through.
func (s *server) reading(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.fail(w, r, wrongMethod(r, map[string]route{http.MethodGet: {}}), aboutLink)
		return
	}
	next.ServeHTTP(w, r)
}
