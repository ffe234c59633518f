package link

import (
	"testing"

	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
)

// A lag of 0 says that all is here. Where the source has not been heard, nobody knows that.
func TestLagIsNotZeroWhileTheSourceIsSilent(t *testing.T) {
	for _, c := range []struct {
		name   string
		status fetcher.Status
		want   int64
	}{
		{"level", fetcher.Status{SourceEnd: 10}, 0},
		{"level when last heard", fetcher.Status{SourceEnd: 10, Silent: true}, LagUnknown},
		{"behind when last heard", fetcher.Status{SourceEnd: 10, LagRecords: 4, Silent: true}, 4},
		{"never fetched", fetcher.Status{SourceEnd: -1, LagRecords: -1, Silent: true}, 0},
	} {
		m := topicMirror{state: mirror.Active, rec: &meta.Mirror{}, topic: &meta.Topic{Partitions: 1}}
		if got := lags(m, view{parts: []partView{{status: c.status}}})[0].Records; got != c.want {
			t.Errorf("%s: lag %d, want %d", c.name, got, c.want)
		}
	}
}
