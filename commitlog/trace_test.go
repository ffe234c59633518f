package commitlog_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store/storetest"
)

var rewrite = flag.Bool("rewrite", false, "accept the traces as they are now")

// TestTraces compares what a log does to its store, in order, with testdata/trace: a sync that moves
// shows up there as a changed line.
func TestTraces(t *testing.T) {
	for name, script := range map[string]func(*tracer){
		"append_roll_sync_close": func(r *tracer) {
			r.step("append to a new log", func() { r.fill(2, 1) })
			r.step("sync", r.sync)
			r.step("append and sync again", func() { r.fill(1, 1); r.sync() })
			r.step("append past a segment's end", func() { r.fill(6, 1) })
			r.step("sync after a roll", r.sync)
			r.step("append in a new epoch", func() { r.fill(1, 2) })
			r.step("sync after a new epoch", r.sync)
			r.step("sync with nothing to do", r.sync)
			r.step("close", func() { r.ok(r.log.Close()) })
			r.step("open", func() { r.open(small) })
			r.step("close what was not changed", func() { r.ok(r.log.Close()) })
		},
		"first_record": func(r *tracer) { // ten thousand partitions may get theirs at once
			r.log.Configure(commitlog.Config{})
			r.step("append to a new log", func() { r.fill(1, 1) })
			r.step("sync", r.sync)
			r.step("close", func() { r.ok(r.log.Close()) })
		},
		"mark_later": func(r *tracer) {
			r.log.Configure(commitlog.Config{})
			bytes := func() {
				_, _, err := r.log.SyncBytes()
				r.ok(err)
			}
			r.step("append and sync a new log's bytes", func() { r.fill(1, 1); bytes() })
			r.step("and once more", func() { r.fill(1, 1); bytes() })
			r.step("mark", func() { r.ok(r.log.Mark()) })
			r.step("mark again", func() { r.ok(r.log.Mark()) })
			r.step("append and sync bytes that are not marked", func() { r.fill(1, 1); bytes() })
			r.step("sync with nothing else to do", r.sync)
			r.step("append, sync bytes and cut", func() { r.fill(1, 1); bytes(); r.ok(r.log.Truncate(3)) })
			r.step("mark what the cut has seen to", func() { r.ok(r.log.Mark()) })
			r.step("append, sync bytes and close", func() { r.fill(1, 1); bytes(); r.ok(r.log.Close()) })
			r.step("mark a closed log", func() { r.ok(r.log.Mark()) })
		},
		"truncate_into_an_older_segment": func(r *tracer) {
			r.fill(24, 1)
			r.sync()
			r.step("truncate", func() { r.ok(r.log.Truncate(30)) })
			r.step("append and sync", func() { r.fill(1, 1); r.sync() })
		},
		"move_the_start": func(r *tracer) {
			r.fill(24, 1)
			r.sync()
			r.step("inside the first segment", func() { r.ok(r.log.SetStart(4)) })
			r.step("past two segments", func() { r.ok(r.log.SetStart(50)) })
			r.step("to the end", func() { r.ok(r.log.SetStart(72)) })
			r.step("reset", func() { r.ok(r.log.Reset(500)) })
		},
		"recover_a_torn_tail": func(r *tracer) {
			r.fill(4, 1)
			r.sync()
			r.fill(2, 1)
			st := crash(r.st, true)
			r.dir, r.st = dirOf(r.T, st), st
			r.spoil(st, firstLog, func(b []byte) []byte { return b[:len(b)-9] })
			r.trace()
			r.step("open", func() { r.open(small) })
			if end := r.log.EndOffset(); end != kafka.Offset(15) {
				r.Fatalf("log ends at %d", end)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, st := inMemory(t)
			r := &tracer{fixture: f, st: st}
			r.trace()
			r.open(small)
			script(r)
			path := filepath.Join("testdata", "trace", name+".txt")
			if *rewrite {
				r.ok(os.MkdirAll(filepath.Dir(path), 0o755))
				r.ok(os.WriteFile(path, []byte(r.text.String()), 0o644))
			}
			want, err := os.ReadFile(path)
			r.ok(err)
			if got := r.text.String(); got != string(want) {
				t.Errorf("the trace has changed (run with -rewrite to accept it):\n%s", got)
			}
		})
	}
}

type tracer struct {
	*fixture
	st     *storetest.Memory
	text   strings.Builder
	inStep bool
}

func (r *tracer) trace() {
	r.st.Hook(func(op storetest.Op) error {
		if r.inStep {
			fmt.Fprintf(&r.text, "  %s\n", op)
		}
		return nil
	})
}

func (r *tracer) step(name string, do func()) {
	fmt.Fprintf(&r.text, "%s\n", name)
	r.inStep = true
	do()
	r.inStep = false
}
