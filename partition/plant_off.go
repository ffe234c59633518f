//go:build !plant

package partition

// Faults that tests plant to see that they would be found. In a program they are constants, and gone.
const (
	plantEpochNotRaised       = false // a higher epoch is shown without having been stored (rule E4)
	plantMarkerMissing        = false // a stop leaves transactions open
	plantGenerationNotChecked = false // AppendMirrored takes what was fetched for an earlier generation (rule D3)
	plantSyncSkippedAtStop    = false // a stop point is stored above what is durable (rule D1)
	plantActBeforeStore       = false // an order is carried out before its entry is stored
)
