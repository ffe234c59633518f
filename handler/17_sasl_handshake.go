package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslHandshake, key 17, versions 0-1. Chooses a SASL mechanism.
//
//	A listener that does not authenticate answers ILLEGAL_SASL_STATE.
//	v0 the SASL bytes follow as bare frames. v1 they follow in SaslAuthenticate requests.
func saslHandshake(_ context.Context, c *call, rq *kmsg.SASLHandshakeRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	if c.listener.SASL != nil {
		resp.SupportedMechanisms = c.listener.SASL.Mechanisms()
	}
	resp.ErrorCode = code(c.conn.login.begin(rq.Mechanism, c.version))
	return resp, nil
}
