package invariant_test

import (
	"strings"
	"testing"

	"github.com/hawserio/hawser/internal/invariant"
)

func TestBrokenPanicsInTests(t *testing.T) {
	before := invariant.Count()
	defer func() {
		got, _ := recover().(string)
		if !strings.HasPrefix(got, "BUG: ") || !strings.Contains(got, "offset 7") {
			t.Fatalf("panicked with %q", got)
		}
		if invariant.Count() != before+1 {
			t.Fatal("not counted")
		}
	}()
	invariant.Check(true, "fine")
	invariant.Check(false, "offset %d", 7)
}
