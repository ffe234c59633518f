package hawser_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	mdFence   = regexp.MustCompile("(?s)```.*?```")
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// pages are the Markdown files of the tree, without their code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "dist" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		raw, err := os.ReadFile(path)
		found[path] = mdFence.ReplaceAllString(string(raw), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range mdHeading.FindAllStringSubmatch(page, -1) {
		found[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), ""), " ", "-")] = true
	}
	return found
}

// TestLinksBetweenPagesAreAlive follows each link from one page of the tree to another file of it, and to the heading it names.
func TestLinksBetweenPagesAreAlive(t *testing.T) {
	all, followed := pages(t), 0
	for path, page := range all {
		for _, m := range mdLink.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			file, heading, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
				continue
			}
			if text, is := all[to]; is && heading != "" && !anchors(text)[heading] {
				t.Errorf("%s links to %s, but %s has no such heading", path, m[1], to)
			}
		}
	}
	if followed < 50 {
		t.Errorf("only %d links were found", followed)
	}
}

// TestEveryPageIsInTheIndex: a page that nothing leads to is not read.
func TestEveryPageIsInTheIndex(t *testing.T) {
	all := pages(t)
	index := all["docs/README.md"]
	for path := range all {
		below, is := strings.CutPrefix(path, "docs/")
		if is && below != "README.md" && !strings.Contains(index, "]("+below+")") {
			t.Errorf("docs/README.md does not lead to %s", path)
		}
	}
}
