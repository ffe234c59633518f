package broker

import (
	"math"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/link"
	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of links and mirrors.
var (
	metricLinks     = desc("hawser_link_state", "1 for the state that a link is in.", "link", "state", "error")
	metricTasks     = desc("hawser_link_task_state", "1 for the state that a link's task is in.", "link", "task", "state")
	metricTaskError = desc("hawser_link_task_error", "1 for each reason that a link's task gives for its state.", "link", "task", "code")
	metricFetches   = desc("hawser_link_fetch_seconds", "Fetches from the source that brought records, from the request to the "+
		"whole answer.", "link")
	metricLent = desc("hawser_link_lent_connections", "Connections of a link with two halves that one of them opened for the "+
		"other one to ask over: waiting to be needed, and in_use.", "link", "use")
	metricMirrors  = desc("hawser_mirror_state", "1 for the status that a mirror topic is in.", "link", "topic", "state", "error")
	metricObstacle = desc("hawser_mirror_transition_error",
		"1 for each reason that keeps a mirror topic from the state it was ordered into.", "link", "topic", "code")
	metricLag = desc("hawser_mirror_lag_records", "Records that the source had when it was last heard and the mirror has not "+
		"synced yet.", "link", "topic", "partition")
	metricLagTime = desc("hawser_mirror_lag_seconds", "How long ago the oldest record that the mirror has not synced yet was "+
		"first seen at the source; 0 where nothing is missing.", "link", "topic", "partition")
	metricRPO = desc("hawser_mirror_rpo_seconds", "Now minus the last moment at which all that the source had then is synced "+
		"here: what a failover now could lose. It grows while the source is silent, also over restarts; +Inf until the mirror was "+
		"level once.", "link", "topic", "partition")
	metricFetched = desc("hawser_mirror_fetched_bytes_total",
		"Bytes of record batches taken over from the source since the partition's fetching began.", "link", "topic", "partition")
	metricSourceEnd = desc("hawser_mirror_source_end_offset", "The source's high watermark when it was last heard, exclusive.",
		"link", "topic", "partition")
	metricRecopy = desc("hawser_mirror_recopy_partitions",
		"Partitions of a mirror that are still to be copied from its source again, as deletions may be missing.", "link", "topic")
	metricLost = desc("hawser_mirror_lost_records_total", "Records that the source removed before they were mirrored.",
		"link", "topic", "partition")
)

// linkCollector turns what the links know into metrics at the moment of a scrape.
type linkCollector struct{ links *link.Links }

// Describe implements prometheus.Collector.
func (c linkCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{metricLinks, metricTasks, metricTaskError, metricFetches, metricLent, metricMirrors,
		metricObstacle, metricLag, metricLagTime, metricRPO, metricFetched, metricSourceEnd, metricRecopy, metricLost} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c linkCollector) Collect(out chan<- prometheus.Metric) {
	gauge := emitter(out, prometheus.GaugeValue)
	for _, info := range c.links.List() {
		gauge(metricLinks, 1, info.Name, info.State, info.Err)
		out <- histogram(metricFetches, info.Fetches, info.Name)
		gauge(metricLent, float64(info.Waiting), info.Name, "waiting")
		gauge(metricLent, float64(info.Lent), info.Name, "in_use")
		for _, task := range info.Tasks {
			gauge(metricTasks, 1, info.Name, task.Name, task.State)
			for _, code := range codes(task.Errors) {
				gauge(metricTaskError, 1, info.Name, task.Name, code)
			}
		}
	}
	mirrors, err := c.links.Mirrors("", "")
	if err != nil {
		return // only a status that cannot be parsed is an error
	}
	now := time.Now()
	for _, m := range mirrors {
		gauge(metricMirrors, 1, m.Link, m.Topic, m.Status, m.Err)
		for _, code := range codes(m.TransitionErrors) {
			gauge(metricObstacle, 1, m.Link, m.Topic, code)
		}
		if m.Status == "STOPPED" {
			continue // a topic like any other: it has no lag
		}
		again := 0
		for _, lag := range m.Lags {
			if lag.Recopy != nil && lag.Recopy.State != link.RecopyDone {
				again++
			}
			collectLag(gauge, emitter(out, prometheus.CounterValue), m, lag, now)
		}
		gauge(metricRecopy, float64(again), m.Link, m.Topic)
	}
}

func collectLag(gauge, counter emit, m link.MirrorInfo, lag link.Lag, now time.Time) {
	labels := []string{m.Link, m.Topic, itoa(lag.Partition)}
	if lag.Records != link.LagUnknown {
		gauge(metricLag, float64(lag.Records), labels...)
	}
	behind := 0.0
	if !lag.Behind.IsZero() {
		behind = max(now.Sub(lag.Behind).Seconds(), 0)
	}
	gauge(metricLagTime, behind, labels...)
	rpo := math.Inf(1)
	if !lag.CaughtUp.IsZero() {
		rpo = max(now.Sub(lag.CaughtUp).Seconds(), 0)
	}
	gauge(metricRPO, rpo, labels...)
	if lag.SourceEnd >= 0 {
		gauge(metricSourceEnd, float64(lag.SourceEnd), labels...)
	}
	counter(metricFetched, float64(lag.FetchedBytes), labels...)
	counter(metricLost, float64(lag.Lost), labels...)
}

// codes is the codes of reasons, each once: one series stands for all of a kind.
func codes(list []link.Coded) []string {
	var out []string
	seen := map[string]bool{}
	for _, reason := range list {
		if !seen[reason.Code] {
			seen[reason.Code] = true
			out = append(out, reason.Code)
		}
	}
	return out
}

func emitter(out chan<- prometheus.Metric, kind prometheus.ValueType) emit {
	return func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
}

func histogram(d *prometheus.Desc, t event.Times, labels ...string) prometheus.Metric {
	if t.Buckets == nil {
		t = (&event.Histogram{}).Read()
	}
	return prometheus.MustNewConstHistogram(d, t.Count, t.Sum.Seconds(), t.Buckets, labels...)
}
