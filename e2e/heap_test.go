//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"
)

// mostHeap is what the tests themselves may hold, in bytes; they need a tenth of it. A client in them that runs away would
// otherwise take the machine's memory, and the kernel ends the whole run without a word on which it was.
const mostHeap = 3 << 30

// watchHeap ends the process with a picture of its heap once it holds more than mostHeap.
func watchHeap() {
	for {
		time.Sleep(200 * time.Millisecond)
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc < mostHeap {
			continue
		}
		debug.SetGCPercent(-1) // what allocates goes on while this writes
		fmt.Fprintf(os.Stderr, "panic: the tests hold %d MiB, more than %d MiB, in %d goroutines\n", m.HeapAlloc>>20, mostHeap>>20, runtime.NumGoroutine())
		_ = pprof.Lookup("heap").WriteTo(os.Stderr, 1)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		os.Exit(2)
	}
}
