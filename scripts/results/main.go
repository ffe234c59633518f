// Command results reads go test -json events: it prints go test's own summary
// lines, or the output of what failed, or the slowest tests, or what to run a second time.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type timed struct {
	name    string
	seconds float64
}

func main() {
	fail := flag.Bool("fail", false, "print the output of failed tests and the summary")
	summary := flag.Bool("summary", false, "print the packages' closing lines")
	top := flag.Int("top", 0, "print the n slowest tests")
	again := flag.Int("again", 0, "print, for each package, a pattern of its failed tests; an error if they are more than n, or if "+
		"more than tests failed")
	flag.Parse()
	if *again > 0 {
		if err := printAgain(flag.Args(), *again); err != nil {
			fmt.Fprintln(os.Stderr, "results:", err)
			os.Exit(1)
		}
		return
	}
	var tests []timed
	for _, path := range flag.Args() {
		found, err := read(path, *fail, *summary)
		if err != nil {
			fmt.Fprintln(os.Stderr, "results:", err)
			os.Exit(1)
		}
		tests = append(tests, found...)
	}
	slices.SortFunc(tests, func(a, b timed) int { return int(1000 * (b.seconds - a.seconds)) })
	for _, t := range tests[:min(*top, len(tests))] {
		fmt.Printf("%8.2f s  %s\n", t.seconds, t.name)
	}
}

// read walks one file. A test's output is kept until it is known whether it failed.
func read(path string, fail, summary bool) ([]timed, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var tests []timed
	output := map[string][]string{}
	defer func() {
		if fail {
			printUnended(output)
		}
	}()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text()) // a build failure is plain text
			continue
		}
		key := e.Package + "." + e.Test
		switch {
		case e.Action == "output":
			output[key] = append(output[key], e.Output)
			isSummary := e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "FAIL") ||
				strings.HasPrefix(e.Output, "---"))
			if (summary || fail) && isSummary {
				fmt.Print(e.Output)
			}
		case e.Action == "fail" && fail:
			fmt.Print(strings.Join(output[key], ""))
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(output, key)
			if e.Test != "" && e.Action != "skip" {
				tests = append(tests, timed{strings.TrimPrefix(e.Package, "github.com/hawserio/hawser/") + "." + e.Test, e.Elapsed})
			}
		}
	}
	return tests, lines.Err()
}

// printUnended prints what the tests said that never ended, for what ended their process is often found there only:
// a panic of another goroutine belongs to whichever test ran. Those that had not begun have nothing to say.
func printUnended(output map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(output)) {
		said := slices.DeleteFunc(output[key], func(line string) bool { return strings.HasPrefix(line, "=== ") })
		if len(said) == 0 {
			continue
		}
		fmt.Printf("%s did not end; it said:\n%s\n", key, strings.Join(said[max(0, len(said)-400):], ""))
	}
}
