package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// cleanerMetric is a metric of the cleaner and where its value is.
type cleanerMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*cleaner) float64
}

var cleanerMetrics = []cleanerMetric{
	{desc("hawser_retention_removed_bytes_total", "Bytes that retention removed by time or size."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.removedBytes.Load()) }},
	{desc("hawser_retention_removed_segments_total", "Segments that retention removed by time or size."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.removedSegments.Load()) }},
	{desc("hawser_cleaner_runs_total", "Compactions of a log, finished or not."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.runs.Load()) }},
	{desc("hawser_cleaner_failures_total", "Compactions that failed; those given up for a change are not counted."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.failures.Load()) }},
	{desc("hawser_cleaner_read_bytes_total", "Bytes of segments that compaction went through."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.readBytes.Load()) }},
	{desc("hawser_cleaner_written_bytes_total", "Bytes of segments that compaction left of them."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.writtenBytes.Load()) }},
	{desc("hawser_cleaner_removed_records_total", "Records that compaction removed."), prometheus.CounterValue,
		func(c *cleaner) float64 { return float64(c.removedRecords.Load()) }},
	{desc("hawser_cleaner_last_duration_seconds", "How long the last compaction took."), prometheus.GaugeValue,
		func(c *cleaner) float64 { return time.Duration(c.lastDuration.Load()).Seconds() }},
	{desc("hawser_cleaner_resting_partitions", "Partitions that are not compacted for a while, because that failed or was given up."),
		prometheus.GaugeValue,
		func(c *cleaner) float64 { return float64(c.resting.Load()) }},
}

// Describe implements prometheus.Collector.
func (c *cleaner) Describe(out chan<- *prometheus.Desc) {
	for _, m := range cleanerMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *cleaner) Collect(out chan<- prometheus.Metric) {
	for _, m := range cleanerMetrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(c))
	}
}
