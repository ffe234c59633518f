package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/rest/api"
)

func TestATableFitsTheTerminal(t *testing.T) {
	describe := [][]string{
		{"Link", "Mirror Topic", "Status", "Partition", "Lag", "Error"},
		{"from-prod", "orders", "ACTIVE", "0", "12", ""},
		{"from-prod", "orders", "ACTIVE", "1", "0", ""},
	}
	failing := [][]string{{"Mirror Topic", "Partitions", "Error"}, {"orders", "3", ""}, {"nope", "0", "Topic 'nope' is not a mirror topic of cluster link 'from-prod'."}}
	for _, row := range []struct {
		name  string
		lines [][]string
		width int
		want  string
	}{
		{"as it is where it fits", describe, 80, `
Link      | Mirror Topic | Status | Partition | Lag | Error
----------+--------------+--------+-----------+-----+------
from-prod | orders       | ACTIVE | 0         | 12  |
from-prod | orders       | ACTIVE | 1         | 0   |
`},
		{"without empty columns", describe, 54, `
Link      | Mirror Topic | Status | Partition | Lag
----------+--------------+--------+-----------+----
from-prod | orders       | ACTIVE | 0         | 12
from-prod | orders       | ACTIVE | 1         | 0
`},
		{"what all rows share stands above", describe, 40, `
Link:          from-prod
Mirror Topic:  orders
Status:        ACTIVE

Partition | Lag
----------+----
0         | 12
1         | 0
`},
		{"long texts wrap", failing, 60, `
Mirror Topic | Partitions | Error
-------------+------------+-----------------------------
orders       | 3          |
nope         | 0          | Topic 'nope' is not a mirror
             |            | topic of cluster link
             |            | 'from-prod'.
`},
		{"a paragraph a row", failing, 36, `
Mirror Topic:  orders
Partitions:    3

Mirror Topic:  nope
Partitions:    0
Error:         Topic 'nope' is not a mirror topic of cluster link 'from-prod'.
`},
	} {
		var out strings.Builder
		if err := writeScreen(&out, row.lines, row.width); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != row.want[1:] {
			t.Errorf("%s: got\n%swant%s", row.name, got, row.want)
		}
	}
}

func TestRPOIsTheOldestPartitions(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	ago := func(d time.Duration) *int64 { at := now.Add(-d).UnixMilli(); return &at }
	for _, row := range []struct {
		status string
		at     []*int64
		want   string
	}{
		{"ACTIVE", []*int64{ago(0), ago(1234 * time.Millisecond)}, "1.2 s"},
		{"SOURCE_UNAVAILABLE", []*int64{ago(95 * time.Second), ago(0)}, "95 s"},
		{"PAUSED", []*int64{ago(30 * time.Minute)}, "30 min"},
		{"FAILED", []*int64{ago(50 * time.Hour)}, "50 h"},
		{"ACTIVE", []*int64{ago(0), nil}, "unknown"},
		{"ACTIVE", nil, "unknown"},
		{"STOPPED", []*int64{ago(0)}, ""},
		{"ACTIVE", []*int64{ago(-time.Minute)}, "0.0 s"}, // clocks differ
	} {
		m := api.Mirror{MirrorStatus: row.status}
		for _, at := range row.at {
			m.MirrorLags = append(m.MirrorLags, api.MirrorLag{CaughtUpMs: at})
		}
		if got := rpoText(m.MirrorStatus, caughtUp(m), now); got != row.want {
			t.Errorf("%s %v: got %q, want %q", row.status, row.at, got, row.want)
		}
	}
}
