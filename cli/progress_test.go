package cli

import (
	"bytes"
	"testing"
	"time"
)

func TestTheRateIsThatOfTheLastSeconds(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out)
	at := time.Unix(1000, 0)
	for _, look := range []struct{ second, fetched, lag int64 }{{0, 0, 1000}, {1, 100, 900}, {8, 800, 200}, {9, 1000, 0}} {
		b.show(progress{topic: "t", status: "ACTIVE", fetched: look.fetched, lag: look.lag}, at.Add(time.Duration(look.second)*time.Second))
	}
	want := `t: ACTIVE, 1000 behind (0 %)
t: ACTIVE, 900 behind (10 %), 100 records/s, 9s left
t: ACTIVE, 200 behind (80 %), 100 records/s, 2s left
t: ACTIVE, 0 behind (100 %)
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	b.terminal = true
	b.show(progress{topic: "t", status: "ACTIVE", fetched: 500, lag: 500}, at.Add(20*time.Second))
	b.end()
	b.end()
	if got, want := out.String(), "\r\x1b[K[##########----------] 50 % t: ACTIVE, 500 behind\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestALineFitsTheTerminal(t *testing.T) {
	for _, row := range []struct {
		line  string
		width int
		want  string
	}{
		{"orders", 80, "orders"}, {"orders", 7, "orders"}, {"orders", 6, "orde…"}, {"übermäßig", 6, "über…"}, {"orders", 1, "orders"}, {"", 0, ""},
	} {
		if got := fit(row.line, row.width); got != row.want {
			t.Errorf("%q in %d: got %q, want %q", row.line, row.width, got, row.want)
		}
	}
	if width, height := terminalSize(nil); width != usualWidth || height != usualHeight {
		t.Errorf("no terminal is %d by %d", width, height)
	}
}
