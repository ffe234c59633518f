package source

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/youmark/pkcs8"
)

// pemFileMax is the largest PEM file read, in bytes.
const pemFileMax = 4 << 20

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

// mechanism is how to log in, nil for not at all.
func (s Security) mechanism() (sasl.Mechanism, error) {
	_, withSASL, err := s.protocol()
	if err != nil || !withSASL {
		return nil, err
	}
	login, err := config.ParseJAAS(s.JAAS)
	if err != nil {
		return nil, &Error{Class: Auth, Err: fmt.Errorf("read sasl.jaas.config: %w", err),
			Hint: `Write it as Java clients do: org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";`}
	}
	user, pass := login.Options["username"], login.Options["password"]
	if user == "" {
		return nil, &Error{Class: Auth, Err: errors.New("sasl.jaas.config names no username"), Hint: hints[Auth]}
	}
	wanted, name := "ScramLoginModule", strings.ToUpper(s.Mechanism)
	if name == "PLAIN" {
		wanted = "PlainLoginModule"
	}
	if !strings.HasSuffix(login.Module, wanted) {
		return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.mechanism %s needs %s, but sasl.jaas.config names %s", name, wanted, login.Module), Hint: hints[Auth]}
	}
	token := scram.Auth{User: user, Pass: pass, IsToken: strings.EqualFold(login.Options["tokenauth"], "true")}
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: pass}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return token.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return token.AsSha512Mechanism(), nil
	}
	return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.mechanism %q is not supported", s.Mechanism), Hint: "Use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."}
}

// tlsConfig is nil where the protocol has no TLS.
func (s Security) tlsConfig() (*tls.Config, error) {
	withTLS, _, err := s.protocol()
	if err != nil || !withTLS {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		if cfg.RootCAs, err = readRoots(s.CA); err != nil {
			return nil, &Error{Class: TLS, Err: fmt.Errorf("read ssl.truststore: %w", err), Hint: "Give the CA's certificates as PEM."}
		}
	}
	if s.Key != "" || s.Cert != "" {
		pair, err := readPair(s.Cert, s.Key, s.KeyPassword)
		if err != nil {
			return nil, &Error{Class: TLS, Err: fmt.Errorf("read ssl.keystore: %w", err), Hint: "Give ssl.keystore.certificate.chain and ssl.keystore.key as PEM, and ssl.key.password if the key is encrypted."}
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if s.NoHostCheck {
		skipHostName(cfg)
	}
	return cfg, nil
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

func readRoots(text string) (*x509.CertPool, error) {
	blocks, err := readPEM(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	found := 0
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", found+1, err)
		}
		pool.AddCert(cert)
		found++
	}
	if found == 0 {
		return nil, errors.New("no certificate in it")
	}
	return pool, nil
}

// readPair reads a client's certificate chain and key; both may stand in one PEM, as in a key store file.
func readPair(certText, keyText, password string) (tls.Certificate, error) {
	var pair tls.Certificate
	if certText == "" {
		certText = keyText
	}
	if keyText == "" {
		keyText = certText
	}
	certs, err := readPEM(certText)
	if err != nil {
		return pair, err
	}
	for _, block := range certs {
		if block.Type == "CERTIFICATE" {
			pair.Certificate = append(pair.Certificate, block.Bytes)
		}
	}
	if len(pair.Certificate) == 0 {
		return pair, errors.New("no certificate in it")
	}
	keys, err := readPEM(keyText)
	if err != nil {
		return pair, err
	}
	for _, block := range keys {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			pair.PrivateKey, err = readKey(block, password)
			return pair, err
		}
	}
	return pair, errors.New("no private key in it")
}

func readKey(block *pem.Block, password string) (crypto.PrivateKey, error) {
	switch block.Type {
	case "ENCRYPTED PRIVATE KEY":
		if password == "" {
			return nil, errors.New("the private key is encrypted, ssl.key.password is not set")
		}
		key, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
		if err != nil {
			return nil, fmt.Errorf("decrypt the private key: %w", err)
		}
		return key, nil
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	return nil, fmt.Errorf("private keys of type %q are not supported", block.Type)
}

// readPEM reads PEM text, or the file a text without PEM in it names. Like Java's reader it takes
// any white space between the base64 lines, also the two characters \n that configs on one line carry.
func readPEM(text string) ([]*pem.Block, error) {
	if !strings.Contains(text, "-----BEGIN") {
		path := strings.TrimSpace(text)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("it is neither PEM text nor a file: %w", err)
		}
		if info.Size() > pemFileMax {
			return nil, fmt.Errorf("%s is %d bytes long, more than %d", path, info.Size(), pemFileMax)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text = string(file)
	}
	text = strings.ReplaceAll(text, `\n`, "\n")
	var blocks []*pem.Block
	for {
		_, rest, ok := strings.Cut(text, "-----BEGIN ")
		if !ok {
			return blocks, nil
		}
		kind, rest, ok := strings.Cut(rest, "-----")
		if !ok {
			return nil, errors.New("a BEGIN line does not end")
		}
		body, rest, ok := strings.Cut(rest, "-----END "+kind+"-----")
		if !ok {
			return nil, fmt.Errorf("no END line for %q", kind)
		}
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
		if err != nil {
			return nil, fmt.Errorf("decode %q: %w", kind, err)
		}
		blocks = append(blocks, &pem.Block{Type: kind, Bytes: raw})
		text = rest
	}
}
