package console_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/hawserio/hawser/console"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	console.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestPageLoadsOnlyWhatIsServedHere(t *testing.T) {
	html := get(t, "/")
	if html.Code != 200 || !strings.HasPrefix(html.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("got %d %s", html.Code, html.Header())
	}
	used := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(html.Body.String(), -1)
	if len(used) < 3 {
		t.Fatalf("the page refers to %v", used)
	}
	for _, m := range used {
		if !strings.HasPrefix(m[1], "/") || strings.HasPrefix(m[1], "//") {
			t.Errorf("the page refers to another host: %s", m[1])
		}
		if strings.HasPrefix(m[1], "/console/") && get(t, m[1]).Code != 200 {
			t.Errorf("%s is not served", m[1])
		}
	}
}

func TestNothingFromTheServerBecomesMarkup(t *testing.T) {
	policy := get(t, "/").Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy would run foreign script: %s", policy)
	}
	script := get(t, "/console/console.js").Body.String() + get(t, "/console/orders.js").Body.String()
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setAttribute(\"on", "srcdoc", "DOMParser"} {
		if strings.Contains(script, way) {
			t.Errorf("the page's script uses %s, which can turn a topic's name into markup", way)
		}
	}
}

func TestUnknownFileIsNotFound(t *testing.T) {
	for _, path := range []string{"/console/", "/console/page/console.js", "/console/..%2fconsole.go"} {
		if w := get(t, path); w.Code != 404 {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
}
