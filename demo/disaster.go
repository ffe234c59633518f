package demo

import (
	"context"
	"fmt"
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
	t.say("%s is STOPPED, an ordinary topic now; first write accepted %.0f ms after the order", topic, float64(time.Since(from).Microseconds())/1000)
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
	t.say("every record that was mirrored is there, unchanged; group %s goes on at %v; 100 more orders accepted", group, offsets)
	return nil
}

// stay keeps the traffic flowing until Ctrl-C and says what can be tried.
func (t *tour) stay(ctx context.Context) error {
	if err := t.startFlow(); err != nil {
		return err
	}
	t.say("about 20 orders a second go to east and on to west. Look at http://%s and try:", t.west.http)
	fmt.Fprintf(t.out, `
   export HAWSER_REST_URL=http://%s
   hawser link list
   hawser mirror describe %s --link %s
   kcat -b %s -C -t %s -o -5 -e                 # read the mirror
   echo hello | kcat -b %s -P -t %s             # refused: a mirror is read-only
   kill -9 %d                                       # lose east
   hawser mirror failover %s --link %s
   echo hello | kcat -b %s -P -t %s             # accepted now

Ctrl-C ends both clusters and removes their data.
`, t.west.http, topic, linkName, t.west.kafka, topic, t.west.kafka, topic, t.east.cmd.Process.Pid, topic, linkName, t.west.kafka, topic)
	select {
	case <-ctx.Done():
	case <-t.west.done:
		return t.west.alive()
	}
	return nil
}
