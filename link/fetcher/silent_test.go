package fetcher

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
)

func TestAPartitionWhoseSourceIsSilentSaysSo(t *testing.T) {
	pool := &Pool{}
	pool.cfg.Store(&Config{MaxWait: time.Second})
	pool.ctx = t.Context()
	now := time.Now()
	for _, c := range []struct {
		name         string
		begun, heard time.Time
		want         bool
	}{
		{"just begun", now, time.Time{}, false},
		{"begun long ago, never heard", now.Add(-time.Minute), time.Time{}, true},
		{"heard during the long poll", now.Add(-time.Minute), now.Add(-2 * time.Second), false},
		{"heard long before", now.Add(-time.Minute), now.Add(-time.Second - 2*silence), true},
	} {
		q := pool.newPart(Assignment{Source: kafka.TopicPartition{Topic: "t"}})
		q.begun, q.status.LastContact = c.begun, c.heard
		if got := q.statusNow().Silent; got != c.want {
			t.Errorf("%s: silent %t, want %t", c.name, got, c.want)
		}
	}
}
