//go:build plant

package partition

import (
	"testing"

	"github.com/hawserio/hawser/meta"
)

// TestPlantedFaultsAreFound switches each fault on and wants the check of its rule to
// fail; with all of them off each check passes.
func TestPlantedFaultsAreFound(t *testing.T) {
	stopped := func(t *testing.T) error {
		b := newBed(t, meta.RoleMirror, 1)
		b.mirrorOpenTransactions()
		if err := b.stop(); err != nil {
			return err
		}
		return checkStopped(b)
	}
	over := func(check func(*bed) error) func(*testing.T) error {
		return func(t *testing.T) error { return check(newBed(t, meta.RoleMirror, 1)) }
	}
	order := func(t *testing.T) error { return checkStopOrder(t) }
	crashes := func(t *testing.T) error {
		for seed := range uint64(10) {
			if _, _, err := crashAll(t, seed); err != nil {
				return err
			}
		}
		return nil
	}
	for _, row := range []struct {
		fault string
		on    *bool
		check func(*testing.T) error
	}{
		{"epoch-not-raised", &plantEpochNotRaised, over(checkEpochGate)},
		{"epoch-not-raised", &plantEpochNotRaised, over(checkCut)},
		{"abort-marker-missing", &plantMarkerMissing, stopped},
		{"abort-marker-missing", &plantMarkerMissing, crashes},
		{"generation-not-checked", &plantGenerationNotChecked, over(checkStale)},
		{"sync-skipped-at-stop", &plantSyncSkippedAtStop, order},
		{"sync-skipped-at-stop", &plantSyncSkippedAtStop, crashes},
		{"act-before-store", &plantActBeforeStore, order},
		{"act-before-store", &plantActBeforeStore, crashes},
	} {
		t.Run(row.fault, func(t *testing.T) {
			if err := row.check(t); err != nil {
				t.Fatalf("without the fault: %v", err)
			}
			*row.on = true
			defer func() { *row.on = false }()
			err := row.check(t)
			if err == nil {
				t.Fatal("the fault was not found")
			}
			t.Logf("found: %v", err)
		})
	}
}
