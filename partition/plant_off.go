//go:build !plant

package partition

// Faults that tests plant to see that they would be found. In a program they are constants, and gone.
const (
	plantEpochNotRaised          = false // a higher epoch is shown without having been stored (rule E4)
	plantMarkerMissing           = false // a stop leaves transactions open
	plantGenerationNotChecked    = false // AppendMirrored takes what was fetched for an earlier generation (rule D3)
	plantSyncSkippedAtStop       = false // a stop point is stored above what is durable (rule D1)
	plantActBeforeStore          = false // an order is carried out before its entry is stored
	plantPositionNotChecked      = false // AppendMirrored takes what was fetched at another position (rule D3)
	plantStopWithoutJump         = false // a stop begins the next epoch (rule E1)
	plantStopRecomputed          = false // a stop that is run again stores a new stop point (rules D1, D9)
	plantFreezeKeepsOpen         = false // a frozen partition takes records (rule R3)
	plantShownUnsynced           = false // what is appended is shown before it is synced (rule D2)
	plantGateMissing             = false // a batch is shown before its epoch is published (rule E4)
	plantTransactionUnconfirmed  = false // a transaction's first batch is taken without its coordinator's word (rule P2)
	plantForeignSequencesChecked = false // sequences of another cluster's producers are checked after a stop (rule P1)
	plantCutSkipped              = false // a restore cuts nothing off (rule T7)
	plantJumpLeavesTransactions  = false // a jump leaves transactions open whose end it passed over (rule D5)
	plantSyncSkipped             = false // nothing is made durable before it is shown (rule D2)
	plantCleanedAboveStable      = false // the cleaner looks above the last stable offset (rule T2)
	plantMarkersNotUsed          = false // the cleaner forgets the markers that it relied on (rule T2)
	plantSwapUnproven            = false // a copy of another history takes a mirror's place (rules E2, T3)
	plantCleanedMirrorCut        = false // a mirror is cut below what its cleaner used (rule T2)
)
