// Package console is the web page at /: links, their mirror topics, states and lag.
// rest mounts it; the page in the browser speaks only REST. It knows nothing of links,
// needs no build step and loads nothing from any other host.
package console

import (
	"embed"
	"net/http"
)

//go:embed page
var page embed.FS

// files is what is served, and as what.
var files = map[string]struct{ name, contentType string }{
	"/":                    {"page/index.html", "text/html; charset=utf-8"},
	"/console/console.css": {"page/console.css", "text/css; charset=utf-8"},
	"/console/console.js":  {"page/console.js", "text/javascript; charset=utf-8"},
	"/console/orders.js":   {"page/orders.js", "text/javascript; charset=utf-8"},
	"/console/icon.svg":    {"page/icon.svg", "image/svg+xml"},
}

// policy lets the page run its own script and ask its own server, and nothing else: should a
// name ever slip through unescaped, the browser still runs none of it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves / and what is below /console/.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		raw, err := page.ReadFile(file.name)
		if err != nil {
			panic("BUG: the console's page is not in the program: " + err.Error())
		}
		h := w.Header()
		h.Set("Content-Type", file.contentType)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(raw) // a reader who left is no error of ours
	})
}
