package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// failOver kills east and makes the mirror writable, without asking it.
func (t *tour) failOver(ctx context.Context) error {
	if err := t.east.kill(); err != nil {
		return err
	}
	t.east.lost = true
	t.say("east was killed with SIGKILL")
	producer, err := dial(t.west)
	if err != nil {
		return err
	}
	defer producer.Close()
	from := time.Now()
	outcomes, err := t.west.rest.Order(ctx, linkName, "failover", api.AlterMirrorsRequest{MirrorTopicNames: []string{topic}}, client.Do)
	if err != nil {
		return fmt.Errorf("failover of %s was refused: %w", topic, err)
	}
	for _, o := range outcomes {
		if o.ErrorMessage != nil && *o.ErrorMessage != "" {
			return fmt.Errorf("failover of %s was refused: %s", o.MirrorTopicName, *o.ErrorMessage)
		}
	}
	err = t.until(ctx, 10*time.Second, "the mirror to be STOPPED", func(ctx context.Context) (bool, string, error) {
		m, err := t.west.rest.Mirror(ctx, linkName, topic)
		return err == nil && m.MirrorStatus == "STOPPED", "status " + m.MirrorStatus, err
	})
	if err != nil {
		return err
	}
	if err := produce(ctx, producer, t.produced, 1); err != nil {
		return fmt.Errorf("west takes no writes after the failover: %w", err)
	}
	t.say("%s is STOPPED, an ordinary topic now; first write accepted %.0f ms after the order", topic,
		float64(time.Since(from).Microseconds())/1000)
	return nil
}

// goOn checks that nothing was lost on the way and that work goes on.
func (t *tour) goOn(ctx context.Context) error {
	prints, err := t.fingerprints(ctx, t.west, t.prints)
	if err != nil {
		return err
	}
	for i, before := range t.prints {
		if prints[i].sum != before.sum {
			return fmt.Errorf("partition %d of %s on west is not what it was before east was lost", i, topic)
		}
	}
	offsets, err := offsetsOf(ctx, t.west)
	if err != nil {
		return err
	}
	_, ends, err := t.endsOf(ctx, t.west)
	if err != nil {
		return err
	}
	for p, offset := range offsets {
		if offset > ends[p] {
			return fmt.Errorf("group %s stands at %d in partition %d of %s, above its end %d", group, offset, p, topic, ends[p])
		}
	}
	producer, err := dial(t.west)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := produce(ctx, producer, t.produced+1, 100); err != nil {
		return fmt.Errorf("produce to west: %w", err)
	}
	t.say("every record that was mirrored is there, unchanged; group %s goes on at %s; 100 more orders accepted", group, shown(offsets))
	return nil
}

// tryWidth is where the words beside the commands begin, in characters.
const tryWidth = 62

// called is what a person types to call this program: its name where the shell finds it by that, else the way to it.
func (t *tour) called() string {
	name := filepath.Base(t.o.Program)
	if found, err := exec.LookPath(name); err == nil && sameFile(found, t.o.Program) {
		return name
	}
	here, err := os.Getwd()
	if err != nil {
		return t.o.Program
	}
	way, err := filepath.Rel(here, t.o.Program)
	if err != nil || strings.HasPrefix(way, "..") {
		return t.o.Program
	}
	return "./" + way
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// stay keeps the traffic flowing until Ctrl-C and says what can be tried.
func (t *tour) stay(ctx context.Context) error {
	if err := t.startFlow(); err != nil {
		return err
	}
	hawser := t.called()
	t.say("About 20 orders a second go to east, and on to west. See them at http://%s, and try in another shell:", t.west.http)
	fmt.Fprintf(t.out, "\n   export HAWSER_REST_URL=http://%s\n", t.west.http)
	for _, try := range [][2]string{
		{hawser + " mirror list", "state, lag and RPO"},
		{hawser + " mirror verify " + topic, "compare the copy with its source, byte for byte"},
		{fmt.Sprintf("%s consume %s --from-beginning --max-messages 5", hawser, topic), "read the mirror"},
		{fmt.Sprintf("kcat -b %s -C -t %s -o -5 -e", t.west.kafka, topic), "the same with any Kafka client"},
		{fmt.Sprintf("echo hello | %s produce %s", hawser, topic), "refused: a mirror is read-only"},
		{fmt.Sprintf("kill -9 %d", t.east.cmd.Process.Pid), "lose east"},
		{fmt.Sprintf("%s mirror failover %s --wait", hawser, topic), "go on without it"},
		{fmt.Sprintf("echo hello | %s produce %s", hawser, topic), "accepted now"},
	} {
		fmt.Fprintf(t.out, "   %-*s  # %s\n", tryWidth, try[0], try[1])
	}
	fmt.Fprint(t.out, "\nCtrl-C ends both clusters and removes their data.\n")
	select {
	case <-ctx.Done():
	case <-t.west.done:
		return t.west.alive()
	}
	return nil
}
