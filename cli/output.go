package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

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
// A field without a human tag is shown only to programs. At a terminal a `screen` tag is the title instead,
// which is shorter ("-": not shown there), a field with the tag unit:"ms" is a moment in Unix ms that is shown as date and time, and
// one with unit:"lag" is unknown if it is below 0.

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
	width := a.width()
	lines := [][]string{titles(reflect.TypeFor[T](), width)}
	for _, row := range rows {
		lines = append(lines, cells(reflect.ValueOf(row), width))
	}
	if width > 0 {
		return writeScreen(a.out, lines, width)
	}
	return writeTable(a.out, lines)
}

// printOne prints one row: a line for each column that has something to say, or an object.
func printOne[T any](a *app, row T) error {
	if a.format != "human" {
		return a.printData(row)
	}
	return writeFields(a.out, titles(reflect.TypeFor[T](), 0), cells(reflect.ValueOf(row), 0))
}

// titles is the columns' titles; width is the terminal's, 0 for none.
func titles(t reflect.Type, width int) []string {
	var out []string
	for field := range fieldsOf(t, width) {
		title := field.Tag.Get("human")
		if short := field.Tag.Get("screen"); short != "" && width > 0 {
			title = short
		}
		out = append(out, title)
	}
	return out
}

func cells(v reflect.Value, width int) []string {
	var out []string
	for field := range fieldsOf(v.Type(), width) {
		value := v.FieldByIndex(field.Index)
		switch unit := field.Tag.Get("unit"); {
		case unit == "ms" && width > 0:
			out = append(out, time.UnixMilli(value.Int()).Format(time.DateTime))
		case unit == "lag" && width > 0 && value.Int() < 0:
			out = append(out, "unknown")
		default:
			out = append(out, cell(value))
		}
	}
	return out
}

// fieldsOf is the columns of a row.
func fieldsOf(t reflect.Type, width int) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			field := t.Field(i)
			shown := field.Tag.Get("human") != "" && (width == 0 || field.Tag.Get("screen") != "-")
			if shown && !yield(field) {
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

// cleanLines is clean for text that may have several lines; what they begin with stays.
func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		lines[i] = line[:indent] + clean(line)
	}
	return strings.Join(lines, "\n")
}

// printData prints a value as JSON or YAML, with the same names in the same order.
func (a *app) printData(value any) error {
	a.printed = true
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

// say tells a person something. A program gets what a command says as one object when it has ended, and on
// stderr where the command has data to print.
func (a *app) say(format string, args ...any) error {
	text := cleanLines(fmt.Sprintf(format, args...))
	if a.format == "json" || a.format == "yaml" {
		a.said = append(a.said, text)
		return nil
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// saidData is what a command said, for programs.
type saidData struct {
	Message string `json:"message"`
}

// endSaying prints what was said to a program.
func (a *app) endSaying() error {
	if len(a.said) == 0 {
		return nil
	}
	text := strings.Join(a.said, "\n")
	if a.printed {
		_, err := fmt.Fprintln(a.err, text)
		return err
	}
	return a.printData(saidData{text})
}
