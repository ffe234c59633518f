//go:build plant

package link

import (
	"testing"

	"github.com/hawserio/hawser/link/mirror"
)

// plant puts a fault in for one test.
func plant(t *testing.T, name string) {
	t.Helper()
	plantedFault.Store(name)
	t.Cleanup(func() { plantedFault.Store("") })
}

func TestPlantedSkippedClampIsFound(t *testing.T) {
	r := newSerialRig(t)
	plant(t, plantSkipClamp)
	found := lateSync(r)
	if found == "" && len(r.violated()) == 0 {
		t.Error("nobody noticed that the clamp was skipped")
	}
	r.violated()
}

func TestPlantedActBeforeStoreIsFound(t *testing.T) {
	r := newSerialRig(t)
	plant(t, plantActBeforeStore)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopped)
	if len(r.violated()) == 0 {
		t.Error("nobody noticed that partitions opened before the order was stored")
	}
}
