package rest

import (
	"net/http"
	"net/http/pprof"
)

// profiling is what asks for a profile: its answer tells of all that the broker
// does, so it needs the right to alter the cluster, as nothing shown here is per topic.
var profiling = alterCluster

// mountProfiles puts Go's profiles under /debug/pprof/. Every path is routed by name:
// the package's own registration is on a mux that nobody serves.
func (s *server) mountProfiles() {
	for path, profile := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			c := &call{server: s, w: w, r: r}
			if err := c.login(profiling); err != nil {
				s.fail(w, r, err, aboutLink)
				return
			}
			s.reading(w, r, profile)
		})
	}
}
