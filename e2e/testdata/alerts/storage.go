package main

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// held is series in memory, as the engine asks for them.
type held struct {
	sets  []series
	start time.Time
}

func (h held) Querier(_, _ int64) (storage.Querier, error) { return h, nil }

func (h held) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (h held) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (h held) Close() error { return nil }

func (h held) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &listed{at: -1}
	for _, s := range h.sets {
		set := s.set()
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(set.Get(m.Name)) }) {
			continue
		}
		var samples []chunks.Sample
		for i := range steps {
			samples = append(samples, point{h.start.Add(time.Duration(i) * step).UnixMilli(), s.at(i)})
		}
		found.list = append(found.list, storage.NewListSeries(set, samples))
	}
	slices.SortFunc(found.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

// listed is series one after the other.
type listed struct {
	list []storage.Series
	at   int
}

func (l *listed) Next() bool                        { l.at++; return l.at < len(l.list) }
func (l *listed) At() storage.Series                { return l.list[l.at] }
func (l *listed) Err() error                        { return nil }
func (l *listed) Warnings() annotations.Annotations { return nil }

// point is one sample.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }
