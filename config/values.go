package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Values reads what was set over the defaults. Layers are looked through in
// order; the first that has the name wins. It must have passed Check.
func (t *Table) Values(layers ...map[string]string) Values { return Values{table: t, layers: layers} }

// Values is a complete set; the methods panic for names that are not in the
// table. It holds the layers, not copies of them.
type Values struct {
	table  *Table
	layers []map[string]string
}

// lookup is the value as written, and whether there is one at all.
func (v Values) lookup(name string) (string, bool) {
	k, ok := v.table.Key(name)
	if !ok {
		panic("BUG: no " + v.table.kind + " config is named " + name)
	}
	for _, layer := range v.layers {
		if value, ok := layer[name]; ok {
			return value, true
		}
	}
	return k.Default, !k.Unset
}

// Set reports whether the key has a value: it was set, or has a default.
func (v Values) Set(name string) bool {
	_, ok := v.lookup(name)
	return ok
}

// IsDefault reports whether no layer sets the key.
func (v Values) IsDefault(name string) bool {
	for _, layer := range v.layers {
		if _, ok := layer[name]; ok {
			return false
		}
	}
	return true
}

// Text is the value without blanks around it; "" where there is none.
func (v Values) Text(name string) string {
	value, _ := v.lookup(name)
	return strings.TrimSpace(value)
}

// Bool is the value of a boolean key.
func (v Values) Bool(name string) bool {
	return strings.EqualFold(v.Text(name), "true")
}

// Int is the value of an int, short or long key; 0 where there is none.
func (v Values) Int(name string) int64 {
	n, _ := strconv.ParseInt(v.Text(name), 10, 64)
	return n
}

// Float is the value of a double key; 0 where there is none.
func (v Values) Float(name string) float64 {
	f, _ := strconv.ParseFloat(v.Text(name), 64)
	return f
}

// Millis is the value of a key in milliseconds. Negative values, as -1 for "no
// limit", are -1ns; what is too long for a Duration is the longest one (292 years).
func (v Values) Millis(name string) time.Duration { return millis(v.Text(name)) }

func millis(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	switch {
	case n < 0:
		return -1
	case n > math.MaxInt64/int64(time.Millisecond):
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}

// List is the items of a list key, without blanks around them; none where it is empty.
func (v Values) List(name string) []string { return splitList(v.Text(name)) }

func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// check says whether text is a value of the type, by Kafka's rules (ConfigDef.parseType).
func (t Type) check(text string) error {
	text = strings.TrimSpace(text)
	switch t {
	case Bool:
		if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
			return fmt.Errorf("Expected value to be either true or false")
		}
	case Short:
		return checkInteger(text, 16, "short")
	case Int:
		return checkInteger(text, 32, "int")
	case Long:
		return checkInteger(text, 64, "long")
	case Double:
		if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsNaN(f) {
			return fmt.Errorf("Not a number of type DOUBLE")
		}
	}
	return nil
}

func checkInteger(text string, bits int, name string) error {
	if _, err := strconv.ParseInt(text, 10, bits); err != nil {
		low, high := int64(-1)<<(bits-1), int64(1)<<(bits-1)-1
		return fmt.Errorf("Not a number of type %s: want a whole number from %d to %d", strings.ToUpper(name), low, high)
	}
	return nil
}
