package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"time"

	"github.com/hawserio/hawser/auth/stores"
)

// dialer opens connections: it maps advertised addresses to those that can be reached from here
// and wraps TLS around. Names are resolved at each call, so that a broker that moved is found again.
type dialer struct {
	base    func(ctx context.Context, network, address string) (net.Conn, error)
	mapped  map[string]string
	timeout time.Duration
	buffer  int
	tls     *stores.ClientTLS // nil for plaintext
}

func newDialer(cfg Config) (dialer, error) {
	d := dialer{base: cfg.Dial, mapped: maps.Clone(cfg.Map), timeout: cfg.DialTimeout, buffer: cfg.ReceiveBuffer}
	if d.base == nil {
		d.base = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	var err error
	d.tls, err = cfg.Security.secured()
	return d, err
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	target := address
	if to, ok := d.mapped[address]; ok {
		target = to
	}
	conn, err := d.base(ctx, network, target)
	if err != nil {
		var known *Error
		if errors.As(err, &known) {
			return nil, known
		}
		class, hint := classOf(err)
		if class == Other || class == Auth {
			class = Refused
		}
		if hint == "" {
			hint = hints[class]
		}
		return nil, &Error{Class: class, Address: shown(address, target), Err: err, Hint: hint}
	}
	if tcp, ok := conn.(*net.TCPConn); ok && d.buffer > 0 {
		if err := tcp.SetReadBuffer(d.buffer); err != nil {
			conn.Close()
			return nil, &Error{Class: Other, Address: target, Err: fmt.Errorf("set the receive buffer to %d bytes: %w", d.buffer, err),
				Hint: "Check replica.socket.receive.buffer.bytes."}
		}
	}
	if d.tls == nil {
		return conn, nil
	}
	return d.secure(ctx, conn, address)
}

// secure does the TLS handshake. The name checked is the one the source advertises, not the one it is mapped to.
func (d dialer) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	cfg, err := d.tls.Config(host)
	if err != nil {
		conn.Close()
		return nil, &Error{Class: TLS, Address: address, Err: err, Hint: hints[TLS]}
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		class, hint := TLS, hints[TLS]
		switch {
		case isTimeout(err) || ctx.Err() != nil:
			class, hint = Timeout, "The TLS handshake was not answered: is this listener a TLS listener?"
		case errors.Is(err, io.EOF):
			hint = "The broker hung up, as a listener without TLS does: check security.protocol and the port."
		}
		return nil, &Error{Class: class, Address: address, Err: fmt.Errorf("TLS handshake: %w", err), Hint: hint}
	}
	return secured, nil
}

func shown(address, target string) string {
	if address == target {
		return address
	}
	return address + " (mapped to " + target + ")"
}
