package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

// Class is why a source could not be reached, for link errors (matched with errors.As on *Error).
type Class string

// The classes: link_error's names on REST.
const (
	Unresolvable Class = "UNRESOLVABLE_BOOTSTRAP_ERROR"
	Refused      Class = "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
	Timeout      Class = "TIMEOUT_ERROR"
	Auth         Class = "AUTHENTICATION_ERROR"
	TLS          Class = "TLS_ERROR"
	Other        Class = "UNKNOWN"
)

// Error says how and where reaching the source failed, and what to do.
type Error struct {
	Class   Class
	Address string
	Hint    string
	Err     error
}

// Error is the whole sentence.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Address != "" {
		b.WriteString(e.Address + ": ")
	}
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		return strings.TrimRight(b.String(), ".?") + ". " + e.Hint
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault is what a fetcher shows for the error.
func (e *Error) Fault() fetcher.Fault {
	switch e.Class {
	case Auth, TLS:
		return fetcher.SourceAuth
	default:
		return fetcher.SourceUnreachable
	}
}

var hints = map[Class]string{
	Unresolvable: "Check the host name in bootstrap.servers and this machine's name service.",
	Refused:      "Check that the broker runs, its port, and firewalls in between.",
	Timeout:      "Check the address, firewalls, and the load of the source; request.timeout.ms bounds the wait.",
	Auth:         "Check sasl.mechanism and sasl.jaas.config, and that the user exists at the source.",
	TLS:          "Check security.protocol, the ssl.truststore and ssl.keystore configs, and the certificate's names and dates.",
}

// classify makes an *Error of what the client library or the network returned.
// The caller's own cancellation and errors of the protocol come back as they are.
func (c *Cluster) classify(err error, address string) error {
	if err == nil {
		c.greeted.Store(true)
		return nil
	}
	if errors.Is(err, context.Canceled) && c.ctx.Err() == nil {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		c.noteDenied(known)
		return known
	}
	class, hint := classOf(err)
	if c.greeted.Load() && hungUp(err) {
		// These configs have worked: it is no login that is wrong but a broker that ends, or a
		// balancer before it that takes connections for nobody.
		class, hint = Refused, "The broker hung up at once, though it has answered before: "+hints[Refused]
	}
	if class == Other {
		var ke *kerr.Error
		if errors.As(err, &ke) {
			return kafka.Errorf(kafka.ErrorCode(ke.Code), "source, %s: %s", address, ke.Description)
		}
	}
	if hint == "" {
		hint = hints[class]
	}
	e := &Error{Class: class, Address: address, Err: err, Hint: hint}
	c.noteDenied(e)
	return e
}

// silent says that a broker closed the connection at the first request, as one does that waits for a login.
func silent(err error) bool {
	var firstEOF *kgo.ErrFirstReadEOF
	return errors.As(err, &firstEOF)
}

// hungUp says that a broker took the connection and closed it without a word.
func hungUp(err error) bool {
	var firstEOF *kgo.ErrFirstReadEOF
	return errors.As(err, &firstEOF) && !isAuth(firstEOF.Unwrap()) && !isTLS(firstEOF.Unwrap())
}

func classOf(err error) (Class, string) {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		if dns.IsTimeout {
			return Timeout, ""
		}
		return Unresolvable, ""
	case isAuth(err) && silent(err):
		return Auth, "The broker's listener wants a login: set security.protocol to SASL_SSL or SASL_PLAINTEXT, " +
			"sasl.mechanism and sasl.jaas.config."
	case isAuth(err):
		return Auth, ""
	case isTLS(err):
		return TLS, ""
	case hungUp(err):
		return Auth, "The broker hung up at once: its listener may want another security.protocol (TLS or SASL)."
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return Timeout, ""
	case isNetwork(err):
		return Refused, ""
	}
	return Other, ""
}

func isAuth(err error) bool {
	for _, known := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState} {
		if errors.Is(err, known) {
			return true
		}
	}
	text := err.Error()
	return strings.Contains(text, "sasl") || strings.Contains(text, "SASL") || strings.Contains(text, "scram")
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	for _, target := range []any{&record, &alert, &verify, &authority, &host, &invalid} {
		if errors.As(err, target) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") ||
		strings.Contains(err.Error(), "tls: ")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func isNetwork(err error) bool {
	var call *os.SyscallError
	var op *net.OpError
	var errno syscall.Errno
	return errors.As(err, &call) || errors.As(err, &op) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// codeOf finds the protocol's error inside the client library's, None if there is none.
func codeOf(err error) kafka.ErrorCode {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return kafka.ErrorCode(ke.Code)
	}
	return kafka.None
}

// answered makes an error of a code in an answer, nil for none.
func answered(code int16, format string, args ...any) error {
	if code == 0 {
		return nil
	}
	return kafka.Errorf(kafka.ErrorCode(code), "source answers for %s", fmt.Sprintf(format, args...))
}

// noteDenied remembers a failed login, so that a link with many loops does not knock at the
// source's door with a wrong password many times a second.
func (c *Cluster) noteDenied(e *Error) {
	if e.Class != Auth {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied, c.until = e, time.Now().Add(authPause)
}

// gate is the last failed login's error while its pause lasts, and an error once closed.
func (c *Cluster) gate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.denied != nil && time.Now().Before(c.until):
		return c.denied
	}
	return nil
}

var errClosed = &Error{Class: Other, Err: errors.New("the connection to the source was closed"), Hint: ""}
