package handler

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestNoiseIsCounted: what strangers do fills no log, and how much of it there was is said.
func TestNoiseIsCounted(t *testing.T) {
	var out bytes.Buffer
	n := noise{log: slog.New(slog.NewTextHandler(&out, nil))}
	for range 1000 {
		n.line(slog.LevelInfo, "connection closed", "err", "malformed")
	}
	n.line(slog.LevelWarn, "connection refused", "err", "too many")
	n.close()
	text := out.String()
	if got := strings.Count(text, "err=malformed"); got != noiseLines {
		t.Errorf("%d lines were written, want %d", got, noiseLines)
	}
	if !strings.Contains(text, "suppressed=980") || !strings.Contains(text, "connection refused") {
		t.Errorf("not all is accounted for:\n%s", text[max(0, len(text)-400):])
	}
}
