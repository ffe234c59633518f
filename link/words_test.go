package link

import (
	"testing"

	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
)

// TestEveryWordIsInTheClosedList asks what REST, the command line and the log say for all that can be found at a source.
func TestEveryWordIsInTheClosedList(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range mirror.Reasons() {
		listed[string(r.Reason)] = true
	}
	for _, class := range []source.Class{source.Unresolvable, source.Refused, source.Timeout, source.Auth, source.TLS, source.Other} {
		if code := codeOf(&source.Error{Class: class}); !listed[code] {
			t.Errorf("%s is shown as %s, which is not in the list", class, code)
		}
	}
	for _, f := range []fetcher.Fault{
		fetcher.SourceUnreachable, fetcher.SourceAuth, fetcher.SourceDenied, fetcher.TopicMissing, fetcher.TopicIDChanged, fetcher.PartitionsFewer,
		fetcher.EpochWentBack, fetcher.AppendEpochBack, fetcher.Truncated, fetcher.OldFormat, fetcher.CorruptBatch, fetcher.OverlappingBatch, fetcher.TargetOffline, fetcher.TargetFull, fetcher.TargetFailed,
	} {
		if code := plan.CodeOf(plan.Fault(f)); !listed[code] || f != fetcher.TargetFailed && code == string(mirror.InternalError) {
			t.Errorf("%s is shown as %s", f, code)
		}
	}
}
