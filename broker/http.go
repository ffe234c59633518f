package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hawserio/hawser/console"
	"github.com/hawserio/hawser/rest"
)

// httpDoor is the one HTTP port: REST, console, metrics, health.
type httpDoor struct {
	listener net.Listener
	server   *http.Server
}

var errStarting = errors.New("the broker is starting or stopping")

func (b *Broker) openHTTP(context.Context) error {
	if b.cfg.HTTP == "" {
		return nil
	}
	listener, err := net.Listen("tcp", b.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("open the HTTP port: %w", err)
	}
	door := rest.Handler(rest.Deps{
		Cluster: &restCluster{b},
		Links:   b.links,
		Topics:  &restTopics{b},
		Groups:  &restGroups{b},
		ACLs:    b.restACLs(),
		Access:  b.restAccess(),
		Metrics: b.metricsHandler(),
		Console: console.Handler(),
		Ready: func() error {
			if !b.Ready() {
				return errStarting
			}
			return nil
		},
		Logger: b.log,
	})
	b.http = &httpDoor{listener: listener, server: &http.Server{
		Handler: door, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}}
	go func() {
		if err := b.http.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			b.failed <- fmt.Errorf("serve HTTP: %w", err)
		}
	}()
	b.onClose(func() error {
		stop, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		if err := b.http.server.Shutdown(stop); err != nil {
			return b.http.server.Close()
		}
		return nil
	})
	return nil
}

// restCluster implements rest.Cluster.
type restCluster struct{ b *Broker }

func (c *restCluster) ID() string        { return c.b.ClusterID() }
func (c *restCluster) Controller() int32 { return c.b.cfg.NodeID }

func (c *restCluster) Brokers() []rest.Broker {
	host, port := portOf(c.b.kafka.Advertised(c.b.first))
	return []rest.Broker{{ID: c.b.cfg.NodeID, Host: host, Port: port}}
}
