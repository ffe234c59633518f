//go:build plant

package link

import (
	"os"
	"sync/atomic"
)

// Faults that a test plants, or HAWSER_PLANT, to see that another test finds them.
const (
	plantSkipClamp      = "clamp-skipped"
	plantActBeforeStore = "act-before-store"
)

var plantedFault atomic.Value // string

func planted(name string) bool {
	return plantedFault.Load() == name || os.Getenv("HAWSER_PLANT") == name
}
