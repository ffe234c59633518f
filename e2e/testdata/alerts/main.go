// Command alerts reads alert rules by Prometheus' own parser, and evaluates each by its own engine over series that
// must make it fire and over series that must not.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	step  = 15 * time.Second // between two scrapes, and two evaluations
	steps = 120              // half an hour
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: alerts FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(file string) error {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}))
	if len(errs) > 0 {
		return fmt.Errorf("parse %s: %v", file, errs)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})
	n := 0
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			c, is := cases[rule.Alert]
			if !is {
				return fmt.Errorf("%s: there are no series for it", rule.Alert)
			}
			n++
			for want, sets := range map[bool][]series{true: c.fires, false: c.silent} {
				fired, err := fires(engine, rule, sets)
				if err != nil {
					return fmt.Errorf("%s: %w", rule.Alert, err)
				}
				if fired != want {
					return fmt.Errorf("%s: fired is %v, want %v, over %v", rule.Alert, fired, want, sets)
				}
			}
			fmt.Printf("%s fires, and is silent\n", rule.Alert)
		}
	}
	if n != len(cases) {
		return fmt.Errorf("%d rules for %d cases", n, len(cases))
	}
	fmt.Printf("%d alerts hold\n", n)
	return nil
}

// fires evaluates a rule at every step: one element must be there without a gap for as long as the rule says.
func fires(engine *promql.Engine, rule rulefmt.Rule, sets []series) (bool, error) {
	start := time.Unix(1_000_000, 0)
	ctx := context.Background()
	query, err := engine.NewRangeQuery(ctx, held{sets, start}, nil, rule.Expr, start, start.Add((steps-1)*step), step)
	if err != nil {
		return false, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return false, result.Err
	}
	matrix, err := result.Matrix()
	if err != nil {
		return false, err
	}
	needed := int(time.Duration(rule.For)/step) + 1
	for _, element := range matrix {
		var row []int64
		for _, point := range element.Floats {
			if len(row) > 0 && point.T-row[len(row)-1] != step.Milliseconds() {
				row = row[:0]
			}
			if row = append(row, point.T); len(row) >= needed {
				return true, nil
			}
		}
	}
	return false, nil
}

// series is one time series with its values, a step apart; the last one stays.
type series struct {
	name   string
	labels []string // name, value, name, value
	values []float64
}

func (s series) set() labels.Labels {
	return labels.FromStrings(append([]string{"__name__", s.name, "instance", "a:8090", "job", "hawser"}, s.labels...)...)
}

func (s series) at(i int) float64 { return s.values[min(i, len(s.values)-1)] }

// rising counts up by so much at each step.
func rising(by float64) []float64 {
	var values []float64
	for i := range steps {
		values = append(values, float64(i)*by)
	}
	return values
}

func always(v float64) []float64 { return []float64{v} }

// brief is v for a few steps and 0 before and after.
func brief(v float64) []float64 {
	return append(slices.Repeat([]float64{0}, 10), v, v, 0)
}

type row struct{ fires, silent []series }

func one(name string, values []float64, labels ...string) []series {
	return []series{{name, labels, values}}
}

var link = []string{"link", "from-prod"}

func on(more ...string) []string { return append(slices.Clone(link), more...) }

// buckets is a histogram of syncs of which all take longer than 0.25 s and a share longer than that.
func buckets(slow float64) []series {
	le := func(bound string, by float64) series {
		return series{"hawser_log_sync_seconds_bucket", []string{"le", bound}, rising(by)}
	}
	return []series{le("0.25", 100-slow), le("1", 100), le("+Inf", 100)}
}

var cases = map[string]row{
	"HawserLinkNotActive": {one("hawser_link_state", always(1), on("state", "FAILED", "error", "AUTHENTICATION_ERROR")...), one("hawser_link_state", brief(1), on("state", "UNAVAILABLE", "error", "")...)},
	"HawserLinkTaskInError": {one("hawser_link_task_state", always(1), on("task", "AclSync", "state", "IN_ERROR")...),
		one("hawser_link_task_state", always(1), on("task", "AclSync", "state", "NOT_CONFIGURED")...)},
	"HawserMirrorFailed":          {one("hawser_mirror_state", brief(1), on("topic", "orders", "state", "FAILED", "error", "x")...), one("hawser_mirror_state", always(1), on("topic", "orders", "state", "STOPPED")...)},
	"HawserMirrorRPOTooHigh":      {one("hawser_mirror_rpo_seconds", rising(15), on("topic", "orders", "partition", "0")...), one("hawser_mirror_rpo_seconds", brief(90), on("topic", "orders", "partition", "0")...)},
	"HawserMirrorLagging":         {one("hawser_mirror_lag_seconds", always(31), on("topic", "orders", "partition", "0")...), one("hawser_mirror_lag_seconds", always(29), on("topic", "orders", "partition", "0")...)},
	"HawserMirrorLostRecords":     {one("hawser_mirror_lost_records_total", rising(1), on("topic", "orders", "partition", "0")...), one("hawser_mirror_lost_records_total", always(7), on("topic", "orders", "partition", "0")...)},
	"HawserMirrorTransitionStuck": {one("hawser_mirror_transition_error", always(1), on("topic", "orders", "code", "x")...), one("hawser_mirror_transition_error", brief(1), on("topic", "orders", "code", "x")...)},
	"HawserPartitionOutOfService": {one("hawser_partitions", brief(1), "state", "out of service"), one("hawser_partitions", always(9), "state", "open")},
	"HawserSlowDisk":              {buckets(50), buckets(0)},
	"HawserRestarting":            {one("process_start_time_seconds", []float64{1, 2, 3, 4}), one("process_start_time_seconds", []float64{1, 2})},
}
