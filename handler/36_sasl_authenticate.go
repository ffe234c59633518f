package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslAuthenticate, key 36, versions 0-2. Carries the bytes of a SASL exchange.
//
//	v1 how long the login lasts (KIP-368). v2 flexible encoding.
func saslAuthenticate(ctx context.Context, c *call, rq *kmsg.SASLAuthenticateRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	answer, lifetime, err := c.conn.login.step(rq.SASLAuthBytes, c.Now())
	resp.ErrorCode, resp.ErrorMessage = code(err), kafka.MessageOf(err)
	if err != nil && kafka.CodeOf(err) == kafka.UnknownServerError {
		// Why a login failed is for the log; the client learns only that it did.
		c.Logger.Info("authentication failed", "listener", c.listener.Name, "client", c.from.Host, "err", err)
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.SaslAuthenticationFailed), text("Authentication failed.")
	}
	if err != nil {
		c.conn.delayRefusal(ctx)
	}
	resp.SASLAuthBytes, resp.SessionLifetimeMillis = answer, lifetime.Milliseconds()
	return resp, nil
}
