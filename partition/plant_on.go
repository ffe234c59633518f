//go:build plant

package partition

import "os"

// The faults that HAWSER_PLANT names, by their words.
var (
	plantEpochNotRaised       = planted("epoch-not-raised")
	plantMarkerMissing        = planted("abort-marker-missing")
	plantGenerationNotChecked = planted("generation-not-checked")
	plantSyncSkippedAtStop    = planted("sync-skipped-at-stop")
	plantActBeforeStore       = planted("act-before-store")
)

func planted(fault string) bool { return os.Getenv("HAWSER_PLANT") == fault }
