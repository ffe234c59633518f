// Package resttest is a REST door on a cluster of thin air, for tests of the door and
// of all that speaks to it. Every answer that passes through it is compared with the
// OpenAPI document. It knows no broker.
package resttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/hawserio/hawser/rest"
)

// Checker compares answers with the document.
type Checker struct {
	doc *openapi3.T
	mux *http.ServeMux // finds the path's template
}

// document is read once: it never changes, and nobody writes to it.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(rest.Document)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// NewChecker reads the document that the door serves.
func NewChecker(tb testing.TB) *Checker {
	tb.Helper()
	doc, err := document()
	if err != nil {
		tb.Fatalf("read openapi.yaml: %v", err)
	}
	c := &Checker{doc: doc, mux: http.NewServeMux()}
	for path, item := range doc.Paths.Map() {
		roots := []string{"/kafka/v3", "/v3"}
		if len(item.Servers) > 0 {
			roots = []string{""}
		}
		for _, root := range roots {
			c.mux.HandleFunc(root+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, path) })
		}
	}
	return c
}

// Doc is the document.
func (c *Checker) Doc() *openapi3.T { return c.doc }

// Check says what is wrong with an answer; nil for none and for what the document does not speak of.
func (c *Checker) Check(rq *http.Request, status int, header http.Header, body []byte) error {
	template := c.template(rq)
	op := c.operation(template, rq.Method)
	var response *openapi3.ResponseRef
	if op != nil {
		if response = op.Responses.Status(status); response == nil && status >= 400 {
			response = op.Responses.Default()
		}
		if response == nil {
			return fmt.Errorf("%s answered %d, which the document does not have", op.OperationID, status)
		}
	} else if status >= 400 {
		response = c.doc.Components.Responses["Failure"]
	}
	if response == nil {
		return nil
	}
	return checkBody(response.Value, rq, status, header, body)
}

func checkBody(response *openapi3.Response, rq *http.Request, status int, header http.Header, body []byte) error {
	media := response.Content.Get("application/json")
	if rq.Method == http.MethodHead {
		return nil // a recorder keeps the body that a server would drop
	}
	if media == nil {
		if len(body) > 0 {
			return fmt.Errorf("status %d has a body: %s", status, body)
		}
		return nil
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("status %d has the content type %q", status, got)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("status %d: body is not JSON: %w: %s", status, err, body)
	}
	if err := media.Schema.Value.VisitJSON(value, openapi3.VisitAsResponse(), openapi3.MultiErrors(),
		openapi3.EnableFormatValidation()); err != nil {
		return fmt.Errorf("status %d: %w\n%s", status, err, body)
	}
	return nil
}

// template is the path in the document that a request is for; "" for none.
func (c *Checker) template(rq *http.Request) string {
	h, pattern := c.mux.Handler(rq)
	if pattern == "" {
		return ""
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, rq)
	return w.Body.String()
}

func (c *Checker) operation(template, method string) *openapi3.Operation {
	item := c.doc.Paths.Find(template)
	if item == nil {
		return nil
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return item.GetOperation(strings.ToUpper(method))
}

// Wrap stands before a door and reports every answer that does not fit the document as an error of tb.
func (c *Checker) Wrap(tb testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, rq)
		result := rec.Result()
		body := rec.Body.Bytes()
		if err := c.Check(rq, result.StatusCode, result.Header, body); err != nil {
			tb.Errorf("%s %s: %v", rq.Method, rq.URL, err)
		}
		for name, values := range result.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(result.StatusCode)
		_, _ = io.Copy(w, bytes.NewReader(body))
	})
}
