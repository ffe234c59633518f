package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

var formats = []string{"human", "json", "yaml"}

func (a *app) checkFormat() error {
	if slices.Contains(formats, a.format) {
		return nil
	}
	return fmt.Errorf("the output %q is unknown. Use -o %s", a.format, strings.Join(formats, ", -o "))
}

// A row is a struct: `human` tags are the columns' titles, `json` tags the fields.
// A field without a human tag is shown only to programs.

// printRows prints a list of rows: a table, or an array.
func printRows[T any](a *app, rows []T) error {
	if a.format != "human" {
		if rows == nil {
			rows = []T{}
		}
		return a.printData(rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "None found.")
		return err
	}
	var lines [][]string
	lines = append(lines, titles(reflect.TypeFor[T]()))
	for _, row := range rows {
		lines = append(lines, cells(reflect.ValueOf(row)))
	}
	return writeTable(a.out, lines)
}

// printOne prints one row: a line for each column that has something to say, or an object.
func printOne[T any](a *app, row T) error {
	if a.format != "human" {
		return a.printData(row)
	}
	names, values := titles(reflect.TypeFor[T]()), cells(reflect.ValueOf(row))
	width := 0
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name))
	}
	for i, name := range names {
		if values[i] == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.out, "%-*s  %s\n", width+1, name+":", values[i]); err != nil {
			return err
		}
	}
	return nil
}

func titles(t reflect.Type) []string {
	var out []string
	for field := range fieldsOf(t) {
		out = append(out, field.Tag.Get("human"))
	}
	return out
}

func cells(v reflect.Value) []string {
	var out []string
	for field := range fieldsOf(v.Type()) {
		out = append(out, cell(v.FieldByIndex(field.Index)))
	}
	return out
}

// fieldsOf is the columns of a row.
func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if field := t.Field(i); field.Tag.Get("human") != "" && !yield(field) {
				return
			}
		}
	}
}

func cell(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		var parts []string
		for i := range v.Len() {
			parts = append(parts, fmt.Sprint(v.Index(i).Interface()))
		}
		return clean(strings.Join(parts, ", "))
	}
	return clean(fmt.Sprint(v.Interface()))
}

// clean keeps text of a server from steering the terminal or breaking a table.
func clean(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control) {
			return -1
		}
		return r
	}, text)
}

// valueMax is the longest config value shown to a person, in characters: one PEM must not
// push every table off the screen.
const valueMax = 80

// fitting cuts a value for a person; programs get all of it.
func (a *app) fitting(value string) string {
	runes := []rune(value)
	if a.format != "human" || len(runes) <= valueMax {
		return value
	}
	return string(runes[:valueMax-1]) + "…"
}

// cleanLines is clean for text that may have several lines.
func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// writeTable aligns the columns and rules the titles off.
func writeTable(w io.Writer, lines [][]string) error {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
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

// printData prints a value as JSON or YAML, with the same names in the same order.
func (a *app) printData(value any) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	if a.format == "json" {
		_, err := a.out.Write(raw.Bytes())
		return err
	}
	var node yaml.Node // JSON is YAML, and a node keeps the order
	if err := yaml.Unmarshal(raw.Bytes(), &node); err != nil {
		return fmt.Errorf("turn the output into YAML: %w", err)
	}
	blockStyle(&node)
	out := yaml.NewEncoder(a.out)
	out.SetIndent(2)
	if err := out.Encode(&node); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return out.Close()
}

func blockStyle(node *yaml.Node) {
	node.Style &^= yaml.FlowStyle
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" {
		node.Style = 0 // the encoder quotes again what needs it
	}
	for _, child := range node.Content {
		blockStyle(child)
	}
}

func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintln(a.out, cleanLines(fmt.Sprintf(format, args...)))
	return err
}
