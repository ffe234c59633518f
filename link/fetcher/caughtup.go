package fetcher

import (
	"context"
	"fmt"
	"slices"

	"github.com/hawserio/hawser/kafka"
)

// CaughtUp asks the source at the mirror's end, under its present epoch, and reports
// whether it has nothing more and the mirror's synced end equals its high watermark and last stable offset: promote's
// check (rules X2, P5). The text says what is missing. An error is of asking, not of lagging. What is
// written to the source after the answer is not covered.
func (p *Pool) CaughtUp(ctx context.Context, mirrorTopic string) (bool, string, error) {
	var parts []*part
	p.mu.Lock()
	for mirror, q := range p.parts {
		if mirror.Topic == mirrorTopic {
			parts = append(parts, q)
		}
	}
	p.mu.Unlock()
	if len(parts) == 0 {
		return false, "no partition of " + mirrorTopic + " is being fetched", nil
	}
	slices.SortFunc(parts, func(a, b *part) int { return int(a.Source.Partition - b.Source.Partition) })
	source := parts[0].Source.Topic
	leaders, err := p.src.Leaders(ctx, source, true)
	if err != nil {
		return false, "", fmt.Errorf("find the leaders of source topic '%s': %w", source, err)
	}
	if len(leaders.List) != len(parts) {
		return false, fmt.Sprintf("the source topic has %d partitions, the mirror %d", len(leaders.List), len(parts)), nil
	}
	byBroker := make(map[int32][]*part)
	for _, q := range parts {
		if id := q.SourceID; !id.IsZero() && !leaders.TopicID.IsZero() && id != leaders.TopicID {
			return false, fmt.Sprintf("the source topic was made anew: its id is %s, not %s", leaders.TopicID, id), nil
		}
		leader := leaders.List[q.Source.Partition]
		if leader.Broker < 0 {
			return false, fmt.Sprintf("partition %d has no leader at the source", q.Source.Partition), nil
		}
		byBroker[leader.Broker] = append(byBroker[leader.Broker], q)
	}
	for broker, some := range byBroker {
		if text, err := p.behind(ctx, broker, some, leaders); text != "" || err != nil {
			return false, text, err
		}
	}
	return true, "", nil
}

// behind asks one broker about its partitions, and says which one is behind, if any.
func (p *Pool) behind(ctx context.Context, broker int32, parts []*part, leaders Leaders) (string, error) {
	session, err := p.src.Session(ctx, broker)
	if err != nil {
		return "", fmt.Errorf("connect to source broker %d: %w", broker, err)
	}
	defer session.Close()
	wants := make([]Want, len(parts))
	waiting := make(map[kafka.TopicPartition]*part, len(parts))
	for i, q := range parts {
		o := q.Target.Offsets()
		if o.HighWatermark != o.LogEnd {
			return fmt.Sprintf("%s is synced up to %d of %d", q.Mirror, o.HighWatermark, o.LogEnd), nil
		}
		wants[i] = Want{
			TopicPartition: q.Source, TopicID: leaders.TopicID, Offset: o.LogEnd,
			LastEpoch: kafka.NoEpoch, CurrentEpoch: leaders.List[q.Source.Partition].Epoch, MaxBytes: 1,
		}
		waiting[q.Source] = q
	}
	answers, err := session.Fetch(ctx, wants, Ask{MaxBytes: 1})
	if err != nil {
		return "", fmt.Errorf("ask source broker %d for its ends: %w", broker, err)
	}
	for i := range answers {
		f := &answers[i]
		q := waiting[f.TopicPartition]
		if q == nil {
			continue
		}
		delete(waiting, f.TopicPartition)
		switch {
		case f.Err != nil:
			return fmt.Sprintf("%s: %v", q.Source, f.Err), nil
		case len(f.Batches) > 0 || f.HighWatermark != f.Offset:
			return fmt.Sprintf("%s ends at %d, the mirror at %d", q.Source, f.HighWatermark, f.Offset), nil
		}
	}
	for tp := range waiting {
		return fmt.Sprintf("source broker %d left %s out of its answer", broker, tp), nil
	}
	return p.undecided(ctx, wants)
}

// undecided says which source partition has open transactions below its end, if any (rule P5).
func (p *Pool) undecided(ctx context.Context, wants []Want) (string, error) {
	for _, w := range wants {
		stable, err := p.src.LastStable(ctx, w.TopicPartition)
		if err != nil {
			return "", fmt.Errorf("ask for the last stable offset of source partition %s: %w", w.TopicPartition, err)
		}
		if stable < w.Offset {
			return fmt.Sprintf("%s has an open transaction from offset %d", w.TopicPartition, stable), nil
		}
		if stable > w.Offset {
			return fmt.Sprintf("%s has grown to %d, the mirror ends at %d", w.TopicPartition, stable, w.Offset), nil
		}
	}
	return "", nil
}
