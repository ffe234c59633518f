package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// raceDelay is how long the next broker waits for the one asked before it: a dead first
// entry of bootstrap.servers costs this much, not a connect time-out.
const raceDelay = 400 * time.Millisecond

// peer is the client for questions to one address.
func (c *Cluster) peer(address string) (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerLocked(address)
}

func (c *Cluster) peerLocked(address string) (*kgo.Client, error) {
	if c.closed {
		return nil, errClosed
	}
	if client := c.peers[address]; client != nil {
		return client, nil
	}
	client, err := c.newClient([]string{address})
	if err != nil {
		return nil, err
	}
	c.peers[address] = client
	return client, nil
}

// ask sends one request to one address.
func (c *Cluster) ask(ctx context.Context, address string, req kmsg.Request) (kmsg.Response, error) {
	if err := c.gate(); err != nil {
		return nil, err
	}
	client, err := c.peer(address)
	if err != nil {
		return nil, err
	}
	resp, err := c.askOver(ctx, client, address, req)
	if timedOut(err) {
		c.drop(address, client)
	}
	return resp, err
}

// timedOut reports that nobody answered in time.
func timedOut(err error) bool {
	var known *Error
	return errors.As(err, &known) && known.Class == Timeout
}

// drop forgets a client whose question was not answered in time: it may be resting for as long as a wrong answer told it to, and the
// next question is put over a new connection.
func (c *Cluster) drop(address string, client *kgo.Client) {
	c.mu.Lock()
	ours := c.peers[address] == client
	if ours {
		delete(c.peers, address)
	}
	c.mu.Unlock()
	if ours {
		client.Close()
	}
}

func (c *Cluster) askOver(ctx context.Context, client *kgo.Client, address string, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	resp, err := send(ctx, client, req)
	return resp, c.classify(err, address)
}

// send asks the one broker a client knows. A connection that the broker closed while it was idle is
// no failure of the source: then, and only then, it asks again on a new one.
func send(ctx context.Context, client *kgo.Client, req kmsg.Request) (kmsg.Response, error) {
	seeds := client.SeedBrokers()
	if len(seeds) == 0 {
		return nil, errClosed
	}
	resp, err := seeds[0].Request(ctx, req)
	if err != nil && ctx.Err() == nil && kgo.IsRetryableBrokerErr(err) && !isTimeout(err) {
		resp, err = seeds[0].Request(ctx, req)
	}
	return resp, err
}

// askBroker asks a broker by id.
func (c *Cluster) askBroker(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	address, err := c.addressOf(ctx, broker)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, address, req)
}

func (c *Cluster) addressOf(ctx context.Context, broker int32) (string, error) {
	c.mu.Lock()
	address, ok := c.brokers[broker]
	c.mu.Unlock()
	if ok {
		return address, nil
	}
	if _, err := c.metadata(ctx, []string{}); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if address, ok = c.brokers[broker]; ok {
		return address, nil
	}
	return "", kafka.Errorf(kafka.BrokerNotAvailable, "the source's metadata does not name broker %d", broker)
}

// askAny asks brokers until one answers, each a little after the one before: those of the last
// metadata first, then all of bootstrap.servers. A failed login ends it, for it would fail everywhere.
func (c *Cluster) askAny(ctx context.Context, req func() kmsg.Request) (kmsg.Response, error) {
	type answer struct {
		resp    kmsg.Response
		err     error
		address string
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	addresses := c.candidates()
	answers := make(chan answer, len(addresses))
	start := func(address string) {
		resp, err := c.ask(ctx, address, req())
		answers <- answer{resp, err, address}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failure error
	for started, ended := 0, 0; ended < len(addresses); {
		wake := timer.C
		if started == len(addresses) {
			wake = nil
		}
		select {
		case <-wake:
			go start(addresses[started])
			started++
			timer.Reset(raceDelay)
		case a := <-answers:
			ended++
			if a.err == nil {
				c.mu.Lock()
				c.last = a.address
				c.mu.Unlock()
				return a.resp, nil
			}
			failure = worse(failure, a.err)
			var known *Error
			if errors.As(a.err, &known) && known.Class == Auth {
				return nil, a.err
			}
			timer.Reset(0)
		case <-ctx.Done():
			if failure == nil {
				failure = &Error{Class: Timeout, Address: addresses[0], Err: fmt.Errorf("no broker answered: %w", ctx.Err()), Hint: hints[Timeout]}
			}
			return nil, failure
		}
	}
	return nil, failure
}

// worse keeps the error that says more: of a broker that was reached rather than of one that was not.
func worse(a, b error) error {
	rank := func(err error) int {
		var known *Error
		if !errors.As(err, &known) {
			return 0
		}
		return map[Class]int{Unresolvable: 1, Refused: 2, Timeout: 3, Other: 4, TLS: 5, Auth: 6}[known.Class]
	}
	if a == nil || rank(b) > rank(a) {
		return b
	}
	return a
}

// candidates are the addresses worth asking, at most a few of the brokers and all of bootstrap.servers.
func (c *Cluster) candidates() []string {
	const brokersAsked = 4
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	seen := make(map[string]bool)
	add := func(address string) {
		if !seen[address] {
			seen[address] = true
			list = append(list, address)
		}
	}
	for _, address := range c.brokers { // a map: another order each time spreads the questions
		if add(address); len(list) == brokersAsked {
			break
		}
	}
	for _, address := range c.cfg.Bootstrap {
		add(address)
	}
	if len(list) > 1 && list[0] == c.last { // a second opinion is another broker's
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// metadata asks for topics, all of them with nil, and learns the brokers.
func (c *Cluster) metadata(ctx context.Context, topics []string) (*kmsg.MetadataResponse, error) {
	resp, err := c.askAny(ctx, func() kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = false
		if topics != nil {
			req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(topics))
		}
		for _, name := range topics {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, topic)
		}
		return req
	})
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.MetadataResponse)
	c.learn(answer)
	return answer, nil
}

// learn keeps the brokers of an answer and forgets all others (case C106).
func (c *Cluster) learn(answer *kmsg.MetadataResponse) {
	brokers := make(map[int32]string, len(answer.Brokers))
	keep := make(map[string]bool)
	for _, broker := range answer.Brokers {
		address := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		brokers[broker.NodeID] = address
		keep[address] = true
	}
	if len(brokers) == 0 {
		return // a broker that is only starting knows none
	}
	for _, address := range c.cfg.Bootstrap {
		keep[address] = true
	}
	c.mu.Lock()
	c.brokers = brokers
	var gone []*kgo.Client
	for address, peer := range c.peers {
		if !keep[address] {
			gone = append(gone, peer)
			delete(c.peers, address)
		}
	}
	for address, own := range c.callers {
		if !keep[address] {
			gone = append(gone, own.all...)
			delete(c.callers, address)
		}
	}
	groups := c.groups
	c.mu.Unlock()
	for _, peer := range gone {
		peer.Close()
	}
	if groups != nil && len(gone) > 0 {
		if err := groups.UpdateSeedBrokers(c.candidates()...); err != nil {
			c.cfg.Logger.Warn("take over the source's new brokers", "error", err)
		}
	}
}
