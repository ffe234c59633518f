package handler

import (
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/event"
)

// Stats is what went through the door since it was made.
type Stats struct {
	Connections int   // open now
	BytesIn     int64 // of requests, size fields not counted
	BytesOut    int64 // of answers
	APIs        []APIStats
	// Produce is from a request's coming in to its answer, the wait for the sync included; Fetch the same, the wait
	// for records included.
	Produce, Fetch event.Times
}

// APIStats is one API's share.
type APIStats struct {
	Name     string
	Requests int64
	// Busy is the time that handlers took, waits of Fetch, JoinGroup and their kind
	// included; the wait of Produce for the sync is not in it.
	Busy time.Duration
	// Throttled is for how long clients were told to rest.
	Throttled time.Duration
}

// counters are written by connections and read by Stats.
type counters struct {
	in, out atomic.Int64
	apis    map[int16]*apiCounters

	produce, fetch event.Histogram
}

type apiCounters struct {
	requests, nanos, throttled atomic.Int64
}

func newCounters(t table) *counters {
	c := &counters{apis: map[int16]*apiCounters{}}
	for key := range t {
		c.apis[key] = &apiCounters{}
	}
	return c
}

// Stats reads the counters; APIs are in order of their keys.
func (s *Server) Stats() Stats {
	stats := Stats{Connections: s.Connections(), BytesIn: s.counters.in.Load(), BytesOut: s.counters.out.Load(),
		Produce: s.counters.produce.Read(), Fetch: s.counters.fetch.Read()}
	for _, key := range s.table.keys() {
		c := s.counters.apis[key]
		stats.APIs = append(stats.APIs, APIStats{Name: s.table[key].name, Requests: c.requests.Load(), Busy: time.Duration(c.nanos.Load()),
			Throttled: time.Duration(c.throttled.Load())})
	}
	return stats
}
