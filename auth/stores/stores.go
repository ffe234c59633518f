// Package stores reads keys and certificates as Kafka's ssl.keystore.* and
// ssl.truststore.* configs give them: PEM text, or a file that is PEM, JKS or PKCS12.
// The file says itself what it is: Java writes PKCS12 under the name of JKS, too.
package stores

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"
)

// fileMax is the largest file read, in bytes.
const fileMax = 4 << 20

// Store is a key store or a trust store.
type Store struct {
	Certificates string // PEM text: the chain of a key store, the authorities of a trust store
	Key          string // PEM text; where empty it stands among Certificates
	Location     string // a file, read where Certificates is empty
	Password     string // of the file
	KeyPassword  string // of the key in it; where empty, Password
}

// Given reports whether there is a store at all.
func (s Store) Given() bool { return s.Certificates != "" || s.Key != "" || s.Location != "" }

// KeyPair reads a key and its certificates.
func (s Store) KeyPair() (tls.Certificate, error) {
	raw, err := s.file()
	if err != nil {
		return tls.Certificate{}, err
	}
	switch formatOf(raw) {
	case jks:
		return s.pairOfJKS(raw)
	case pkcs12Format:
		return s.pairOfPKCS12(raw)
	}
	chain, key := s.Certificates, s.Key
	if raw != nil {
		chain, key = string(raw), string(raw)
	}
	return readPair(chain, key, s.keyPassword())
}

// Roots reads the authorities to trust.
func (s Store) Roots() (*x509.CertPool, error) {
	raw, err := s.file()
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	switch formatOf(raw) {
	case jks:
		certs, err = s.rootsOfJKS(raw)
	case pkcs12Format:
		certs, err = pkcs12.DecodeTrustStore(raw, s.Password)
		err = s.explain(err)
	default:
		text := s.Certificates
		if raw != nil {
			text = string(raw)
		}
		certs, err = readCertificates(text)
	}
	if err == nil && len(certs) == 0 {
		err = errors.New("there is no trusted certificate in it")
	}
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool, nil
}

func (s Store) keyPassword() string {
	if s.KeyPassword != "" {
		return s.KeyPassword
	}
	return s.Password
}

// file is what is in the store's file; nil where text is given in its place.
func (s Store) file() ([]byte, error) {
	if s.Certificates != "" || s.Location == "" {
		return nil, nil
	}
	file, err := os.Open(s.Location)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s.Location, err)
	case len(raw) > fileMax:
		return nil, fmt.Errorf("%s has more than %d bytes", s.Location, fileMax)
	case len(raw) == 0:
		return nil, fmt.Errorf("%s is empty", s.Location)
	}
	return raw, nil
}

type format int8

const (
	pemFormat format = iota
	jks
	pkcs12Format
)

var jksMagic = []byte{0xfe, 0xed, 0xfe, 0xed}

func formatOf(raw []byte) format {
	switch {
	case bytes.HasPrefix(raw, jksMagic):
		return jks
	case len(raw) > 0 && raw[0] == 0x30: // a DER sequence; PEM text begins with no 0 in front of what it holds
		if !bytes.Contains(raw, []byte("-----BEGIN")) {
			return pkcs12Format
		}
	}
	return pemFormat
}

// explain turns what the libraries say about passwords into words that help.
func (s Store) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pkcs12.ErrIncorrectPassword) || strings.Contains(err.Error(), "digest"):
		return fmt.Errorf("open %s: the store's password is wrong or missing, or the file is damaged", s.Location)
	}
	return fmt.Errorf("open %s: %w", s.Location, err)
}

