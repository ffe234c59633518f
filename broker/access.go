package broker

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// access lets the HTTP door ask the same users and ACLs; it implements rest.Access.
type access struct {
	b *Broker
	// login: who does not log in is refused, whatever the ACLs say of User:ANONYMOUS.
	login bool
}

// restAccess is nil where everybody may do everything.
func (b *Broker) restAccess(listeners []handler.Listener) rest.Access {
	asked := b.values.Text("hawser.http.authentication")
	guarded := false
	for _, l := range listeners {
		guarded = guarded || l.SASL != nil || l.TLS != nil && b.values.ListenerText(l.Name, "", "ssl.client.auth") == "required"
	}
	login := asked == "required" || asked == "auto" && b.acls == nil && guarded
	if b.acls != nil || login {
		return access{b, login}
	}
	certified := b.values.Text("hawser.http.security.protocol") == "SSL" &&
		b.values.ListenerText(httpListener, "", "ssl.client.auth") == "required"
	if b.http != nil && !certified {
		if text := openAloud(b.http.listener.Addr().String(), asked); text != "" {
			b.log.Warn(text)
		}
	}
	return nil
}

// openAloud is what to say of an HTTP port that asks nobody to log in; nothing where only this machine reaches it.
func openAloud(address, asked string) string {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return ""
	}
	return "the HTTP port " + address + " asks nobody to log in (hawser.http.authentication=" + asked +
		"): whoever reaches it may do everything. " +
		"Let it listen on 127.0.0.1 (--http), or set hawser.http.authentication=required and make users, or set authorizer.class.name"
}

// Login implements rest.Access: HTTP Basic with a SASL user, a bearer token of OAUTHBEARER, or else a client certificate.
func (a access) Login(r *http.Request) (string, error) {
	principal, err := a.who(r)
	if err == nil && principal == handler.Anonymous && a.login {
		return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication required: nobody logged in (hawser.http.authentication).")
	}
	return principal, err
}

func (a access) who(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "bearer") {
		user, err := a.b.token(r, strings.TrimSpace(token))
		if err != nil {
			return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: %s.", err)
		}
		return "User:" + user, nil
	}
	user, password, ok := r.BasicAuth()
	if !ok {
		return a.certified(r)
	}
	if !a.b.knows(user, password) { // what lets one in at a Kafka listener does so here, too
		return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: Invalid username or password.")
	}
	return "User:" + user, nil
}

// certified names who showed a certificate.
func (a access) certified(r *http.Request) (string, error) {
	if !a.b.httpGuard.secured {
		return handler.Anonymous, nil
	}
	name, err := a.b.httpGuard.principal(r.TLS)
	if err != nil {
		a.b.log.Info("certificate refused", "client", r.RemoteAddr, "err", err)
		return "", kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: the certificate's name is nobody's here.")
	}
	if name == "" {
		return handler.Anonymous, nil
	}
	return name, nil
}

// Allowed implements rest.Access.
func (a access) Allowed(r *http.Request, principal string, op rest.Operation, res rest.Resource) bool {
	if a.b.acls == nil {
		return true
	}
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
