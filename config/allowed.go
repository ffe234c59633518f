package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// allow is a check with its words.
type allow struct {
	words string
	check func(string) error
}

// with puts an allow into a row.
func (k Key) with(a allow) Key {
	k.Allowed, k.Check = a.words, a.check
	return k
}

func atLeast(low int64) allow {
	return allow{fmt.Sprintf("%d or more", low), func(text string) error {
		if n, _ := strconv.ParseInt(text, 10, 64); n < low {
			return fmt.Errorf("Value must be at least %d", low)
		}
		return nil
	}}
}

func between(low, high int64) allow {
	return allow{fmt.Sprintf("%d to %d", low, high), func(text string) error {
		switch n, _ := strconv.ParseInt(text, 10, 64); {
		case n < low:
			return fmt.Errorf("Value must be at least %d", low)
		case n > high:
			return fmt.Errorf("Value must be no more than %d", high)
		}
		return nil
	}}
}

// orMinusOne allows -1 besides, which stands for unset.
func (a allow) orMinusOne() allow {
	return allow{a.words + ", or -1", func(text string) error {
		if n, _ := strconv.ParseInt(text, 10, 64); n == -1 {
			return nil
		}
		if err := a.check(text); err != nil {
			return fmt.Errorf("%w, or -1", err)
		}
		return nil
	}}
}

func ratio() allow {
	return allow{"0 to 1", func(text string) error {
		if f, _ := strconv.ParseFloat(text, 64); f < 0 || f > 1 || math.IsNaN(f) {
			return errorf("Value must be from 0 to 1")
		}
		return nil
	}}
}

func oneOf(values ...string) allow {
	words := strings.Join(values, ", ")
	return allow{words, func(text string) error {
		if !slices.Contains(values, text) {
			return fmt.Errorf("String must be one of: %s", words)
		}
		return nil
	}}
}

// oneOfFold is oneOf in upper or lower case.
func oneOfFold(values ...string) allow {
	words := strings.Join(values, ", ") + " (case does not matter)"
	return allow{words, func(text string) error {
		if !slices.Contains(values, strings.ToUpper(text)) {
			return fmt.Errorf("String must be one of: %s", words)
		}
		return nil
	}}
}

// someOf allows lists of the values; none, too, where empty.
func someOf(values ...string) allow {
	words := strings.Join(values, ", ")
	return allow{"a list of " + words, func(text string) error {
		for _, item := range splitList(text) {
			if !slices.Contains(values, item) {
				return fmt.Errorf("String must be one of: %s; %q is not", words, item)
			}
		}
		return nil
	}}
}

func notEmpty(what string) allow {
	return allow{what, func(text string) error {
		if text == "" {
			return fmt.Errorf("Value must be %s", what)
		}
		return nil
	}}
}