func (s Store) pairOfPKCS12(raw []byte) (tls.Certificate, error) {
	key, leaf, above, err := pkcs12.DecodeChain(raw, s.Password)
	if err != nil {
		return tls.Certificate{}, s.explain(err)
	}
	pair := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
	for _, cert := range above {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	return pair, fits(pair)
}

func (s Store) loadJKS(raw []byte) (keystore.KeyStore, error) {
	if err := checkJKS(raw); err != nil {
		return keystore.KeyStore{}, fmt.Errorf("open %s: %w", s.Location, err)
	}
	store := keystore.New(keystore.WithOrderedAliases())
	if err := store.Load(bytes.NewReader(raw), []byte(s.Password)); err != nil {
		return store, s.explain(err)
	}
	return store, nil
}

// pairOfJKS takes the first key by its alias.
func (s Store) pairOfJKS(raw []byte) (tls.Certificate, error) {
	var pair tls.Certificate
	store, err := s.loadJKS(raw)
	if err != nil {
		return pair, err
	}
	for _, alias := range store.Aliases() {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := store.GetPrivateKeyEntry(alias, []byte(s.keyPassword()))
		if err != nil {
			return pair, fmt.Errorf("open the key %s of %s: ssl.key.password is wrong or missing", alias, s.Location)
		}
		for _, cert := range entry.CertificateChain {
			pair.Certificate = append(pair.Certificate, cert.Content)
		}
		if pair.PrivateKey, err = x509.ParsePKCS8PrivateKey(entry.PrivateKey); err != nil {
			return pair, fmt.Errorf("read the key %s of %s: %w", alias, s.Location, err)
		}
		return pair, fits(pair)
	}
	return pair, fmt.Errorf("there is no private key in %s", s.Location)
}

func (s Store) rootsOfJKS(raw []byte) ([]*x509.Certificate, error) {
	store, err := s.loadJKS(raw)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, alias := range store.Aliases() {
		if !store.IsTrustedCertificateEntry(alias) {
			continue
		}
		entry, err := store.GetTrustedCertificateEntry(alias)
		if err != nil {
			return nil, s.explain(err)
		}
		cert, err := x509.ParseCertificate(entry.Certificate.Content)
		if err != nil {
			return nil, fmt.Errorf("parse the certificate %s of %s: %w", alias, s.Location, err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// fits says what is wrong with a key pair as a whole.
func fits(pair tls.Certificate) error {
	if len(pair.Certificate) == 0 {
		return errors.New("there is no certificate in it")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fmt.Errorf("parse the certificate: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return errors.New("the private key cannot sign")
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return errors.New("the private key is not that of the first certificate")
	}
	return nil
}

// jksMost is more entries than any store has.
const jksMost = 1 << 16

// checkJKS walks a JKS by its lengths: the library takes memory by them before it
// sees whether there are as many bytes.
func checkJKS(raw []byte) error {
	w := &walker{rest: raw[len(jksMagic):]}
	version := w.number()
	if version != 1 && version != 2 {
		return errors.New("it is a JKS of an unknown version")
	}
	certificate := func() {
		if version == 2 {
			w.skip(w.short())
		}
		w.skip(w.number())
	}
	for range min(w.number(), jksMost) {
		tag := w.number()
		w.skip(w.short())
		w.skip(8)
		if tag == 1 {
			w.skip(w.number())
			for range min(w.number(), jksMost) {
				if certificate(); w.broken {
					break
				}
			}
		} else {
			certificate()
		}
		if w.broken {
			break
		}
	}
	if w.broken || len(w.rest) != 20 {
		return errors.New("the file is damaged or cut off")
	}
	return nil
}

// walker steps over a file's parts.
type walker struct {
	rest   []byte
	broken bool
}

func (w *walker) take(n int) []byte {
	if w.broken || n > len(w.rest) {
		w.broken = true
		return nil
	}
	taken := w.rest[:n]
	w.rest = w.rest[n:]
	return taken
}

func (w *walker) skip(n int) { w.take(n) }

func (w *walker) number() int { return bigEndian(w.take(4)) }
func (w *walker) short() int  { return bigEndian(w.take(2)) }

func bigEndian(b []byte) int {
	n := 0
	for _, one := range b {
		n = n<<8 | int(one)
	}
	return n
}
