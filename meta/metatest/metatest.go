// Package metatest opens metadata stores for tests, and holds the contract
// test that every way of opening one passes.
package metatest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hawserio/hawser/meta"
)

// New opens an embedded store in a directory of its own, without fsync, and
// closes it with the test. It is ready in about 0.3 s.
func New(t testing.TB) *meta.Meta {
	t.Helper()
	return Open(t, meta.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
}

// Open opens a store and closes it with the test. Warnings go to the test's log.
func Open(t testing.TB, cfg meta.Config) *meta.Meta {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	m, err := meta.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("open metadata: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close metadata: %v", err)
		}
	})
	return m
}
