package broker

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/auth/stores"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/link/source"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openSecurity makes the authorizer, if one is configured, and the keeper of ACLs,
// credentials and quotas.
func (b *Broker) openSecurity(context.Context) error {
	switch class := b.values.Text("authorizer.class.name"); class {
	case "":
		b.keeper = auth.NewKeeperWithoutACLs(b.meta)
	case config.StandardAuthorizer:
		b.keeper = auth.NewKeeper(b.meta)
		b.acls = auth.NewAuthorizer(b.meta.Image, auth.Rules{
			SuperUsers:    auth.ParseSuperUsers(b.values.Text("super.users")),
			AllowUnlisted: b.values.Bool("allow.everyone.if.no.acl.found"),
		})
	default:
		return fmt.Errorf("authorizer.class.name is %s; only %s is there", class, config.StandardAuthorizer)
	}
	return nil
}

// dialSource connects a link, which may read tokens only from files that the broker's configs name.
func (b *Broker) dialSource(cfg source.Config) (link.Source, error) {
	cfg.Security.OAuth.Files = b.values.List("hawser.link.token.files")
	cluster, err := source.Dial(cfg)
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

// authorizer is nil, and not a nil pointer in an interface, without one.
func (b *Broker) authorizer() handler.Authorizer {
	if b.acls == nil {
		return nil
	}
	return b.acls
}

// mayDescribe says whether a client may see a topic that its subscription's expression matches.
func (b *Broker) mayDescribe(from group.Client, topic string) bool {
	return b.acls == nil || b.acls.Allowed(from.Principal, from.Host, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, topic)
}

// listeners is what to listen on: the listeners of the configuration, else one
// plaintext listener as the flags say.
func (b *Broker) listeners() ([]handler.Listener, error) {
	if b.values.IsDefault("listeners") {
		host, port, err := advertised(b.cfg.Advertise)
		if err != nil {
			return nil, err
		}
		return []handler.Listener{{Name: listenerName, Address: b.cfg.Kafka, AdvertisedHost: host, AdvertisedPort: port}}, nil
	}
	bound, err := config.ParseListeners(b.values.Text("listeners"))
	if err != nil {
		return nil, err
	}
	protocols, err := config.ParseProtocolMap(b.values.Text("listener.security.protocol.map"))
	if err != nil {
		return nil, err
	}
	told := map[string]config.Listener{}
	if text := b.values.Text("advertised.listeners"); text != "" {
		list, err := config.ParseListeners(text)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			told[l.Name] = l
		}
	}
	var all []handler.Listener
	for _, l := range bound {
		made := handler.Listener{Name: l.Name, Address: l.Address(), AdvertisedHost: told[l.Name].Host, AdvertisedPort: int32(told[l.Name].Port)}
		if err := b.secure(&made, protocols[l.Name]); err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		all = append(all, made)
	}
	return all, nil
}

// tlsOf is a listener's TLS, and how it names who shows a certificate.
func tlsOf(v config.Values, listener string) (*tls.Config, *auth.Mapping, error) {
	text := func(name string) string { return v.ListenerText(listener, "", name) }
	mapping, err := auth.ParseMapping(text("ssl.principal.mapping.rules"))
	if err != nil {
		return nil, nil, err
	}
	made, err := auth.NewTLS(auth.TLSConfig{
		KeyStore: stores.Store{
			Certificates: text("ssl.keystore.certificate.chain"), Key: text("ssl.keystore.key"), Location: text("ssl.keystore.location"),
			Password: text("ssl.keystore.password"), KeyPassword: text("ssl.key.password"),
		},
		TrustStore: trustStore(text),
		ClientAuth: text("ssl.client.auth"), Protocols: strings.Split(strings.ReplaceAll(text("ssl.enabled.protocols"), " ", ""), ","),
	})
	return made, mapping, err
}

// secure gives a listener the TLS and the logins of its protocol.
func (b *Broker) secure(l *handler.Listener, protocol string) error {
	g := &guard{listener: l.Name, secured: strings.HasSuffix(protocol, "SSL"), asked: strings.HasPrefix(protocol, "SASL")}
	if err := b.addGuard(g); err != nil {
		return err
	}
	if g.secured {
		l.TLS, l.Principal = g.config(), g.principal
	}
	if g.asked {
		l.SASL = g
	}
	return nil
}

