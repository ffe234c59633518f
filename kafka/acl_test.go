package kafka

import (
	"strings"
	"testing"
)

func TestACLOperations(t *testing.T) {
	for number := int8(1); number <= 15; number++ {
		word := ACLOperation(number)
		for _, as := range []string{word, strings.ToLower(word), strings.ReplaceAll(word, "_", ""), " " + strings.ReplaceAll(word, "_", "-")} {
			if got, err := ParseACLOperation(as); err != nil || got != number {
				t.Errorf("%q is %d (%v), want %d", as, got, err, number)
			}
		}
	}
	if ACLOperation(3) != "READ" || ACLOperation(15) != "TWO_PHASE_COMMIT" || ACLOperation(16) != "UNKNOWN(16)" || ACLOperation(-1) != "UNKNOWN(-1)" {
		t.Errorf("%s %s %s %s", ACLOperation(3), ACLOperation(15), ACLOperation(16), ACLOperation(-1))
	}
	for _, bad := range []string{"", "UNKNOWN", "UNKNOWN(16)", "FLY"} {
		if got, err := ParseACLOperation(bad); err == nil {
			t.Errorf("%q is %d", bad, got)
		}
	}
}
