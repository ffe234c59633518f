package broker

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/hawserio/hawser/console"
	"github.com/hawserio/hawser/internal/descriptors"
	"github.com/hawserio/hawser/rest"
)

// httpDoor is the one HTTP port: REST, console, metrics, health.
type httpDoor struct {
	listener net.Listener
	server   *http.Server
}

var errStarting = errors.New("the broker is starting or stopping")

// portTaken says what to do about an address that another process listens on.
func portTaken(err error, flag string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w. Another program listens there, maybe another hawser: end it, or choose another address with %s", err, flag)
	}
	return err
}

// bindHTTP takes the HTTP port before the Kafka listener opens, which tells tools where it is.
func (b *Broker) bindHTTP(context.Context) error {
	b.httpGuard = &guard{listener: httpListener, asked: true, secured: b.cfg.HTTP != "" &&
		b.values.Text("hawser.http.security.protocol") == "SSL"}
	if err := b.addGuard(b.httpGuard); err != nil {
		return fmt.Errorf("open the HTTP port: %w", err)
	}
	if b.cfg.HTTP == "" {
		return nil
	}
	listener, err := descriptors.Listen(b.cfg.HTTP)
	if err != nil {
		return portTaken(fmt.Errorf("open the HTTP port: %w", err), "--http")
	}
	b.http = &httpDoor{listener: listener}
	scheme := "http://"
	if b.httpGuard.secured {
		scheme = "https://"
		b.http = &httpDoor{listener: tls.NewListener(listener, b.httpGuard.config())}
	}
	b.onClose(func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	if b.cfg.Settings[httpAdvertised] == "" {
		b.show(httpAdvertised, scheme+b.httpHost(listener.Addr()))
	}
	return nil
}

// httpAdvertised is the key under which tools find the HTTP port.
const httpAdvertised = "hawser.http.advertised"

// httpHost is the bound address, or where that is every address of the machine, a name that others reach it by.
func (b *Broker) httpHost(bound net.Addr) string {
	host, port, err := net.SplitHostPort(bound.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return bound.String()
	}
	if name, _, err := advertised(b.cfg.Advertise); err == nil && name != "" {
		return net.JoinHostPort(name, port)
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	return net.JoinHostPort(name, port)
}

func (b *Broker) openHTTP(context.Context) error {
	if b.http == nil {
		return nil
	}
	listener := b.http.listener
	door := rest.Handler(rest.Deps{
		Cluster: &restCluster{b},
		Links:   b.links,
		Topics:  &restTopics{b},
		Groups:  &restGroups{b},
		Configs: &restConfigs{b},
		Users:   &restUsers{b},
		ACLs:    b.restACLs(),
		Access:  b.restAccess(b.listening),
		Metrics: b.metricsHandler(),
		Console: console.Handler(), Profiles: b.values.Bool("hawser.http.profiles.enable"),
		Audit: b.recordOrder, Timeline: b.timeline,
		Ready: func() error {
			if !b.Ready() {
				return errStarting
			}
			return nil
		},
		Logger: b.log,
	})
	b.http.server = &http.Server{
		Handler: door, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
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

func (c *restCluster) ReportKey() ed25519.PublicKey {
	return c.b.meta.SigningKey().Public().(ed25519.PublicKey)
}

func (c *restCluster) Brokers() []rest.Broker {
	host, port := portOf(c.b.kafka.Advertised(c.b.first))
	return []rest.Broker{{ID: c.b.cfg.NodeID, Host: host, Port: port}}
}
