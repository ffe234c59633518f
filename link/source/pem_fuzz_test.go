package source

import (
	"strings"
	"testing"
)

func FuzzPEM(f *testing.F) {
	f.Add("-----BEGIN X-----\nAAAA\n-----END X-----")
	f.Add("-----BEGIN ")
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.Contains(text, "-----BEGIN") {
			return // it would be a file's name
		}
		_, _ = readPEM(text)
	})
}
