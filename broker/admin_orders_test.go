package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/handler"
	"github.com/twmb/franz-go/pkg/kadm"
)

// TestEveryOrderByAnAdminClient makes a mirror with CreateTopics and takes it through its life with IncrementalAlterConfigs alone.
func TestEveryOrderByAnAdminClient(t *testing.T) {
	t.Parallel()
	a, b := twoSites(t)
	a.create("t", 2)
	a.must(a.put("t", 2, 5, "first"))
	over := "ab"
	made, err := kadm.NewClient(b.kgo).CreateTopic(within(t), -1, -1, map[string]*string{handler.MirrorLinkConfig: &over}, "t")
	b.must(err)
	b.must(made.Err)
	b.ends("t", 2, 5)
	order := func(s *site, word string) error {
		t.Helper()
		done, err := kadm.NewClient(s.kgo).AlterTopicConfigs(within(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: handler.MirrorOrderConfig, Value: &word}}, "t")
		s.must(err)
		if done[0].Err != nil {
			return fmt.Errorf("%w: %s", done[0].Err, done[0].ErrMessage)
		}
		return nil
	}
	for _, step := range []struct {
		at   *site
		word string
		a, b string // what the topic is afterwards on either side
	}{
		{b, "pause", "", "PAUSED"},
		{b, "resume", "", "ACTIVE"},
		{b, "reverse-and-start", "ACTIVE", "STOPPED"},
		{a, "reverse-and-pause", "STOPPED", "PAUSED"},
		{b, "resume", "", "ACTIVE"},
		{b, "promote", "", "STOPPED"},
		{b, "truncate-and-restore", "", "ACTIVE"},
		{b, "failover", "", "STOPPED"},
	} {
		if step.word == "failover" { // which does not wait for what a link that is paused cannot copy, as promote would
			b.alter("cluster.link.paused", "true")
			b.status("t", "LINK_PAUSED")
			a.must(a.put("t", 2, 1, "late"))
		}
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := order(step.at, step.word)
			if err == nil {
				break
			}
			if time.Now().After(deadline) { // a state is shown a moment before it is stored, and a pledge given back a moment after
				t.Fatalf("%s: %v", step.word, err)
			}
		}
		for s, want := range map[*site]string{a: step.a, b: step.b} {
			if want != "" {
				s.status("t", want)
			}
		}
	}
	b.must(b.put("t", 2, 1, "own"))
	if err := order(b, "fly"); err == nil || !strings.Contains(err.Error(), "fly is no order") || !strings.Contains(err.Error(), "truncate-and-restore") {
		t.Errorf("a word that is no order: %v", err)
	}
}