func trustStore(text func(name string) string) stores.Store {
	return stores.Store{Certificates: text("ssl.truststore.certificates"), Location: text("ssl.truststore.location"),
		Password: text("ssl.truststore.password")}
}

// metaTLS is the TLS of the external etcd; nil for plaintext.
func (b *Broker) metaTLS() (*tls.Config, error) {
	if b.values.Text("hawser.metadata.security.protocol") != "SSL" {
		return nil, nil
	}
	text := func(name string) string { return b.values.Text("hawser.metadata." + name) }
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if trust := (stores.Store{Location: text("ssl.truststore.location"), Password: text("ssl.truststore.password")}); trust.Given() {
		roots, err := trust.Roots()
		if err != nil {
			return nil, fmt.Errorf("read hawser.metadata.ssl.truststore: %w", err)
		}
		made.RootCAs = roots
	}
	own := stores.Store{Location: text("ssl.keystore.location"), Password: text("ssl.keystore.password"),
		KeyPassword: text("ssl.key.password")}
	if !own.Given() {
		return made, nil
	}
	pair, err := own.LiveKeyPair()
	if err != nil {
		return nil, fmt.Errorf("read hawser.metadata.ssl.keystore: %w", err)
	}
	made.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Current(time.Now()) }
	return made, nil
}

// httpListener is the name by which the HTTP port has security configs of its own: listener.name.http.…
const httpListener = "http"

// loginsOf is what clients of a listener may log in with.
func (b *Broker) loginsOf(v config.Values, listener string) (*auth.SASL, error) {
	mechanisms := strings.Split(strings.ToUpper(strings.ReplaceAll(v.ListenerText(listener, "", "sasl.enabled.mechanisms"), " ", "")), ",")
	c := auth.SASLConfig{
		Mechanisms: mechanisms,
		JAAS:       v.ListenerText(listener, auth.Plain, "sasl.jaas.config"),
		Image:      b.meta.Image,
		Longest: func(mechanism string) time.Duration {
			return (&configs{b}).values().ListenerMillis(listener, mechanism, "connections.max.reauth.ms") // of now
		},
	}
	if slices.Contains(mechanisms, auth.OAuthBearer) {
		tokens, err := b.tokensOf(v, listener)
		if err != nil {
			return nil, err
		}
		c.Tokens = tokens
	}
	return auth.NewSASL(c)
}

// tokensOf is how a listener checks bearer tokens.
func (b *Broker) tokensOf(v config.Values, listener string) (*auth.Tokens, error) {
	text := func(name string) string { return v.ListenerText(listener, auth.OAuthBearer, name) }
	millis := func(name string) time.Duration {
		return v.ListenerMillis(listener, auth.OAuthBearer, name)
	}
	c := auth.TokenConfig{
		URL: text("sasl.oauthbearer.jwks.endpoint.url"),
		JWKS: auth.JWKSConfig{
			Refresh:    millis("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
			Backoff:    millis("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
			BackoffMax: millis("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
		},
		Issuer:     text("sasl.oauthbearer.expected.issuer"),
		Skew:       1000 * millis("sasl.oauthbearer.clock.skew.seconds"),
		SubClaim:   text("sasl.oauthbearer.sub.claim.name"),
		ScopeClaim: text("sasl.oauthbearer.scope.claim.name"),
		Unsecured:  strings.EqualFold(text("hawser.sasl.oauthbearer.unsecured.enable"), "true"),
		Logger:     b.log,
	}
	for one := range strings.SplitSeq(text("sasl.oauthbearer.expected.audience"), ",") {
		if one = strings.TrimSpace(one); one != "" {
			c.Audience = append(c.Audience, one)
		}
	}
	// Not the listener's own trust store: that one is for clients' certificates.
	own := func(name string) string {
		return v.Text("listener.name." + strings.ToLower(listener) + ".oauthbearer." + name)
	}
	if trust := trustStore(own); trust.Given() {
		roots, err := trust.Roots()
		if err != nil {
			return nil, fmt.Errorf("read ssl.truststore: %w", err)
		}
		c.JWKS.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return auth.NewTokens(c)
}

func portOf(address string) (string, int32) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return "", 0
	}
	return host, int32(port)
}
