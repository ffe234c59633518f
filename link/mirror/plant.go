package mirror

import "github.com/hawserio/hawser/internal/plant"

// faulty is a cell with the fault in it that is planted, if one is.
func faulty(s State, e Event, c cell) cell {
	switch {
	case plant.On("hand-over-skipped") && s == PendingSynchronize && e == Drained: // rule R2
		return to(Stopping, StopFetch, ClampGroups, Fence)
	case plant.On("handed-over-fails-over") && s == HandedOver && e == FailoverAsked: // rule R2
		return to(Stopping, KillReversal, ClampGroups, Fence)
	case plant.On("stop-without-fence") && s == Active && e == FailoverAsked: // rule D1
		return to(Stopped, StopFetch, ClampGroups)
	case plant.On("restored-before-cut") && s == PendingSetup && e == CutsStored: // rule T7
		return to(Active, StartFetch)
	}
	return c
}
