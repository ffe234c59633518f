package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// guard is the TLS and the logins of one listener, or of the HTTP port. They are replaced for new connections when the listener's
// configs are changed. It implements handler.Authenticator.
type guard struct {
	listener       string
	secured, asked bool // it speaks TLS, it asks for logins

	tls     atomic.Pointer[tls.Config]
	mapping atomic.Pointer[auth.Mapping]
	logins  atomic.Pointer[auth.SASL]
	// What they were made of.
	tlsOf, loginsOf atomic.Pointer[string]
}

// config is TLS that follows the guard's.
func (g *guard) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now := g.tls.Load()
		if now.GetConfigForClient == nil {
			return now, nil
		}
		return now.GetConfigForClient(hello)
	}}
}

func (g *guard) principal(state *tls.ConnectionState) (string, error) {
	return g.mapping.Load().PrincipalOf(state)
}

// Mechanisms implements handler.Authenticator.
func (g *guard) Mechanisms() []string { return g.logins.Load().Mechanisms() }

// Begin implements handler.Authenticator.
func (g *guard) Begin(mechanism string) (handler.Exchange, error) {
	exchange, err := g.logins.Load().Begin(mechanism)
	if err != nil {
		return nil, err
	}
	return exchange, nil
}

// The configs that TLS and logins are made of.
var (
	tlsKeys = []string{"ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
		"ssl.key.password",
		"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.client.auth", "ssl.enabled.protocols",
		"ssl.principal.mapping.rules"}
	loginKeys = []string{"sasl.enabled.mechanisms", "sasl.jaas.config"}
)

// textOf is all of a listener's configs of these names, to see whether one has changed.
func textOf(v config.Values, listener, mechanism string, names []string) *string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "%q", v.ListenerText(listener, mechanism, name))
	}
	all := text.String()
	return &all
}

// renew makes what the configs have changed, and says how to put it into effect.
func (g *guard) renew(b *Broker, v config.Values) (apply func(), err error) {
	apply = func() {}
	if now := textOf(v, g.listener, "", tlsKeys); g.secured && (g.tlsOf.Load() == nil || *g.tlsOf.Load() != *now) {
		made, mapping, err := tlsOf(v, g.listener)
		if err != nil {
			return nil, err
		}
		apply = func() {
			g.tls.Store(made)
			g.mapping.Store(mapping)
			g.tlsOf.Store(now)
		}
	}
	if now := textOf(v, g.listener, auth.Plain, loginKeys); g.asked && (g.loginsOf.Load() == nil || *g.loginsOf.Load() != *now) {
		logins, err := b.loginsOf(v, g.listener)
		if err != nil {
			return nil, err
		}
		first := apply
		apply = func() {
			first()
			g.logins.Store(logins)
			g.loginsOf.Store(now)
		}
	}
	return apply, nil
}

// addGuard makes a guard of the configs as they are.
func (b *Broker) addGuard(g *guard) error {
	v, err := b.secrets()
	if err != nil {
		return err
	}
	apply, err := g.renew(b, v)
	if err != nil {
		return err
	}
	apply()
	b.guards = append(b.guards, g)
	return nil
}

// secrets is all configs with the sensitive ones opened.
func (b *Broker) secrets() (config.Values, error) {
	node, cluster, static := (&configs{b}).Broker()
	opened, err := b.openConfigs(strconv.Itoa(int(b.cfg.NodeID)), node)
	return config.Broker.Values(opened, cluster, static), err
}

// openConfigs opens the sensitive ones among an entity's dynamic configs.
func (b *Broker) openConfigs(entity string, set map[string]string) (map[string]string, error) {
	opened := maps.Clone(set)
	for name, sealed := range set {
		if key, ok := config.Broker.Key(name); !ok || !key.Sensitive {
			continue
		}
		text, err := b.meta.OpenConfig(entity, name, sealed)
		if errors.Is(err, meta.ErrForgotten) {
			b.log.Warn("config of a listener forgotten: its key is lost; set it anew", "config", name)
			delete(opened, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		opened[name] = text
	}
	return opened, nil
}

// sealConfigs seals the sensitive ones that were set anew.
func (b *Broker) sealConfigs(entity string, before, wanted map[string]string) (map[string]string, error) {
	sealed := maps.Clone(wanted)
	for name, text := range wanted {
		if key, ok := config.Broker.Key(name); !ok || !key.Sensitive || before[name] == text {
			continue
		}
		var err error
		if sealed[name], err = b.meta.SealConfig(entity, name, text); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}

// CheckBroker implements handler.Configs: what listeners would be made of must be there and fit.
func (c *configs) CheckBroker(entity string, wanted map[string]string) error {
	node, cluster, static := c.Broker()
	if entity == "" {
		cluster = wanted
	} else {
		node = wanted
	}
	names := []string{httpListener}
	for _, g := range c.b.guards {
		names = append(names, strings.ToLower(g.listener))
	}
	for name := range wanted {
		if listener := config.ListenerOf(name); listener != "" && !slices.Contains(names, listener) &&
			!slices.ContainsFunc(c.b.listening, func(l handler.Listener) bool { return strings.EqualFold(l.Name, listener) }) {
			return kafka.Errorf(kafka.InvalidRequest, "Cannot set %s: there is no listener named %s.", name, listener)
		}
	}
	opened, err := c.b.openMixed(node)
	if err != nil {
		return err
	}
	v := config.Broker.Values(opened, cluster, static)
	for _, g := range c.b.guards {
		if _, err := g.renew(c.b, v); err != nil {
			return kafka.Errorf(kafka.InvalidRequest, "Cannot update the security of listener %s: %v.", g.listener, err)
		}
	}
	return nil
}

// openMixed is openConfigs of values of which some were set just now, and are not sealed yet.
func (b *Broker) openMixed(set map[string]string) (map[string]string, error) {
	entity := strconv.Itoa(int(b.cfg.NodeID))
	stored := b.meta.Image().Configs[entity]
	old := map[string]string{}
	for name, text := range set {
		if stored[name] == text {
			old[name] = text
		}
	}
	opened, err := b.openConfigs(entity, old)
	if err != nil {
		return nil, err
	}
	mixed := maps.Clone(set)
	for name := range old {
		delete(mixed, name)
	}
	maps.Copy(mixed, opened)
	return mixed, nil
}

// obey puts dynamic configs into effect that were changed.
func (b *Broker) obey() {
	b.obeying.Lock() // who comes last has read what was stored last
	defer b.obeying.Unlock()
	v, err := b.secrets()
	if err != nil {
		b.log.Error("the listeners keep their security: a config that is stored cannot be read", "err", err)
		return
	}
	for _, g := range b.guards {
		apply, err := g.renew(b, v)
		if err != nil {
			b.log.Error("a listener keeps its security: what was set for it cannot be read", "listener", g.listener, "err", err)
			continue
		}
		apply()
	}
	if b.kafka != nil {
		b.kafka.SetLimits(kafkaSettings(v))
	}
}

// knows reports whether a user and password let one in at any listener that asks for logins, or are the HTTP port's own.
func (b *Broker) knows(user, password string) bool {
	return slices.ContainsFunc(b.guards, func(g *guard) bool {
		logins := g.logins.Load()
		return logins != nil && logins.CheckPassword(user, password)
	})
}

// token checks a bearer token as the HTTP port does.
func (b *Broker) token(r *http.Request, text string) (user string, err error) {
	return b.httpGuard.logins.Load().CheckToken(r.Context(), text)
}
