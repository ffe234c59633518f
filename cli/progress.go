package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	barWidth = 20
	// rateWindow is what the shown rate is measured over: shorter ones jump, longer ones lie about the time left.
	rateWindow = 5 * time.Second
)

// bar shows how far a mirror is.
type bar struct {
	out      io.Writer
	terminal bool
	drawn    bool
	last     string
	looks    []look // of the last rateWindow, oldest first
}

// look is what was fetched by when.
type look struct {
	at      time.Time
	fetched int64
}

func newBar(out io.Writer) *bar { return &bar{out: out, terminal: isTerminal(out)} }

// rate is records per second; 0 where it is not known yet.
func (b *bar) rate(fetched int64, now time.Time) float64 {
	b.looks = append(b.looks, look{now, fetched})
	for len(b.looks) > 2 && now.Sub(b.looks[1].at) >= rateWindow {
		b.looks = b.looks[1:]
	}
	first := b.looks[0]
	took := now.Sub(first.at).Seconds()
	if took <= 0 || fetched <= first.fetched {
		return 0
	}
	return float64(fetched-first.fetched) / took
}

func (b *bar) show(p progress, now time.Time) {
	rate := b.rate(p.fetched, now)
	line := fmt.Sprintf("%s: %s", p.topic, p.status)
	total := p.fetched + p.lag
	switch {
	case b.terminal && total > 0:
		done := int(p.fetched * barWidth / total)
		line = fmt.Sprintf("[%s%s] %d %% %s: %s, %d behind", strings.Repeat("#", done), strings.Repeat("-", barWidth-done),
			p.fetched*100/total, p.topic, p.status, p.lag)
	case total > 0:
		line += fmt.Sprintf(", %d behind (%d %%)", p.lag, p.fetched*100/total)
	}
	line = clean(line + pace(rate, p.lag))
	if b.terminal { // a line that wraps could not be drawn over
		width, _ := terminalSize(b.out)
		line = fit(line, width)
	}
	switch {
	case b.terminal:
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		b.drawn = true
	case line != b.last:
		fmt.Fprintln(b.out, line)
	}
	b.last = line
}

// pace is a rate and the time that what is left takes at it; empty where it is not known.
func pace(rate float64, left int64) string {
	if rate <= 0 || left == 0 {
		return ""
	}
	wait := time.Duration(float64(left) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf(", %.0f records/s, %s left", rate, max(wait, time.Second))
}

// end leaves the bar's line. Repeatable.
func (b *bar) end() {
	if b.drawn {
		fmt.Fprintln(b.out)
		b.drawn = false
	}
}
