package stores

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/youmark/pkcs8"
)

func readCertificates(text string) ([]*x509.Certificate, error) {
	blocks, err := readPEM(text)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// readPair reads a certificate chain and its key; both may stand in one text, as in a key store file.
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
			if pair.PrivateKey, err = readKey(block, password); err != nil {
				return pair, err
			}
			return pair, fits(pair)
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
			return nil, fmt.Errorf("decrypt the private key with ssl.key.password: %w", err)
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

// readPEM reads PEM text. Like Java's reader it takes any white space between the
// base64 lines, also the two characters \n that configs on one line carry.
func readPEM(text string) ([]*pem.Block, error) {
	if !strings.Contains(text, "-----BEGIN ") {
		return nil, errors.New("it is neither PEM, JKS nor PKCS12")
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
