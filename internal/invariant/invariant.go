// Package invariant says that something happened that cannot. Packages call it
// where a rule of theirs is broken and going on would spread the damage. It
// knows no domain and decides nothing: the caller still returns an error.
package invariant

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
)

var broken atomic.Int64

// Broken reports a broken invariant. In tests, and in binaries built with the
// tag invariants, it panics; otherwise it logs with the caller's format and counts, and the caller
// stops what it was doing.
func Broken(format string, args ...any) {
	text := "BUG: " + fmt.Sprintf(format, args...)
	broken.Add(1)
	if Enabled || testing.Testing() {
		panic(text)
	}
	slog.Error(text)
}

// Check reports a broken invariant unless ok.
func Check(ok bool, format string, args ...any) {
	if !ok {
		Broken(format, args...)
	}
}

// Count is how many invariants were found broken since the start; a metric shows it.
func Count() int64 { return broken.Load() }
