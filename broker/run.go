package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
)

// Run starts a broker, says on stderr in one line when it serves, and stops it
// cleanly when ctx ends.
func Run(ctx context.Context, cfg Config, stderr io.Writer) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	// A server.properties that Apache Kafka ran with is welcome: what only Kafka has
	// a use for is named and left out.
	settings := maps.Clone(cfg.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if config.KafkaOnly(name) {
			cfg.Logger.Warn("this broker has no use for a config that Apache Kafka knows; it is left out", "config", name)
			delete(settings, name)
		}
		if key, _ := config.Broker.Key(name); key.Idle {
			cfg.Logger.Warn("a config has no effect here", "config", name, "why", key.Doc)
		}
	}
	if err := config.Broker.Check(settings); err != nil {
		return err
	}
	cfg.Settings = settings
	b, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	http := b.HTTPAddress()
	if http == "" {
		http = "none"
	}
	fmt.Fprintf(stderr, "hawser ready kafka=%s http=%s cluster=%s node=%d version=%s advertised=%s\n", b.KafkaAddress(), http,
		b.ClusterID(), cfg.NodeID, cfg.Version, b.kafka.Advertised(b.first))
	var failed error
	reason := "it was asked to"
	select {
	case <-ctx.Done():
	case failed = <-b.Failed():
		reason = fmt.Sprint(failed)
	}
	b.events.Emit(event.BrokerStopping{Reason: reason})
	return errors.Join(failed, b.Close(context.WithoutCancel(ctx)))
}
