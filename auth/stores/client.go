package stores

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Client is the TLS of a client of Kafka, as its ssl.* configs say.
type Client struct {
	KeyStore, TrustStore Store    // none: no certificate is shown; the machine's authorities
	Versions             []string // ssl.enabled.protocols; none: all that are secure
	Ciphers              []string // ssl.cipher.suites; none: all that are secure
	NoHostCheck          bool     // ssl.endpoint.identification.algorithm is empty
}

// ClientError is a config that cannot be used.
type ClientError struct {
	Err  error
	Hint string // what to do, a sentence
}

// Error is the sentence with its hint.
func (e *ClientError) Error() string { return e.Err.Error() + ". " + e.Hint }

// Unwrap gives the cause.
func (e *ClientError) Unwrap() error { return e.Err }

// ClientTLS makes the TLS of connections. Stores in files are read again when they change.
type ClientTLS struct {
	base  *tls.Config
	roots *Live[*x509.CertPool]   // nil: the system's
	pair  *Live[*tls.Certificate] // nil: none
	// anyHost checks the chain but not the name.
	anyHost bool
}

// TLS reads what the configs name. An error is a *ClientError.
func (c Client) TLS() (*ClientTLS, error) {
	made := &ClientTLS{base: &tls.Config{MinVersion: tls.VersionTLS12}, anyHost: c.NoHostCheck}
	var err error
	if made.base.MinVersion, made.base.MaxVersion, err = versions(c.Versions); err != nil {
		return nil, err
	}
	if made.base.CipherSuites, err = cipherSuites(c.Ciphers); err != nil {
		return nil, err
	}
	if c.TrustStore.Given() {
		if made.roots, err = c.TrustStore.LiveRoots(); err != nil {
			return nil, &ClientError{fmt.Errorf("read ssl.truststore: %w", err),
				"Give the authorities' certificates as PEM text, or a PEM, JKS or PKCS12 file and its password."}
		}
	}
	if c.KeyStore.Given() {
		if made.pair, err = c.KeyStore.LiveKeyPair(); err != nil {
			return nil, &ClientError{fmt.Errorf("read ssl.keystore: %w", err),
				"Give key and certificates as PEM text, or a PEM, JKS or PKCS12 file and its password; ssl.key.password if the key has another."}
		}
	}
	return made, nil
}

// Config is for one connection. With an empty host the dialer has to set the server's name.
func (m *ClientTLS) Config(host string) (*tls.Config, error) {
	cfg := m.base.Clone()
	cfg.ServerName = host
	now := time.Now()
	if m.roots != nil {
		roots, err := m.roots.Current(now)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if m.pair != nil {
		pair, err := m.pair.Current(now)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{*pair}
	}
	if m.anyHost {
		skipHostName(cfg)
	}
	return cfg, nil
}

var tlsVersions = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

// versions reads ssl.enabled.protocols; none is all.
func versions(names []string) (lowest, highest uint16, err error) {
	for _, name := range names {
		version, known := tlsVersions[name]
		if !known {
			return 0, 0, &ClientError{fmt.Errorf("ssl.enabled.protocols: %q is not spoken", name), "Use TLSv1.2, TLSv1.3."}
		}
		if lowest == 0 || version < lowest {
			lowest = version
		}
		highest = max(highest, version)
	}
	if lowest == 0 {
		lowest = tls.VersionTLS12
	}
	return lowest, highest, nil
}

// cipherSuites finds TLS 1.2 suites by their names; those that are broken are not to be had.
func cipherSuites(names []string) ([]uint16, error) {
	var suites []uint16
	for _, name := range names {
		known := tls.CipherSuites()
		i := slices.IndexFunc(known, func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return nil, &ClientError{fmt.Errorf("ssl.cipher.suites: %q is not offered", name),
				"Leave it unset, or name suites as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."}
		}
		suites = append(suites, known[i].ID)
	}
	return suites, nil
}

// skipHostName checks the chain but not the name, as an empty ssl.endpoint.identification.algorithm asks for.
func skipHostName(cfg *tls.Config) {
	roots := cfg.RootCAs
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("tls: the broker showed no certificate")
		}
		opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(opts)
		return err
	}
}
