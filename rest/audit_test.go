package rest

import (
	"net/http"
	"strings"
	"testing"
)

func TestEveryOrderHasAName(t *testing.T) {
	for _, rt := range routes {
		if name := orderName(rt.method, rt.path); rt.method != http.MethodGet && strings.Contains(name, " ") {
			t.Errorf("%s %s is on record as %q", rt.method, rt.path, name)
		}
	}
}
