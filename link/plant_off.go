//go:build !plant

package link

// Planted faults exist in builds for the tests that must find them; here there are none.
const (
	plantSkipClamp      = "clamp-skipped"
	plantActBeforeStore = "act-before-store"
)

func planted(string) bool { return false }
