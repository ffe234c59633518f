package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// writeTable aligns the columns and rules the titles off.
func writeTable(w io.Writer, lines [][]string) error {
	widths := columnWidths(lines)
	var b strings.Builder
	for n, line := range lines {
		var row strings.Builder
		for i, text := range line {
			if i > 0 {
				row.WriteString(" | ")
			}
			row.WriteString(text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)))
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
		if n == 0 {
			for i, width := range widths {
				if i > 0 {
					b.WriteString("-+-")
				}
				b.WriteString(strings.Repeat("-", width))
			}
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// leastWidth is what a column is wrapped to at least, in characters, and paragraphsMax how many rows are shown as
// paragraphs: more are a table again, which the terminal breaks.
const (
	leastWidth    = 16
	paragraphsMax = 40
)

// writeScreen writes a table for a terminal. One that is too wide for it is made narrower by steps that lose nothing:
// columns in which no row has anything go, the first ones that say the same in every row are said once above, long texts
// wrap, and at last each row is a paragraph.
func writeScreen(w io.Writer, lines [][]string, width int) error {
	if tableWidth(lines) < width {
		return writeTable(w, lines)
	}
	lines = withoutColumns(lines, func(i int) bool {
		return !slices.ContainsFunc(lines[1:], func(row []string) bool { return row[i] != "" })
	})
	if tableWidth(lines) >= width && len(lines) > 2 {
		if same := sameColumns(lines[1:]); same > 0 && same < len(lines[0]) {
			if err := writeFields(w, lines[0][:same], lines[1][:same]); err != nil {
				return err
			}
			fmt.Fprintln(w)
			lines = withoutColumns(lines, func(i int) bool { return i < same })
		}
	}
	if tableWidth(lines) < width {
		return writeTable(w, lines)
	}
	if wrapped := wrapColumns(lines, width); tableWidth(wrapped) < width {
		return writeTable(w, wrapped)
	}
	if len(lines)-1 > paragraphsMax {
		return writeTable(w, lines)
	}
	for n, row := range lines[1:] {
		if n > 0 {
			fmt.Fprintln(w)
		}
		if err := writeFields(w, lines[0], row); err != nil {
			return err
		}
	}
	return nil
}

// writeFields writes one row as a line for each column that has something to say.
func writeFields(w io.Writer, names, values []string) error {
	width := 0
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name))
	}
	for i, name := range names {
		if values[i] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width+1, name+":", values[i]); err != nil {
			return err
		}
	}
	return nil
}

// sameColumns is how many columns from the first one on say the same in every row: what the rows are of. Figures behind
// them that happen to be equal do not count.
func sameColumns(rows [][]string) int {
	n := 0
	for n < len(rows[0]) && !slices.ContainsFunc(rows, func(row []string) bool { return row[n] != rows[0][n] }) {
		n++
	}
	return n
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

func tableWidth(lines [][]string) int {
	width := 0
	for i, w := range columnWidths(lines) {
		if i > 0 {
			width += len(" | ")
		}
		width += w
	}
	return width
}

func withoutColumns(lines [][]string, drop func(i int) bool) [][]string {
	out := make([][]string, len(lines))
	for n, line := range lines {
		for i, text := range line {
			if !drop(i) {
				out[n] = append(out[n], text)
			}
		}
	}
	return out
}

// wrapColumns breaks the texts of the widest columns between words until the table is narrower than the terminal, or no
// column gives any more. A row becomes as many lines as its longest text.
func wrapColumns(lines [][]string, width int) [][]string {
	widths := columnWidths(lines)
	total := tableWidth(lines)
	for total >= width {
		widest := slices.Index(widths, slices.Max(widths))
		to := max(leastWidth, widths[widest]-(total-width+1))
		if to >= widths[widest] || longestWord(lines, widest) > to {
			return lines
		}
		total -= widths[widest] - to
		widths[widest] = to
	}
	out := [][]string{lines[0]}
	for _, row := range lines[1:] {
		parts := make([][]string, len(row))
		for i, text := range row {
			parts[i] = wrapText(text, widths[i])
		}
		high := len(slices.MaxFunc(parts, func(a, b []string) int { return len(a) - len(b) }))
		for n := range high {
			line := make([]string, len(row))
			for i, part := range parts {
				if n < len(part) {
					line[i] = part[n]
				}
			}
			out = append(out, line)
		}
	}
	return out
}

func longestWord(lines [][]string, column int) int {
	longest := utf8.RuneCountInString(lines[0][column])
	for _, row := range lines[1:] {
		for word := range strings.SplitSeq(row[column], " ") {
			longest = max(longest, utf8.RuneCountInString(word))
		}
	}
	return longest
}

// wrapText breaks a text between words into lines of a width; a longer word is a line of its own.
func wrapText(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
