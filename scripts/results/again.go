package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// failures is what failed in a run: tests by package, and packages that failed by themselves.
type failures struct {
	tests    map[string]map[string]bool
	packages map[string]bool
	panicked bool
}

// printAgain writes "package pattern" for each package with failed tests. Worth a second try are only single
// tests that said they failed: not what did not build, ran out of time or panicked, and not more than most of them.
func printAgain(paths []string, most int) error {
	f := failures{map[string]map[string]bool{}, map[string]bool{}, false}
	for _, path := range paths {
		if err := f.read(path); err != nil {
			return err
		}
	}
	total := 0
	for pkg := range f.packages {
		if len(f.tests[pkg]) == 0 {
			return fmt.Errorf("%s failed without a failed test", pkg)
		}
	}
	for _, tests := range f.tests {
		total += len(tests)
	}
	switch {
	case f.panicked:
		return errors.New("a test panicked")
	case total == 0:
		return errors.New("no test failed")
	case total > most:
		return fmt.Errorf("%d tests failed, more than %d", total, most)
	}
	for _, pkg := range slices.Sorted(maps.Keys(f.tests)) {
		fmt.Printf("%s ^(%s)$\n", pkg, strings.Join(slices.Sorted(maps.Keys(f.tests[pkg])), "|"))
	}
	return nil
}

func (f *failures) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if e.Action == "output" && (strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")) {
			f.panicked = true
		}
		if e.Action != "fail" {
			continue
		}
		name, _, _ := strings.Cut(e.Test, "/")
		if name == "" {
			f.packages[e.Package] = true
			continue
		}
		if f.tests[e.Package] == nil {
			f.tests[e.Package] = map[string]bool{}
		}
		f.tests[e.Package][name] = true
	}
	return lines.Err()
}
