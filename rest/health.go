package rest

import (
	_ "embed"
	"net/http"

	"github.com/hawserio/hawser/rest/api"
)

// Document is the API in OpenAPI 3.
//
//go:embed openapi.yaml
var Document []byte

func live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.Ready != nil {
		if err := s.Ready(); err != nil {
			writeJSON(w, http.StatusServiceUnavailable, api.Health{Status: "not ready", Message: err.Error()})
			return
		}
	}
	writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(Document) // a reader who left is no error of ours
}
