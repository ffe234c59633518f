package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/hawserio/hawser/config"
)

// Run starts a broker, says on stderr in one line when it serves, and stops it
// cleanly when ctx ends.
func Run(ctx context.Context, cfg Config, stderr io.Writer) error {
	if err := config.Broker.Check(cfg.Settings); err != nil {
		return err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	b, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	http := b.HTTPAddress()
	if http == "" {
		http = "none"
	}
	fmt.Fprintf(stderr, "hawser ready kafka=%s http=%s cluster=%s node=%d version=%s\n", b.KafkaAddress(), http, b.ClusterID(), cfg.NodeID, cfg.Version)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-b.Failed():
	}
	return errors.Join(failed, b.Close(context.WithoutCancel(ctx)))
}
