//go:build plant

package sim

import (
	"os"
	"testing"
)

// TestPlanted runs schedules until the fault that HAWSER_PLANT names is found. It fails then, as every test of a planted fault does.
func TestPlanted(t *testing.T) {
	if os.Getenv("HAWSER_SCHEDULES") == "" {
		t.Setenv("HAWSER_SCHEDULES", "20000")
	}
	n := schedules(t)
	if os.Getenv("HAWSER_PLANT") == "" {
		n = 100 // that nothing is found without one is TestSchedules' to show
	}
	if _, failed := runAll(t, 1, n, nil); failed != nil {
		fail(t, failed)
	}
}
