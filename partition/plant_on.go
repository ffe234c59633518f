//go:build plant

package partition

import "os"

// The faults that HAWSER_PLANT names, by their words.
var (
	plantEpochNotRaised          = planted("epoch-not-raised")
	plantMarkerMissing           = planted("abort-marker-missing")
	plantGenerationNotChecked    = planted("generation-not-checked")
	plantSyncSkippedAtStop       = planted("sync-skipped-at-stop")
	plantActBeforeStore          = planted("act-before-store")
	plantPositionNotChecked      = planted("position-not-checked")
	plantStopWithoutJump         = planted("stop-without-jump")
	plantStopRecomputed          = planted("stop-recomputed")
	plantFreezeKeepsOpen         = planted("freeze-keeps-open")
	plantShownUnsynced           = planted("shown-unsynced")
	plantGateMissing             = planted("gate-missing")
	plantTransactionUnconfirmed  = planted("transaction-unconfirmed")
	plantForeignSequencesChecked = planted("foreign-sequences-checked")
	plantCutSkipped              = planted("cut-skipped")
	plantJumpLeavesTransactions  = planted("jump-leaves-transactions")
	plantSyncSkipped             = planted("sync-skipped")
	plantCleanedAboveStable      = planted("cleaned-above-stable")
	plantMarkersNotUsed          = planted("markers-not-used")
	plantSwapUnproven            = planted("swap-unproven")
	plantCleanedMirrorCut        = planted("cleaned-mirror-cut")
)

func planted(fault string) bool { return os.Getenv("HAWSER_PLANT") == fault }
