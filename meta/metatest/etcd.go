package metatest

import (
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Etcd is an etcd with a loopback listener, as an external one.
type Etcd struct {
	Endpoint string // host:port
	server   *embed.Etcd
}

// EtcdConfig says how an Etcd is started.
type EtcdConfig struct {
	Dir        string // empty: one of its own
	Endpoint   string // empty: a free port
	QuotaBytes int64  // 0: etcd's default
	// CertFile, KeyFile and CAFile are PEM; with them it speaks TLS, and wants client certificates of the CA.
	CertFile, KeyFile, CAFile string
}

// StartEtcd starts one and stops it with the test.
func StartEtcd(t testing.TB, cfg EtcdConfig) *Etcd {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = "127.0.0.1:0"
	}
	c := embed.NewConfig()
	c.Dir = cfg.Dir
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: cfg.Endpoint}}
	if cfg.CertFile != "" {
		c.ListenClientUrls[0].Scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, TrustedCAFile: cfg.CAFile, ClientCertAuth: true}
	}
	c.TickMs, c.ElectionMs = 25, 250
	c.QuotaBackendBytes = cfg.QuotaBytes
	c.UnsafeNoFsync = true
	c.LogLevel = "fatal"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	e := &Etcd{server: server}
	t.Cleanup(e.Stop)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd is not ready after 30 s")
	}
	e.Endpoint = server.Clients[0].Addr().String()
	return e
}

// Stop stops it; its directory stays.
func (e *Etcd) Stop() {
	if e.server != nil {
		e.server.Close()
		e.server = nil
	}
}
