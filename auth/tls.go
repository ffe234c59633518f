package auth

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/auth/stores"
)

// TLSConfig is a listener's ssl.* configs.
type TLSConfig struct {
	KeyStore, TrustStore stores.Store
	ClientAuth           string // none, requested, required
	Protocols            []string
}

// NewTLS makes a listener's TLS. Stores in files are read again when the file changes,
// so that a renewed certificate, and a new authority, need no restart.
func NewTLS(c TLSConfig) (*tls.Config, error) {
	if !c.KeyStore.Given() {
		return nil, errors.New("a TLS listener needs ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key as PEM")
	}
	pair, err := c.KeyStore.LiveKeyPair()
	if err != nil {
		return nil, fmt.Errorf("read ssl.keystore: %w", err)
	}
	cfg := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(time.Now()) },
	}
	if len(c.Protocols) == 1 && c.Protocols[0] == "TLSv1.3" {
		cfg.MinVersion = tls.VersionTLS13
	}
	if len(c.Protocols) == 1 && c.Protocols[0] == "TLSv1.2" {
		cfg.MaxVersion = tls.VersionTLS12
	}
	switch c.ClientAuth {
	case "", "none":
		return cfg, nil
	case "requested":
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	case "required":
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return nil, fmt.Errorf("ssl.client.auth is %q; it must be none, requested or required", c.ClientAuth)
	}
	if !c.TrustStore.Given() {
		return nil, errors.New("ssl.client.auth needs ssl.truststore.certificates or ssl.truststore.location")
	}
	roots, err := c.TrustStore.LiveRoots()
	if err != nil {
		return nil, fmt.Errorf("read ssl.truststore: %w", err)
	}
	base := cfg.Clone()
	if base.ClientCAs, err = roots.Current(time.Now()); err != nil {
		return nil, err
	}
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := roots.Current(time.Now())
		if err != nil {
			return nil, err
		}
		if now == base.ClientCAs {
			return base, nil // the one that tickets were made with
		}
		fresh := base.Clone()
		fresh.ClientCAs = now
		return fresh, nil
	}
	return cfg, nil
}
