package fetcher

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// TestX3_AgeIsByWhenAnEndWasSeen walks through a mirror's hours: rule X3.
func TestX3_AgeIsByWhenAnEndWasSeen(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	var f freshness
	check := func(what string, applied kafka.Offset, heard int, caught, behind int) {
		t.Helper()
		f.applied(applied, at(heard))
		want, since := time.Time{}, time.Time{}
		if caught >= 0 {
			want = at(caught)
		}
		if behind >= 0 {
			since = at(behind)
		}
		if !f.caught.Equal(want) || !f.behind(applied).Equal(since) {
			t.Errorf("%s: caught up at %v, behind since %v; want %v and %v", what, f.caught, f.behind(applied), want, since)
		}
	}
	check("never heard", 0, 0, -1, -1)
	f.saw(100, time.Time{}, at(0))
	check("nothing copied yet", 0, 0, -1, 0)
	check("copied", 100, 1, 1, -1)
	check("quiet, the session says nothing", 100, 9, 9, -1)
	f.saw(150, at(9), at(10))
	f.saw(200, at(10), at(12))
	check("a part is copied", 120, 12, 9, 10)
	check("more", 150, 12, 10, 12)
	check("the source is dead: it grows from the last end that is here", 150, 12, 10, 12)
	check("all", 200, 13, 13, -1)
	f.saw(180, at(13), at(14)) // an unclean election
	check("the end went back", 200, 14, 14, -1)
	f.saw(201, at(14), at(20))
	check("and rises again", 200, 20, 14, 20)
}

func TestX3_ForgettingEndsOnlyMakesItOlder(t *testing.T) {
	var f freshness
	begin := time.Unix(1000, 0)
	for n := range 1000 {
		f.saw(kafka.Offset(n+1), begin.Add(time.Duration(n-1)*time.Second), begin.Add(time.Duration(n)*time.Second))
		if len(f.ends) > seenMax {
			t.Fatalf("%d ends are kept", len(f.ends))
		}
	}
	f.applied(500, begin.Add(999*time.Second))
	if exact := begin.Add(500 * time.Second); f.caught.After(exact) || exact.Sub(f.caught) > 100*time.Second {
		t.Errorf("caught up at %v, want at most %v and not much less", f.caught, exact)
	}
}
