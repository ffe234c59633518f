package hawser_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	conformancePage = "docs/conformance.md"
	conformanceKeys = "testdata/conformance.tsv"
)

var conformanceEvents = flag.String("events", "", "outputs of go test -json, with commas between: every test of docs/conformance.md must have passed in one of them")

// promise is a row of the page: what is promised, and the tests that show it or what is missing.
type promise struct {
	keys    []string
	tests   []string // package.Test
	missing string
}

var (
	conformanceKey  = regexp.MustCompile(`^\d+\.\d+$`)
	conformanceTest = regexp.MustCompile("^`([a-z0-9/]+\\.Test[A-Za-z0-9_]+)`$")
)

// readConformance reads both tables of the page.
func readConformance(t *testing.T) (promises, others []promise) {
	t.Helper()
	text, err := os.ReadFile(conformancePage)
	if err != nil {
		t.Fatal(err)
	}
	table := 0
	for n, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "## Promises"):
			table = 1
		case strings.HasPrefix(line, "## No promises"):
			table = 2
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || table == 0 || strings.HasPrefix(cells[0], "---") || strings.HasPrefix(strings.TrimSpace(cells[0]), "key") {
			continue
		}
		row := promise{keys: strings.Split(strings.TrimSpace(cells[0]), ", ")}
		if len(cells) != 4-table || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("%s:%d: %d cells: %s", conformancePage, n+1, len(cells), line)
			continue
		}
		if table == 2 {
			others = append(others, row)
			continue
		}
		shown := strings.TrimSpace(cells[2])
		if row.missing = strings.TrimPrefix(shown, "missing: "); row.missing == shown {
			row.missing = ""
			for _, name := range strings.Split(shown, ", ") {
				found := conformanceTest.FindStringSubmatch(name)
				if found == nil {
					t.Errorf("%s:%d: %q names no test", conformancePage, n+1, name)
					continue
				}
				row.tests = append(row.tests, found[1])
			}
		}
		promises = append(promises, row)
	}
	return promises, others
}

// conformanceCounts reads how many sentences each section has.
func conformanceCounts(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(conformanceKeys)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		count, err := strconv.Atoi(cells[1])
		if err != nil || len(cells) != 3 {
			t.Fatalf("%s: %q: %v", conformanceKeys, line, err)
		}
		for i := range count {
			keys[fmt.Sprintf("%s.%d", cells[0], i+1)] = true
		}
	}
	return keys
}

// TestConformance_EverySentenceIsInOneList also holds the tests that the page names against the tree.
func TestConformance_EverySentenceIsInOneList(t *testing.T) {
	promises, others := readConformance(t)
	left := conformanceCounts(t)
	missing := map[string]int{}
	sentences := len(left)
	for _, row := range slices.Concat(promises, others) {
		for _, key := range row.keys {
			if !conformanceKey.MatchString(key) || !left[key] {
				t.Errorf("%s: %q is in both lists, twice in one, or no sentence", conformancePage, key)
			}
			delete(left, key)
		}
		if row.missing != "" {
			missing[row.missing]++
		}
	}
	for key := range left {
		t.Errorf("%s: sentence %s is in neither list", conformancePage, key)
	}
	there := testsInTree(t)
	for _, row := range promises {
		for _, name := range row.tests {
			if !there[name] {
				t.Errorf("%s: %v: there is no test %s", conformancePage, row.keys, name)
			}
		}
	}
	lacking := 0
	for _, n := range missing {
		lacking += n
	}
	t.Logf("%d sentences, %d of them promises, %d missing: %v", sentences, len(promises), lacking, missing)
}

func testsInTree(t *testing.T) map[string]bool {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	there := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			for _, found := range name.FindAllSubmatch(s.text, -1) {
				there[s.pkg+"."+string(found[1])] = true
			}
		}
	}
	return there
}

// TestConformance_EveryPromiseWasShown reads what a whole run did: the last step of make test.
func TestConformance_EveryPromiseWasShown(t *testing.T) {
	if *conformanceEvents == "" {
		t.Skip("needs -events: the last step of make test gives them")
	}
	outcome := map[string]string{}
	for _, path := range strings.Split(*conformanceEvents, ",") {
		maps.Copy(outcome, readEvents(t, path)) // the last file is of second tries
	}
	promises, _ := readConformance(t)
	for _, row := range promises {
		for _, name := range row.tests {
			if got := outcome[name]; got != "pass" {
				t.Errorf("%v: %s: %q, want pass", row.keys, name, got)
			}
		}
	}
}

// readEvents notes each test's outcome: pass, fail or skip; a skipped part makes the whole count as skipped.
func readEvents(t *testing.T, path string) map[string]string {
	t.Helper()
	outcome := map[string]string{}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		whole, _, part := strings.Cut(e.Test, "/")
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/") + "." + whole
		switch {
		case e.Action == "skip", e.Action == "fail":
			outcome[name] = e.Action
		case e.Action == "pass" && !part && outcome[name] == "":
			outcome[name] = e.Action
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return outcome
}
