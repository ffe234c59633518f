package task

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hawserio/hawser/link/mirror"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reasons.md anew")

const reasonsPath = "../../docs/reasons.md"

// TestReasonsPageIsFresh holds the page against the closed lists that it is generated from.
func TestReasonsPageIsFresh(t *testing.T) {
	want := reasonsPage()
	if *rewrite {
		if err := os.WriteFile(reasonsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(reasonsPath)
	if err != nil || string(got) != want {
		t.Errorf("docs/reasons.md is not what the lists say (%v); run go test ./link/task -run ReasonsPage -rewrite", err)
	}
}

func reasonsPage() string {
	var b strings.Builder
	b.WriteString("# Why something is not as it should be\n\n")
	b.WriteString("Generated from package link/mirror and link/task by `go test ./link/task -run ReasonsPage -rewrite`. Do not edit.\n\n")
	b.WriteString("One closed list. REST (`mirror_topic_error`, `mirror_state_transition_errors`, `link_error`, a task's `errors`), the command line, ")
	b.WriteString("the topic config `hawser.mirror.error`, the console and the log (`code=`) use these words and no others.\n\n")
	b.WriteString("| reason | cause | what to do |\n|---|---|---|\n")
	for _, r := range mirror.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Reason, r.Cause, r.Remedy)
	}
	b.WriteString("\n## States of a task\n\nTasks are `" + strings.Join([]string{TopicConfigsSync, ConsumerOffsetSync, AutoCreateMirror, ACLSync}, "`, `") + "`.\n\n")
	b.WriteString("| state | meaning | what to do |\n|---|---|---|\n")
	for _, s := range States() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.State, s.Meaning, s.Remedy)
	}
	return b.String()
}
