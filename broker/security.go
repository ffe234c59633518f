package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openSecurity makes the authorizer, if one is configured, and the keeper of ACLs,
// credentials and quotas.
func (b *Broker) openSecurity(context.Context) error {
	jaas := b.values.ListenerText("", strings.ToLower(auth.Plain), "sasl.jaas.config")
	logins, err := auth.NewSASL(b.values.List("sasl.enabled.mechanisms"), jaas, b.meta.Image)
	if err != nil {
		return err
	}
	b.logins = logins
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

// secure gives a listener the TLS and the logins of its protocol.
func (b *Broker) secure(l *handler.Listener, protocol string) error {
	text := func(name string) string { return b.values.ListenerText(l.Name, "", name) }
	if strings.HasSuffix(protocol, "SSL") {
		tls, err := auth.NewTLS(auth.TLSConfig{
			Chain: text("ssl.keystore.certificate.chain"), Key: text("ssl.keystore.key"), KeyPassword: text("ssl.key.password"),
			Location: text("ssl.keystore.location"), CA: text("ssl.truststore.certificates"), CALocation: text("ssl.truststore.location"),
			ClientAuth: text("ssl.client.auth"), Protocols: strings.Split(text("ssl.enabled.protocols"), ","),
		})
		if err != nil {
			return err
		}
		l.TLS = tls
	}
	if strings.HasPrefix(protocol, "SASL") {
		mechanisms := strings.Split(text("sasl.enabled.mechanisms"), ",")
		logins, err := auth.NewSASL(mechanisms, b.values.ListenerText(l.Name, strings.ToLower(auth.Plain), "sasl.jaas.config"), b.meta.Image)
		if err != nil {
			return err
		}
		l.SASL = authenticator{logins}
	}
	return nil
}

// authenticator lets the Kafka door use a listener's logins; it implements handler.Authenticator.
type authenticator struct{ *auth.SASL }

// Begin implements handler.Authenticator.
func (a authenticator) Begin(mechanism string) (handler.Exchange, error) {
	exchange, err := a.SASL.Begin(mechanism)
	if err != nil {
		return nil, err
	}
	return exchange, nil
}

// access lets the HTTP door ask the same users and ACLs; it implements rest.Access.
// It is used only where there is an authorizer.
type access struct{ b *Broker }

func (b *Broker) restAccess() rest.Access {
	if b.acls == nil {
		return nil
	}
	return access{b}
}

// Login implements rest.Access: HTTP Basic with a SASL user.
func (a access) Login(r *http.Request) (string, error) {
	user, password, ok := r.BasicAuth()
	if !ok {
		return handler.Anonymous, nil
	}
	if !a.b.logins.CheckPassword(user, password) {
		return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: Invalid username or password.")
	}
	return "User:" + user, nil
}

// Allowed implements rest.Access.
func (a access) Allowed(r *http.Request, principal string, op rest.Operation, res rest.Resource) bool {
	operation, err1 := kmsg.ParseACLOperation(string(op))
	kind, err2 := kmsg.ParseACLResourceType(res.Type)
	if errors.Join(err1, err2) != nil {
		return false
	}
	name := res.Name
	if kind == kmsg.ACLResourceTypeCluster {
		name = auth.ClusterName
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return a.b.acls.Allowed(principal, host, operation, kind, name)
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
