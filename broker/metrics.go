package broker

import (
	"net/http"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandler serves /metrics. Values are read when asked: nothing on the
// data path counts for it.
func (b *Broker) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{b}, linkCollector{b.links}, b.cleaner)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector turns what the broker knows into metrics at the moment of a scrape.
type collector struct{ b *Broker }

var (
	metricUp         = desc("hawser_uptime_seconds", "Seconds since the broker was started.")
	metricTopics     = desc("hawser_topics", "Topics of the cluster, internal ones included.")
	metricPartitions = desc("hawser_partitions", "Partitions of this broker, by whether they work.", "state")
	metricUnsynced   = desc("hawser_unsynced_bytes", "Bytes that a crash would take now.")
	metricLogBytes   = desc("hawser_topic_log_bytes", "Bytes in a topic's logs.", "topic")
	metricLogEnd     = desc("hawser_topic_records_end", "Sum of a topic's high watermarks, in records.", "topic")
	metricConns      = desc("hawser_kafka_connections", "Open connections of Kafka clients.")
	metricRequests   = desc("hawser_kafka_requests_total", "Requests of Kafka clients.", "api")
	metricBusy       = desc("hawser_kafka_request_seconds_total", "Seconds that requests took, their waits included.", "api")
	metricThrottle   = desc("hawser_kafka_throttle_seconds_total", "Seconds that clients were told to rest under their quotas.", "api")
	metricSyncs      = desc("hawser_log_sync_seconds", "Syncs of a partition's log to the disk.")
	metricEvents     = desc("hawser_events_total", "Things that happened, as the log and the timeline name them.", "event")
	metricBuild      = desc("hawser_build_info", "1; the version is in the label.", "version")
	metricProduce    = desc("hawser_kafka_produce_seconds", "Produce requests, from coming in to the answer, the wait for the sync included.")
	metricFetch      = desc("hawser_kafka_fetch_seconds", "Fetch requests, from coming in to the answer, the wait for records included.")
	metricBytes      = desc("hawser_kafka_bytes_total", "Bytes of requests (in) and answers (out).", "direction")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricUp, metricTopics, metricPartitions, metricUnsynced, metricLogBytes, metricLogEnd,
		metricConns, metricRequests, metricBusy, metricThrottle, metricBytes, metricProduce, metricFetch, metricSyncs, metricEvents,
		metricBuild} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(metricUp, time.Since(c.b.started).Seconds())
	gauge(metricUnsynced, float64(c.b.owner.UnsyncedBytes()))
	c.collectTopics(gauge)
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	c.collectKafka(gauge, counter)
	gauge(metricBuild, 1, c.b.cfg.Version)
	stats := c.b.kafka.Stats()
	out <- histogram(metricProduce, stats.Produce)
	out <- histogram(metricFetch, stats.Fetch)
	out <- histogram(metricSyncs, c.b.owner.SyncTimes())
	for name, n := range c.b.timeline.Counts() {
		counter(metricEvents, float64(n), name)
	}
}

func (c *collector) collectKafka(gauge, counter emit) {
	stats := c.b.kafka.Stats()
	gauge(metricConns, float64(stats.Connections))
	counter(metricBytes, float64(stats.BytesIn), "in")
	counter(metricBytes, float64(stats.BytesOut), "out")
	for _, api := range stats.APIs {
		if api.Requests > 0 {
			counter(metricRequests, float64(api.Requests), api.Name)
			counter(metricBusy, api.Busy.Seconds(), api.Name)
			counter(metricThrottle, api.Throttled.Seconds(), api.Name)
		}
	}
}

type emit func(d *prometheus.Desc, value float64, labels ...string)

func (c *collector) collectTopics(gauge emit) {
	topics := c.b.topics.All()
	gauge(metricTopics, float64(len(topics)))
	working, broken := 0, 0
	for _, topic := range topics {
		var bytes, end float64
		for n := range topic.Partitions {
			p := c.b.owner.Get(kafka.PartitionID{Topic: topic.ID, Partition: n})
			if p == nil || p.Err() != nil {
				broken++
				continue
			}
			working++
			marks := p.Offsets()
			bytes += float64(marks.Size)
			end += float64(marks.HighWatermark)
		}
		gauge(metricLogBytes, bytes, topic.Name)
		gauge(metricLogEnd, end, topic.Name)
	}
	gauge(metricPartitions, float64(working), "working")
	gauge(metricPartitions, float64(broken), "out of service")
}
