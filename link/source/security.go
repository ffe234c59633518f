package source

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/auth/stores"
)

// Security is security.protocol, sasl.* and ssl.*.
type Security struct {
	Protocol             string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	Mechanism            string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM
	JAAS                 string // sasl.jaas.config as Java clients take it; parsed here
	OAuth                OAuth
	KeyStore, TrustStore stores.Store
	Versions             []string // ssl.enabled.protocols; none: all that are secure
	Ciphers              []string // ssl.cipher.suites; none: all that are secure
	NoHostCheck          bool     // ssl.endpoint.identification.algorithm is empty
}

func (s Security) protocol() (withTLS, withSASL bool, err error) {
	switch strings.ToUpper(s.Protocol) {
	case "", "PLAINTEXT":
		return false, false, nil
	case "SSL":
		return true, false, nil
	case "SASL_PLAINTEXT":
		return false, true, nil
	case "SASL_SSL":
		return true, true, nil
	}
	return false, false, &Error{Class: Other, Err: fmt.Errorf("security.protocol %q is unknown", s.Protocol),
		Hint: "Use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."}
}

// secured is the TLS of connections to the source: its files are read again when they change.
type secured struct {
	base  *tls.Config
	roots *stores.Live[*x509.CertPool]   // nil: the system's
	pair  *stores.Live[*tls.Certificate] // nil: none
	// anyHost checks the chain but not the name.
	anyHost bool
}

// secured is nil where the protocol has no TLS.
func (s Security) secured() (*secured, error) {
	withTLS, _, err := s.protocol()
	if err != nil || !withTLS {
		return nil, err
	}
	made := &secured{base: &tls.Config{MinVersion: tls.VersionTLS12}, anyHost: s.NoHostCheck}
	if made.base.MinVersion, made.base.MaxVersion, err = s.versions(); err != nil {
		return nil, err
	}
	if made.base.CipherSuites, err = cipherSuites(s.Ciphers); err != nil {
		return nil, err
	}
	if s.TrustStore.Given() {
		if made.roots, err = s.TrustStore.LiveRoots(); err != nil {
			return nil, &Error{Class: TLS, Err: fmt.Errorf("read ssl.truststore: %w", err), Hint: "Give the authorities' certificates as PEM text, or a PEM, JKS or PKCS12 file and its password."}
		}
	}
	if s.KeyStore.Given() {
		if made.pair, err = s.KeyStore.LiveKeyPair(); err != nil {
			return nil, &Error{Class: TLS, Err: fmt.Errorf("read ssl.keystore: %w", err), Hint: "Give key and certificates as PEM text, or a PEM, JKS or PKCS12 file and its password; ssl.key.password if the key has another."}
		}
	}
	return made, nil
}

// config is for one connection.
func (m *secured) config(host string) (*tls.Config, error) {
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
func (s Security) versions() (lowest, highest uint16, err error) {
	for _, name := range s.Versions {
		version, known := tlsVersions[name]
		if !known {
			return 0, 0, &Error{Class: TLS, Err: fmt.Errorf("ssl.enabled.protocols: %q is not spoken", name), Hint: "Use TLSv1.2, TLSv1.3."}
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
			return nil, &Error{Class: TLS, Err: fmt.Errorf("ssl.cipher.suites: %q is not offered", name), Hint: "Leave it unset, or name suites as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384."}
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
