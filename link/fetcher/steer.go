package fetcher

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
)

const (
	// patience is how many times in a row a passing state (no leader, old metadata) is met before it is shown as a fault.
	patience = 5
	// missingWait is the longest wait between looks for a topic that is gone or another.
	missingWait = 2 * time.Second
)

// steer finds leaders: for partitions without a loop as soon as they may be tried,
// and for all of them every metadata.max.age.ms.
func (p *Pool) steer() {
	every := p.cfg.Load().MetadataAge
	age := time.NewTicker(every)
	defer age.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		refresh := false
		select {
		case <-p.ctx.Done():
			return
		case <-age.C:
			refresh = true
			p.checks.tidy(time.Now().Add(-checkIdle))
		case <-p.wake:
		case <-timer.C:
		}
		if now := p.cfg.Load().MetadataAge; now != every {
			every = now
			age.Reset(every)
		}
		due, next := p.due(time.Now())
		if len(due) > 0 || refresh {
			p.lookUp(due, refresh)
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// due takes the lost partitions whose time has come, by topic, and says how long the next one has to wait (0 for none).
func (p *Pool) due(now time.Time) (map[string][]*part, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := make(map[string][]*part)
	var next time.Duration
	p.lost = slices.DeleteFunc(p.lost, func(q *part) bool {
		if q.ctx.Err() != nil {
			return true
		}
		if wait := q.notBefore.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			return false
		}
		due[q.Source.Topic] = append(due[q.Source.Topic], q)
		return true
	})
	return due, next
}

// lookUp asks for the leaders of the topics of due partitions, or of all topics.
func (p *Pool) lookUp(due map[string][]*part, all bool) {
	topics := make(map[string][]*part, len(due))
	for topic := range due {
		topics[topic] = nil
	}
	if all {
		p.mu.Lock()
		for _, q := range p.parts {
			topics[q.Source.Topic] = append(topics[q.Source.Topic], q)
		}
		p.mu.Unlock()
	}
	slots := make(chan struct{}, leadersAtOnce)
	var wg sync.WaitGroup
	for topic, held := range topics {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			leaders, err := p.src.Leaders(p.ctx, topic, true)
			for _, q := range due[topic] {
				p.settle(q, leaders, err)
			}
			if err == nil {
				hintAll(held, leaders)
			}
		})
	}
	wg.Wait()
}

// hintAll tells the holders of partitions that their leader changed.
func hintAll(held []*part, leaders Leaders) {
	for _, q := range held {
		if int(q.Source.Partition) >= len(leaders.List) {
			continue // its next fetch says so too
		}
		newest := leaders.List[q.Source.Partition]
		if known := q.leader.Load(); known != nil && newest.Broker >= 0 && newest.Epoch >= known.Epoch && newest != *known {
			q.hint.Store(&newest)
			if l := q.line.Load(); l != nil && newest.Broker != known.Broker {
				l.release()
			}
		}
	}
}

// settle places a lost partition, or says why it cannot be placed and keeps it.
func (p *Pool) settle(q *part, leaders Leaders, err error) {
	if q.ctx.Err() != nil {
		return
	}
	leader, fault, err := q.choose(leaders, err)
	switch {
	case err == nil:
		q.take(leader, leaders.TopicID)
		p.place(q)
		return
	case fault == NoFault:
		q.wait(p.cfg.Load().Backoff)
	default:
		most := p.cfg.Load().Backoff
		if fault == TopicMissing || fault == TopicIDChanged || fault == SourceAuth || fault == PartitionsFewer {
			most = max(most, missingWait)
		}
		q.fail(fault, err, most)
	}
	p.lose(q)
}

// choose checks what metadata says about the partition. An error without a fault passes by itself.
func (q *part) choose(leaders Leaders, err error) (Leader, Fault, error) {
	if err != nil {
		return Leader{}, faultOf(err), err
	}
	if !q.SourceID.IsZero() && !leaders.TopicID.IsZero() && q.SourceID != leaders.TopicID {
		return Leader{}, TopicIDChanged, fmt.Errorf("source topic '%s' was deleted and made anew: its id was %s and now is %s; fail "+
			"the mirror over, or delete it and create it again",
			q.Source.Topic, q.SourceID, leaders.TopicID)
	}
	if int(q.Source.Partition) >= len(leaders.List) {
		return Leader{}, PartitionsFewer, fmt.Errorf("source topic '%s' has %d partitions, partition %d is gone", q.Source.Topic,
			len(leaders.List), q.Source.Partition)
	}
	leader := leaders.List[q.Source.Partition]
	if leader.Broker < 0 {
		return leader, q.patient(SourceUnreachable), kafka.Errorf(kafka.LeaderNotAvailable,
			"partition %s has no leader at the source now", q.Source)
	}
	if known := q.leader.Load(); known != nil && leader.Epoch < known.Epoch {
		q.backwards++
		err := fmt.Errorf("source partition %s was in leader epoch %d and now is in %d", q.Source, known.Epoch, leader.Epoch)
		if q.backwards > patience && leader.Epoch >= q.proven {
			return leader, NoFault, nil // the source never answered under the higher one: that metadata was wrong
		}
		if q.backwards > patience {
			return leader, EpochWentBack, err
		}
		return leader, NoFault, err
	}
	return leader, NoFault, nil
}

func (q *part) patient(fault Fault) Fault {
	if q.tries < patience {
		return NoFault
	}
	return fault
}

// take notes a leader. Another broker or epoch means that the splice must be checked.
func (q *part) take(leader Leader, id kafka.TopicID) {
	if known := q.leader.Load(); known == nil || *known != leader {
		q.leader.Store(&leader)
		q.splice.Store(true)
		q.aligned = false
	}
	if !id.IsZero() {
		q.topicID = id
	}
	q.hint.Store(nil)
}
