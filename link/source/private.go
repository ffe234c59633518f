package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
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

const (
	// callTries is how many brokers Call asks at most, one after the other.
	callTries = 4
	// callersMax is how many connections to one broker Call has at most. A broker answers what comes over one connection one after
	// the other, and an answer about a turn may wait for seconds: over one connection many topics would turn one by one.
	callersMax = 16
)

// callers are one broker's connections for private requests.
type callers struct {
	all  []*kgo.Client
	idle []*kgo.Client
}

// caller takes a connection that no other private request is under way on. There is none left only when callersMax are
// taken; then the request shares the one for all other questions. free gives it back.
func (c *Cluster) caller(address string) (client *kgo.Client, free func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errClosed
	}
	own := c.callers[address]
	if own == nil {
		own = &callers{}
		c.callers[address] = own
	}
	switch n := len(own.idle); {
	case n > 0:
		client, own.idle = own.idle[n-1], own.idle[:n-1]
	case len(own.all) < callersMax:
		if client, err = c.newClient([]string{address}); err != nil {
			return nil, nil, err
		}
		own.all = append(own.all, client)
	default:
		if client, err = c.peerLocked(address); err != nil {
			return nil, nil, err
		}
		return client, func() {}, nil
	}
	return client, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		own.idle = append(own.idle, client)
	}, nil
}

// call asks one broker over a connection of the request's own.
func (c *Cluster) call(ctx context.Context, address string, rq *peer.Request) (kmsg.Response, error) {
	if err := c.gate(); err != nil {
		return nil, err
	}
	client, free, err := c.caller(address)
	if err != nil {
		return nil, err
	}
	defer free()
	return c.askOver(ctx, client, address, rq)
}

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
		resp, err := c.call(ctx, address, rq)
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
				return kafka.Errorf(kafka.UnsupportedVersion, "The other cluster offers %s in versions %d-%d, this one speaks %d-%d: "+
					"upgrade the older one.", row.Name, key.MinVersion, key.MaxVersion, row.Min, row.Max)
			}
			return failure
		}
	}
	return fmt.Errorf("%s: %w", address, peer.ErrNotHawser)
}
