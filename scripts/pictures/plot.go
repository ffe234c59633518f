package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// sample is a mirror at one moment.
type sample struct {
	at, lag, rpo float64 // seconds since the start, records, seconds
}

const (
	plotWidth, plotHeight = 760, 300
	plotLeft, plotRight   = 58, 14
	panelHeight           = 108
)

const plotStyle = `.t{font-weight:600;fill:#17262e}.n{fill:#5b6b74}.g{stroke:#dde4e8}.lag{fill:none;stroke:#12506b;stroke-width:1.6}` +
	`.rpo{fill:none;stroke:#b3261e;stroke-width:1.6}.k{stroke:#8a5a00;stroke-dasharray:4 3}.b{fill:#fff}`

// writePlot draws lag above RPO, with the moment at which the source was killed.
func writePlot(file string, samples []sample, killed float64) error {
	last := samples[len(samples)-1].at
	x := func(at float64) float64 { return plotLeft + (plotWidth-plotLeft-plotRight)*at/last }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="11"><style>%s</style><rect class="b" width="%d" height="%d"/>`+"\n",
		plotWidth, plotHeight+26, plotStyle, plotWidth, plotHeight+26)
	panel(&b, 28, "lag", "records behind (hawser_mirror_lag_records)", "", samples, x, func(s sample) float64 { return s.lag })
	panel(&b, 176, "rpo", "RPO (hawser_mirror_rpo_seconds)", " s", samples, x, func(s sample) float64 { return s.rpo })
	fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="18" y2="284" class="k"/><text x="%.1f" y="29" class="n">source killed: only the RPO tells</text>`+"\n", x(killed), x(killed), x(killed)+5)
	for s := 0.0; s <= last; s += 15 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" class="n" text-anchor="middle">%.0f s</text>`+"\n", x(s), plotHeight+2, s)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" class="n">a link of 700 kB/s; every 20 s the source is written faster than that; sampled from /metrics four times a second</text></svg>`+"\n", plotLeft, plotHeight+19)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func panel(b *strings.Builder, top float64, class, title, unit string, samples []sample, x func(float64) float64, value func(sample) float64) {
	most := 1.0
	for _, s := range samples {
		most = max(most, value(s))
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.2, 0.5, 1, 2, 5} {
		if most/(step*part) <= 4.2 {
			step *= part
			break
		}
	}
	highest := math.Ceil(most/step) * step
	y := func(v float64) float64 { return top + panelHeight - panelHeight*v/highest }
	fmt.Fprintf(b, `<text x="%d" y="%.0f" class="t">%s</text>`+"\n", plotLeft, top-9, title)
	for v := 0.0; v <= highest+1e-9; v += step {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="g"/><text x="%d" y="%.1f" class="n" text-anchor="end">%s%s</text>`+"\n",
			plotLeft, plotWidth-plotRight, y(v), y(v), plotLeft-7, y(v)+3.5, grouped(v), unit)
	}
	var points []string
	for _, s := range samples {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.at), y(value(s))))
	}
	fmt.Fprintf(b, `<polyline points="%s" class="%s"/>`+"\n", strings.Join(points, " "), class)
}

// grouped writes a whole number with a comma between thousands.
func grouped(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
