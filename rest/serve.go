package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/rest/api"
)

// bodyMax bounds a request's body, in bytes. The longest honest ones are lists of mirror names.
const bodyMax = 1 << 20

// prefixes are the two ways to spell the API's root: that of the embedded server and of the cloud, and that of the proxy.
var prefixes = []string{"/kafka/v3", "/v3"}

type server struct {
	Deps
	mux *http.ServeMux
}

// call is one request on its way through a handler.
type call struct {
	*server
	w         http.ResponseWriter
	r         *http.Request
	prefix    string // the spelling that was used
	principal string
	ordered   ordered
}

// mount puts the table on the mux. Methods are dispatched here rather than by the mux,
// so that a wrong one is answered in JSON as everything else.
func (s *server) mount() {
	paths := map[string]map[string]route{}
	for _, rt := range routes {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]route{}
		}
		paths[rt.path][rt.method] = rt
	}
	for path, methods := range paths {
		for _, prefix := range prefixes {
			s.mux.HandleFunc(prefix+path, func(w http.ResponseWriter, r *http.Request) {
				s.dispatch(&call{server: s, w: w, r: r, prefix: prefix}, methods)
			})
		}
	}
	s.mountBeside()
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, notFound("HTTP 404 Not Found: there is nothing at %s. What there is stands in /openapi.yaml.", r.URL.Path), aboutLink)
	})
}

func (s *server) dispatch(c *call, methods map[string]route) {
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	rt, ok := methods[method]
	if !ok {
		s.fail(c.w, c.r, wrongMethod(c.r, methods), aboutLink)
		return
	}
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, bodyMax)
	err := c.login(rt.needs)
	if err == nil {
		err = c.checkPath()
	}
	if err == nil {
		err = rt.do(c)
	}
	c.audit(rt, err)
	if err != nil {
		s.fail(c.w, c.r, err, rt.about)
	}
}

func wrongMethod(r *http.Request, methods map[string]route) error {
	var allow []string
	for m := range methods {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return &failure{status: 405, code: 405, allow: strings.Join(allow, ", "),
		text: fmt.Sprintf("HTTP 405 Method Not Allowed: %s takes %s, not %s.", r.URL.Path, strings.Join(allow, ", "), r.Method)}
}

// guard stands before the mux: it catches panics, refuses paths that the mux would
// redirect, and requests that a foreign web page sends with a visitor's browser.
func (s *server) guard() http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := &sentWriter{ResponseWriter: w}
		sent.bound()
		defer sent.bound() // for what the server has buffered
		defer s.rescue(sent, r)
		if r.ContentLength != 0 {
			// Also a body that nobody here reads must end: the server waits for it after the answer.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // not every connection has one
		}
		if err := crossOrigin.Check(r); err != nil {
			s.fail(sent, r, &failure{status: 403, code: 403, text: "This request comes from another web page: " + err.Error() +
				". Only the console on this very address may order; programs send no Origin header."}, aboutLink)
			return
		}
		direct := straight(r)
		if direct == nil {
			s.fail(sent, r, badRequest("The path has an empty segment, a '.' or a '..'. Give a name in each of its places; /openapi.yaml "+
				"lists the paths there are."), aboutLink)
			return
		}
		s.mux.ServeHTTP(sent, direct)
	})
}

// straight gives the request without a slash at the end; nil if its path is not in its shortest form.
func straight(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	if r.Method == http.MethodConnect || path == "/" || path == "" || path == "*" {
		return r
	}
	trimmed := strings.TrimSuffix(path, "/")
	for _, segment := range strings.Split(strings.TrimPrefix(trimmed, "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return nil
		}
	}
	if trimmed == path {
		return r
	}
	clone := *r
	u := *r.URL
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	clone.URL = &u
	return &clone
}

// rescue answers a panic with 500, unless the answer has begun: then the connection is cut.
func (s *server) rescue(w *sentWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.Logger.Error("REST handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.sent {
		panic(http.ErrAbortHandler)
	}
	writeJSON(w, 500, api.Error{Code: 500, Message: "Internal Server Error: this is a bug; the broker's log has the details."})
}

// sentWriter remembers whether an answer has begun.
type sentWriter struct {
	http.ResponseWriter
	sent bool
}

// writeTime is how long a piece of an answer may wait for a reader that does not read.
const writeTime = time.Minute

// bound sets the deadline for what is written next.
func (w *sentWriter) bound() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime)) // not every connection has one
}

func (w *sentWriter) WriteHeader(status int) {
	w.sent = true
	w.bound()
	w.ResponseWriter.WriteHeader(status)
}

func (w *sentWriter) Write(b []byte) (int, error) {
	w.sent = true
	w.bound()
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *sentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fail writes the answer to an error; what is our fault is logged as well.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error, about subject) {
	f := failureOf(err, about)
	if f.status >= 500 && f.status != http.StatusServiceUnavailable {
		s.Logger.Error("REST request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if f.allow != "" {
		w.Header().Set("Allow", f.allow)
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="hawser", charset="UTF-8", Bearer realm="hawser"`)
	}
	writeJSON(w, f.status, f.body())
}

func (c *call) json(status int, body any) error {
	writeJSON(c.w, status, body)
	return nil
}

func (c *call) created(location string, body any) error {
	c.w.Header().Set("Location", location)
	return c.json(http.StatusCreated, body)
}

func (c *call) noContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeJSON writes one answer. Every body here is JSON with exactly this type: clients
// generated from the vendor's document do not decode another.
func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic("BUG: marshal an answer: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // a reader who left is no error of ours
}

// self is the absolute address of a path below the API's root, spelled as the client spelled it.
func (c *call) self(segments ...string) string {
	var b strings.Builder
	b.WriteString("http")
	if c.r.TLS != nil {
		b.WriteString("s")
	}
	b.WriteString("://" + c.r.Host + c.prefix + "/clusters/" + escape(c.Cluster.ID()))
	for _, segment := range segments {
		b.WriteString("/" + segment)
	}
	return b.String()
}
