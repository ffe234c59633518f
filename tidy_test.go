// Package hawser_test checks the tree itself: import layers, package docs, bans
// in pure packages, sizes of functions, leftovers.
package hawser_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/hawserio/hawser"

// layers is the import direction: a package may import packages of rows above
// its own only. THINK before adding a row: a cycle of meaning shows here first.
var layers = [][]string{
	{"kafka", "internal/descriptors", "internal/invariant", "internal/plant"},
	{"kafka/batch", "rest/api"},
	{"link/mirror", "link/peer", "group/rebalance", "commitlog/retain", "quota"},
	{"link/plan", "link/verify"},
	{"kafka/wire", "event", "config", "rest/client", "auth/stores"},
	{"store", "meta"},
	{"store/disk"},
	{"commitlog"},
	{"partition", "auth"},
	{"group"},
	{"txn"},
	{"link/fetcher"},
	{"link/source", "link/journal"},
	{"link/task"},
	{"link"},
	{"handler", "rest", "console", "cli"},
	{"broker"},
	{"demo"},
	{"cmd/hawser"},
	{"scripts/results", "scripts/man", "scripts/pictures"},
}

// testOnly packages may import anything and are imported by tests only.
var testOnly = []string{"auth/authtest", "store/storetest", "meta/metatest", "rest/resttest", "link/fetcher/stubtest", "sim", "e2e", "bench"}

// extra narrows a row: what these packages may import of ours, beside their layer's rule.
var extra = map[string][]string{
	"cli": {"rest/client", "rest/api", "kafka", "config", "auth/stores"},
}

// pure packages decide; time, randomness and the world come in as arguments.
var pure = []string{"kafka/batch", "rest/api", "link/mirror", "link/peer", "link/plan", "link/verify", "group/rebalance", "commitlog/retain", "quota"}

var impure = []string{"os", "net", "net/http", "sync", "context", "log", "log/slog", "math/rand", "math/rand/v2", "os/exec", "syscall"}

// only says who may import a third party's package.
var only = map[string][]string{
	"go.etcd.io/":                          {"meta", "meta/metatest"},
	"github.com/twmb/franz-go/pkg/kgo":     {"link/source", "cli", "demo"},
	"github.com/twmb/franz-go/pkg/kadm":    {"link/source", "cli", "demo"},
	"github.com/go-jose/go-jose/v4":        {"auth", "auth/authtest"},
	"github.com/spf13/cobra":               {"cli", "cmd/hawser", "scripts/man"},
	"github.com/magiconair/properties":     {"cli"},
	"github.com/prometheus/client_golang/": {"event", "broker", "rest"},
}

const functionLinesMax = 70

type source struct {
	path string // from the root
	pkg  string // directory from the root, "" for the root
	test bool
	file *ast.File
	text []byte
}

var fileSet = token.NewFileSet()

func sources(t *testing.T) []source {
	t.Helper()
	found, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// parsed is every Go file of the tree, read once for all tests.
var parsed = sync.OnceValues(func() (found []source, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fileSet, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			dir = ""
		}
		found = append(found, source{path, dir, strings.HasSuffix(path, "_test.go"), file, text})
		return nil
	})
	return found, err
})

func layerOf(pkg string) int {
	for i, row := range layers {
		if slices.Contains(row, pkg) {
			return i
		}
	}
	return -1
}

func importsOf(s source) []string {
	var paths []string
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

func TestLayers(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.pkg == "" || slices.Contains(testOnly, s.pkg) {
			continue
		}
		own := layerOf(s.pkg)
		if own < 0 {
			t.Errorf("%s: package %s has no row in layers", s.path, s.pkg)
			continue
		}
		for _, path := range importsOf(s) {
			ours, found := strings.CutPrefix(path, module+"/")
			if !found {
				continue
			}
			switch {
			case slices.Contains(testOnly, ours):
				t.Errorf("%s imports %s, which is for tests", s.path, ours)
			case layerOf(ours) >= own:
				t.Errorf("%s: %s may not import %s (a row below its own, or the same)", s.path, s.pkg, ours)
			case extra[s.pkg] != nil && !slices.Contains(extra[s.pkg], ours):
				t.Errorf("%s: %s imports only %v of ours, not %s", s.path, s.pkg, extra[s.pkg], ours)
			}
		}
	}
}

// TestEveryPackageIsOnTheMap holds the table of layers and ARCHITECTURE.md's file map against the tree.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg != "" {
			found[s.pkg] = true
		}
	}
	listed := append(slices.Concat(layers...), testOnly...)
	for _, pkg := range listed {
		if !found[pkg] {
			t.Errorf("layers or testOnly has %s, which is not there", pkg)
		}
	}
	for pkg := range found {
		if !strings.HasPrefix(pkg, "scripts/") && !strings.Contains(string(page), "`"+pkg+"`") {
			t.Errorf("ARCHITECTURE.md does not say what %s is", pkg)
		}
	}
}

