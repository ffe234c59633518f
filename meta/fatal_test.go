package meta

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A write of the metadata that failed ended the process with etcd's words alone ("failed to save Raft hard state and entries"), which say nothing of what to do.
func TestTheEndByAFailedWriteSaysWhatToDo(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var running atomic.Bool
	running.Store(true)
	ended := errors.New("ended")
	hook := fatal{&running, log, func(*zapcore.CheckedEntry, []zapcore.Field) { panic(ended) }}
	defer func() {
		if p := recover(); p != ended {
			t.Errorf("it does not end but goes on, or panics with %v", p)
		}
		for _, words := range []string{"failed to save", "input/output error", "Put the disk right and start it again"} {
			if !strings.Contains(text.String(), words) {
				t.Errorf("%q lacks %q", text.String(), words)
			}
		}
	}()
	zap.New(&zapToSlog{log: log}, zap.WithFatalHook(hook)).Fatal("failed to save Raft hard state and entries", zap.Error(errors.New("input/output error")))
}
