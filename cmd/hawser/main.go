// Command hawser is the broker and its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/demo"
)

// version is stamped by the build; a plain go install has its module's.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, cli.Hooks{
		Serve: serve, Demo: tour, Version: programVersion(), Program: os.Args[0],
	})
	stop()
	os.Exit(code)
}

func serve(ctx context.Context, o cli.ServeOptions) error {
	return broker.Run(ctx, broker.Config{
		Dir: o.DataDir, Kafka: o.Kafka, Advertise: o.Advertise, HTTP: o.HTTP,
		ClusterID: o.ClusterID, NodeID: o.NodeID, NewIdentity: o.NewIdentity, ForgetSecrets: o.ForgetSecrets, Settings: o.Settings,
		Version: programVersion(),
	}, os.Stderr)
}

func tour(ctx context.Context, o cli.DemoOptions) error {
	return demo.Run(ctx, demo.Options{Once: o.Once, Step: o.Step, Dir: o.Dir, In: os.Stdin, Out: os.Stdout})
}

// programVersion is what the build knows of itself.
func programVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 7 {
			text += " (" + s.Value[:7] + ")"
		}
	}
	return text
}
