// Package client is the Go client of the REST door. The CLI uses it, and so may any
// program. It speaks rest/api's types, tries nothing twice, and knows no Kafka protocol.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hawserio/hawser/rest/api"
)

// answerMax bounds one answer, in bytes: some hundred thousand mirror partitions.
const answerMax = 256 << 20

// defaultTimeout bounds one request where the caller brings no http.Client. Creating a
// link or a mirror reaches another cluster first, which takes up to 15 s.
const defaultTimeout = 60 * time.Second

// redirectsMax bounds the redirects of one request.
const redirectsMax = 10

// Options are what New may be told beside the address.
type Options struct {
	User, Password string       // sent as HTTP Basic when User is not empty
	ClusterID      string       // empty: asked for once
	HTTP           *http.Client // nil: one with a timeout of 60 s. Without CheckRedirect no redirect is followed that changes the method
	UserAgent      string       // empty: "hawser-client"
}

// Client speaks to one REST door. It is safe for use by several goroutines.
type Client struct {
	root string // ends in /v3
	opts Options

	mu        sync.Mutex
	clusterID string // guarded by mu; empty until known
}

// Error is an answer that is not a success.
type Error struct {
	Status  int // HTTP
	Code    int // error_code
	Message string
}

// Error is the server's words.
func (e *Error) Error() string { return e.Message }

// NotFound reports whether the error says that a resource does not exist.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// Unreachable is a request that got no answer.
type Unreachable struct {
	URL string // of the door, as it was given
	Err error
}

// Error names the address.
func (e *Unreachable) Error() string { return fmt.Sprintf("reach %s: %v", e.URL, e.Err) }

// Unwrap gives the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// New makes a client of the door at an address such as http://127.0.0.1:8090. A path of
// /v3 or /kafka/v3 may stand behind it; without a scheme http is meant. Nothing is sent yet.
func New(address string, opts Options) (*Client, error) {
	text := strings.TrimSpace(address)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse the REST URL %q: %w", address, err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("parse the REST URL %q: want http://HOST:PORT or https://HOST:PORT", address)
	}
	if opts.HTTP == nil {
		opts.HTTP = &http.Client{Timeout: defaultTimeout}
	}
	if opts.HTTP.CheckRedirect == nil {
		own := *opts.HTTP
		own.CheckRedirect = sameMethod
		opts.HTTP = &own
	}
	if opts.UserAgent == "" {
		opts.UserAgent = "hawser-client"
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimSuffix(path, "/v3")
	if path == "" {
		path = "/kafka"
	}
	return &Client{root: u.Scheme + "://" + u.Host + path + "/v3", opts: opts, clusterID: opts.ClusterID}, nil
}

// sameMethod follows redirects as long as they repeat the request. After 301, 302 and 303 an order would go on as a GET, whose
// answer looks as if it had been carried out.
func sameMethod(next *http.Request, before []*http.Request) error {
	if next.Method != before[0].Method || len(before) >= redirectsMax {
		return http.ErrUseLastResponse
	}
	return nil
}

// URL is the API's root, as http://127.0.0.1:8090/kafka/v3.
func (c *Client) URL() string { return c.root }

// ClusterID asks once which cluster the door belongs to.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	c.mu.Lock()
	id := c.clusterID
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	var clusters api.List[api.Cluster]
	if err := c.send(ctx, http.MethodGet, c.root+"/clusters", nil, &clusters); err != nil {
		return "", err
	}
	if len(clusters.Data) == 0 {
		return "", fmt.Errorf("find the cluster at %s: the server knows none", c.root)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusterID = clusters.Data[0].ClusterID
	return c.clusterID, nil
}

// request is one call below /clusters/{id}.
type request struct {
	method string
	path   []string // segments, unescaped except where they are ours
	query  url.Values
	body   any
}

var errEmptyName = errors.New("a name is empty")

// do sends a request and decodes the answer into out, which may be nil.
func (c *Client) do(ctx context.Context, rq request, out any) error {
	if slices.Contains(rq.path, "") {
		return errEmptyName // the path would be that of the list
	}
	id, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(c.root + "/clusters/" + url.PathEscape(id))
	for _, segment := range rq.path {
		b.WriteString("/" + segment)
	}
	if len(rq.query) > 0 {
		b.WriteString("?" + rq.query.Encode())
	}
	return c.send(ctx, rq.method, b.String(), rq.body, out)
}

func (c *Client) send(ctx context.Context, method, address string, body, out any) error {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode a request: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	rq, err := http.NewRequestWithContext(ctx, method, address, reader)
	if err != nil {
		return fmt.Errorf("make a request for %s: %w", address, err)
	}
	rq.Header.Set("Accept", "application/json")
	rq.Header.Set("User-Agent", c.opts.UserAgent)
	if body != nil {
		rq.Header.Set("Content-Type", "application/json")
	}
	if c.opts.User != "" {
		rq.SetBasicAuth(c.opts.User, c.opts.Password)
	}
	response, err := c.opts.HTTP.Do(rq)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the address stands in Unreachable
		}
		return &Unreachable{URL: c.root, Err: err}
	}
	defer response.Body.Close()
	return decode(response, method, address, out)
}

func decode(response *http.Response, method, address string, out any) error {
	raw, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, address, err)
	}
	if len(raw) > answerMax {
		return fmt.Errorf("read the answer to %s %s: it is longer than %d bytes", method, address, answerMax)
	}
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 && to != "" {
		return &Error{Status: response.StatusCode, Code: response.StatusCode,
			Message: fmt.Sprintf("%s %s was not carried out: the server answers with %s that it is to go to %s. Give that server's URL.",
				method, address, response.Status, to)}
	}
	if response.StatusCode >= 300 {
		var body api.Error
		if err := json.Unmarshal(raw, &body); err != nil || body.Message == "" {
			return &Error{Status: response.StatusCode, Code: response.StatusCode,
				Message: fmt.Sprintf("%s %s was answered with %s, and not by a Kafka REST server. Is the URL right?", method, address, response.Status)}
		}
		return &Error{Status: response.StatusCode, Code: body.Code, Message: body.Message}
	}
	if out == nil || len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w", method, address, err)
	}
	return nil
}

// flags is a query of the flags that are set.
func flags(set map[string]bool) url.Values {
	query := url.Values{}
	for name, on := range set {
		if on {
			query.Set(name, "true")
		}
	}
	return query
}