func TestPurePackages(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, path := range importsOf(s) {
			if slices.Contains(impure, path) {
				t.Errorf("%s: %s is pure and may not import %s", s.path, s.pkg, path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok {
				if base, ok := call.X.(*ast.Ident); ok && base.Name == "time" && (call.Sel.Name == "Now" || call.Sel.Name == "Since" || call.Sel.Name == "Sleep") {
					t.Errorf("%s: %s is pure and may not call time.%s", fileSet.Position(n.Pos()), s.pkg, call.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestThirdPartyPlaces(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.Contains(testOnly, s.pkg) {
			continue
		}
		for _, path := range importsOf(s) {
			for prefix, places := range only {
				if strings.HasPrefix(path, prefix) && !slices.Contains(places, s.pkg) {
					t.Errorf("%s: %s is for %v", s.path, path, places)
				}
			}
		}
	}
}

func TestPackageDocs(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.pkg] = append(docs[s.pkg], "")
		if s.file.Doc != nil {
			docs[s.pkg] = append(docs[s.pkg], s.path)
		}
	}
	for pkg, paths := range docs {
		paths = slices.DeleteFunc(paths, func(p string) bool { return p == "" })
		if len(paths) != 1 {
			t.Errorf("package %s wants exactly one package comment, has %d: %v", pkg, len(paths), paths)
		}
	}
}

// TestEveryEventIsSaid finds events that no line of the product emits: what they tell of would be seen by nobody.
func TestEveryEventIsSaid(t *testing.T) {
	events, said := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if s.pkg == "event" && n.Name.Name == "Line" && n.Recv != nil {
					events[n.Recv.List[0].Type.(*ast.Ident).Name] = true
				}
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && fmt.Sprint(sel.X) == "event" {
					said[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	for name := range events {
		if !said[name] {
			t.Errorf("nobody says event.%s", name)
		}
	}
	if len(events) < 10 {
		t.Errorf("only %d events were found", len(events))
	}
}

// TestFunctionSizes is a ratchet: a function fits a screen. The exceptions are
// tables and switches that read better in one piece; the list only shrinks.
func TestFunctionSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := fileSet.Position(f.End()).Line - fileSet.Position(f.Pos()).Line + 1
			name := fmt.Sprintf("%s:%s", s.path, f.Name.Name)
			if lines > max(functionLinesMax, oversized[name]) {
				t.Errorf("%s is %d lines long, more than %d", name, lines, max(functionLinesMax, oversized[name]))
			}
		}
	}
}

var oversized = map[string]int{}

var leftover = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b|to be built`)

func TestNoLeftovers(t *testing.T) {
	for _, s := range sources(t) {
		if s.path == "tidy_test.go" {
			continue
		}
		for i, line := range strings.Split(string(s.text), "\n") {
			if leftover.MatchString(line) {
				t.Errorf("%s:%d: leftover: %s", s.path, i+1, strings.TrimSpace(line))
			}
		}
	}
}

var skip = regexp.MustCompile(`t\.Skip(Now)?\(\)`)

func TestSkipsHaveReasons(t *testing.T) {
	for _, s := range sources(t) {
		if s.path == "tidy_test.go" {
			continue
		}
		for i, line := range strings.Split(string(s.text), "\n") {
			if skip.MatchString(line) {
				t.Errorf("%s:%d: a skip without a reason", s.path, i+1)
			}
			if strings.Contains(line, "nolint") && !strings.Contains(line, "//nolint:") {
				t.Errorf("%s:%d: nolint without a linter and a reason", s.path, i+1)
			}
		}
	}
}

// TestModuleFile keeps go install working (no replace) and each direct
// dependency explained.
func TestModuleFile(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("DEPENDENCIES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(reasons), -1) {
		if !strings.Contains(string(mod), "\t"+row[1]+" v") {
			t.Errorf("DEPENDENCIES.md has a reason for %s, which go.mod does not require", row[1])
		}
	}
	for _, line := range strings.Split(string(mod), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "replace") || strings.HasPrefix(line, "exclude") {
			t.Errorf("go.mod: %q keeps go install from working", line)
		}
		if strings.Contains(line, "// indirect") || !strings.Contains(line, ".") || !strings.Contains(line, " v") {
			continue
		}
		path := strings.Fields(strings.TrimPrefix(line, "require "))[0]
		if !strings.Contains(string(reasons), "`"+path+"`") {
			t.Errorf("DEPENDENCIES.md has no reason for %s", path)
		}
	}
}
