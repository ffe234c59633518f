package auth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/youmark/pkcs8"
)

// pemMax is the largest PEM file read, in bytes.
const pemMax = 4 << 20

// TLSConfig is a listener's ssl.* configs. Chain, Key and CA are PEM text; where a
// Location is given the text is read from that file, and again when the file changes.
type TLSConfig struct {
	Chain, Key, KeyPassword string
	Location                string // a PEM file with key and certificates
	CA, CALocation          string
	ClientAuth              string // none, requested, required
	Protocols               []string
}

// NewTLS makes a listener's TLS. Certificates that come from files are read again
// when the file's time changes, so that a renewed one needs no restart.
func NewTLS(c TLSConfig) (*tls.Config, error) {
	keys := &keyStore{config: c}
	if _, err := keys.current(); err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return keys.current() },
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
	if c.CA == "" && c.CALocation == "" {
		return nil, errors.New("ssl.client.auth needs ssl.truststore.certificates or ssl.truststore.location")
	}
	var err error
	cfg.ClientCAs, err = Roots(c.CA, c.CALocation)
	return cfg, err
}

// Roots reads the authorities to trust, as PEM text, or from the file at location where text is empty.
func Roots(text, location string) (*x509.CertPool, error) {
	text, err := textOr(text, location)
	if err != nil {
		return nil, fmt.Errorf("read ssl.truststore: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, errors.New("read ssl.truststore: there is no PEM certificate in it")
	}
	return pool, nil
}

func textOr(text, location string) (string, error) {
	if text != "" || location == "" {
		return text, nil
	}
	info, err := os.Stat(location)
	if err != nil {
		return "", err
	}
	if info.Size() > pemMax {
		return "", fmt.Errorf("%s has %d bytes, more than a PEM file of %d", location, info.Size(), pemMax)
	}
	raw, err := os.ReadFile(location)
	return string(raw), err
}

// keyStore is the certificate in use.
type keyStore struct {
	config TLSConfig

	mu    sync.Mutex // guards what follows
	cert  *tls.Certificate
	stamp time.Time // of the file that cert was read from
	next  time.Time // before which the file is not looked at again
}

// keyLookEvery bounds how often a handshake looks whether the file has changed.
const keyLookEvery = 5 * time.Second

func (k *keyStore) current() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.cert != nil && (k.config.Location == "" || now.Before(k.next)) {
		return k.cert, nil
	}
	k.next = now.Add(keyLookEvery)
	var stamp time.Time
	if k.config.Location != "" {
		info, err := os.Stat(k.config.Location)
		if err != nil {
			return k.kept(fmt.Errorf("read ssl.keystore.location: %w", err))
		}
		if stamp = info.ModTime(); k.cert != nil && stamp.Equal(k.stamp) {
			return k.cert, nil
		}
	}
	cert, err := k.load()
	if err != nil {
		return k.kept(err)
	}
	k.cert, k.stamp = cert, stamp
	return cert, nil
}

// kept goes on with the certificate there is: a file that is being replaced must
// not turn clients away.
func (k *keyStore) kept(err error) (*tls.Certificate, error) {
	if k.cert != nil {
		return k.cert, nil
	}
	return nil, err
}

func (k *keyStore) load() (*tls.Certificate, error) {
	chain, err := textOr(k.config.Chain, k.config.Location)
	if err != nil {
		return nil, fmt.Errorf("read ssl.keystore.location: %w", err)
	}
	key := k.config.Key
	if key == "" {
		key = chain
	}
	if chain == "" {
		return nil, errors.New("a TLS listener needs ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key, as PEM")
	}
	if key, err = decrypted(key, k.config.KeyPassword); err != nil {
		return nil, fmt.Errorf("read ssl.keystore.key: %w", err)
	}
	cert, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("read ssl.keystore: %w", err)
	}
	return &cert, nil
}

// decrypted opens an encrypted PKCS#8 key, as Java tools write it.
func decrypted(text, password string) (string, error) {
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text, nil
		}
		if block.Type != "ENCRYPTED PRIVATE KEY" {
			continue
		}
		if password == "" {
			return "", errors.New("the key is encrypted; set ssl.key.password")
		}
		key, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
		if err != nil {
			return "", fmt.Errorf("decrypt with ssl.key.password: %w", err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return "", err
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
	}
}

// PrincipalOf names the holder of a client certificate: User: and the subject as
// Java prints it (RFC 2253), which is Kafka's DEFAULT mapping.
func PrincipalOf(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	return "User:" + strings.ReplaceAll(state.VerifiedChains[0][0].Subject.String(), "+", ",")
}
