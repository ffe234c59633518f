package source

import (
	"errors"
	"fmt"
	"strings"

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

// secured is the TLS of connections to the source, nil where the protocol has none. Its files are read again when they change.
func (s Security) secured() (*stores.ClientTLS, error) {
	withTLS, _, err := s.protocol()
	if err != nil || !withTLS {
		return nil, err
	}
	made, err := stores.Client{KeyStore: s.KeyStore, TrustStore: s.TrustStore, Versions: s.Versions, Ciphers: s.Ciphers,
		NoHostCheck: s.NoHostCheck}.TLS()
	var refused *stores.ClientError
	if errors.As(err, &refused) {
		return nil, &Error{Class: TLS, Err: refused.Err, Hint: refused.Hint}
	}
	return made, err
}
