package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/resttest"
)

// TestProfilesAreForWhoAltersTheCluster asks for a profile as several users, and of a broker that gives none.
func TestProfilesAreForWhoAltersTheCluster(t *testing.T) {
	t.Parallel()
	ask := func(c *resttest.Cluster, user, method string) int {
		rq := httptest.NewRequest(method, "/debug/pprof/goroutine?debug=1", nil)
		rq.SetBasicAuth(user, "secret")
		answer := httptest.NewRecorder()
		c.Door.ServeHTTP(answer, rq)
		if answer.Code == http.StatusOK && !strings.HasPrefix(answer.Body.String(), "goroutine profile:") {
			t.Errorf("%s %s: %.80s", method, user, answer.Body)
		}
		return answer.Code
	}
	with := func(profiles bool) *resttest.Cluster {
		return resttest.New(t, func(d *rest.Deps) {
			d.Access, d.Profiles = access{"admin": {"ALTER CLUSTER"}, "reader": {"DESCRIBE CLUSTER"}}, profiles
		})
	}
	open, shut := with(true), with(false)
	for _, row := range []struct {
		c            *resttest.Cluster
		user, method string
		want         int
	}{
		{open, "admin", "GET", http.StatusOK},
		{open, "reader", "GET", http.StatusForbidden},
		{open, "admin", "POST", http.StatusMethodNotAllowed},
		{shut, "admin", "GET", http.StatusNotFound},
	} {
		if got := ask(row.c, row.user, row.method); got != row.want {
			t.Errorf("%s %s: %d, not %d", row.method, row.user, got, row.want)
		}
	}
}
