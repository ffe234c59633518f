package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
)

// offeredVersions is what the client library uses by itself, and the private keys, which it would refuse to send.
func offeredVersions() *kversion.Versions {
	versions := kversion.Stable()
	for _, row := range peer.Rows() {
		versions.SetMaxKeyVersion(int16(row.Key), row.Max)
	}
	return versions
}

// callTries is how many brokers Call asks at most, one after the other.
const callTries = 4

// Call sends a private request and returns the answer's body. The request may arrive more than once: a
// connection that broke is no sign of what the other side did.
//
// Errors: *Error where the source cannot be reached or does not take the login; peer.ErrNotHawser where it offers no such key;
// *kafka.Error, with words for the operator, where it refuses; the context's.
func (c *Cluster) Call(ctx context.Context, rq *peer.Request) ([]byte, error) {
	if err := rq.Check(); err != nil {
		return nil, err
	}
	resp, err := c.askOne(ctx, rq)
	if err != nil {
		return nil, err
	}
	answer := resp.(*peer.Answer)
	if err := answer.Err(); err != nil {
		return nil, err
	}
	if rq.Callee != "" && answer.Cluster != rq.Callee {
		return nil, kafka.Errorf(kafka.InconsistentClusterID, "Cluster %s answered in place of %s.", answer.Cluster, rq.Callee)
	}
	return answer.Body, nil
}

// askOne asks one broker after the other until one is reached. Asking several at once, as askAny does, is for
// questions that change nothing.
func (c *Cluster) askOne(ctx context.Context, rq *peer.Request) (kmsg.Response, error) {
	c.mu.Lock()
	known := len(c.brokers) > 0
	c.mu.Unlock()
	if !known {
		if _, err := c.metadata(ctx, []string{}); err != nil {
			return nil, err
		}
	}
	candidates := c.candidates()
	var failure error
	for _, address := range candidates[:min(len(candidates), callTries)] {
		resp, err := c.ask(ctx, address, rq)
		if err == nil {
			return resp, nil
		}
		var unreached *Error
		if !errors.As(err, &unreached) || ctx.Err() != nil {
			return nil, err
		}
		if unreached.Class == Other {
			return nil, c.whyNot(ctx, address, rq, err)
		}
		if failure = worse(failure, err); unreached.Class == Auth {
			break // it would fail everywhere
		}
	}
	return nil, failure
}

// whyNot finds out whether a request failed because the broker does not list its key: the client library says so in words only.
func (c *Cluster) whyNot(ctx context.Context, address string, rq *peer.Request, failure error) error {
	resp, err := c.ask(ctx, address, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return failure
	}
	for _, key := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		if key.ApiKey == rq.Key() {
			if row, _ := peer.RowOf(rq.Ask.Key); key.MinVersion > row.Max || key.MaxVersion < row.Min {
				return kafka.Errorf(kafka.UnsupportedVersion, "The other cluster offers %s in versions %d-%d, this one speaks %d-%d: upgrade the older one.", row.Name, key.MinVersion, key.MaxVersion, row.Min, row.Max)
			}
			return failure
		}
	}
	return fmt.Errorf("%s: %w", address, peer.ErrNotHawser)
}
