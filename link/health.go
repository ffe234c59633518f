package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// One probe takes at most the period between them, but within these bounds: a short
// period must not make a slow source a dead one, nor a long one hide that it is dead.
const (
	probeLeast = 3 * time.Second
	probeMost  = 10 * time.Second
)

// probeLoop asks the source again and again whether it is there, and is itself.
func (r *running) probeLoop(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		r.probe(ctx)
		r.mu.Lock()
		wait := plan.ProbeWait(r.contact, r.set.probePeriod)
		r.mu.Unlock()
		// From beginning to beginning: a probe that waited in vain has used the period up.
		t := time.NewTimer(max(wait-time.Since(begun), 50*time.Millisecond))
		select {
		case <-ctx.Done():
		case <-r.probes:
		case <-t.C:
		}
		t.Stop()
	}
}

// probe asks once and draws the conclusions.
func (r *running) probe(ctx context.Context) {
	r.mu.Lock()
	src, set, rec := r.src, r.set, r.rec
	r.mu.Unlock()
	if src == nil || set.paused {
		return
	}
	asked, cancel := context.WithTimeout(ctx, min(max(set.probePeriod, probeLeast), probeMost))
	defer cancel()
	answer, err := src.Probe(asked)
	if err == nil && answer.ClusterID != rec.RemoteClusterID {
		answer, err = src.Probe(asked) // one wrong answer makes no other cluster
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = r.sameCluster(ctx, rec, answer.ClusterID)
	}
	if err == nil {
		err = r.greet(asked, src, rec)
	}
	if err == nil && set.mode == peer.Source {
		err = r.lendFault()
	}
	found := plan.Probed{At: r.ls.env.Now()}
	if err != nil {
		found.Class, found.Text = codeOf(err), err.Error()
	}
	r.mu.Lock()
	if r.src != src { // redialed meanwhile: the answer is about a connection that is gone
		r.mu.Unlock()
		return
	}
	before := r.contact
	r.contact = before.After(found, max(set.threshold, 1))
	now := r.contact
	r.mu.Unlock()
	if before.Reach != now.Reach {
		r.ls.env.Events.Emit(event.LinkStateChanged{Link: r.name, From: health(before.Reach).String(), To: health(now.Reach).String(),
			Code: now.Problem.Code, Text: now.Problem.Text})
		r.hurry()
		for _, t := range r.tasks {
			t.Poke()
		}
	}
}

// errWrongCluster says that another cluster than the link's answers.
type errWrongCluster struct{ text string }

func (e *errWrongCluster) Error() string { return e.text }

// sameCluster checks who answers, and remembers it where the link does not know yet.
func (r *running) sameCluster(ctx context.Context, rec *meta.Link, id string) error {
	if own := r.ls.env.Metadata.Image().Cluster.ID; id == own {
		return selfLink(own)
	}
	if rec.RemoteClusterID == id {
		return nil
	}
	if rec.RemoteClusterID != "" {
		return wrongCluster(rec.RemoteClusterID, id)
	}
	return r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		old := img.Links[r.id]
		if old == nil || old.RemoteClusterID != "" {
			return nil, nil
		}
		next := *old
		next.RemoteClusterID = id
		return []meta.Change{meta.PutLink(&next)}, nil
	})
}

func selfLink(own string) error {
	return &errWrongCluster{fmt.Sprintf("Source cluster ID matches local cluster ID %s. Cannot create cluster link to self. Give "+
		"the bootstrap servers of the other cluster.", own)}
}

func wrongCluster(want, got string) error {
	return &errWrongCluster{fmt.Sprintf("The source's cluster ID is %s, but the link is to %s: bootstrap.servers leads to another "+
		"cluster.", got, want)}
}

// codeOf is the reason's name for an error of the source.
func codeOf(err error) string {
	var wrong *errWrongCluster
	var se *source.Error
	var ours *Error
	var near *nearError
	switch {
	case errors.As(err, &near):
		return string(near.code())
	case errors.As(err, &wrong):
		return string(mirror.Misconfiguration)
	case errors.As(err, &ours) && ours.Code != "":
		return ours.Code
	case errors.As(err, &se):
		if se.Class == source.Other {
			return string(mirror.Unknown)
		}
		return string(se.Class)
	case errors.Is(err, context.DeadlineExceeded):
		return string(mirror.Timeout)
	}
	return string(kafkaReason(err))
}

// health is the contact in link/mirror's words.
func health(reach plan.Reach) mirror.LinkHealth {
	switch reach {
	case plan.Reachable:
		return mirror.LinkActive
	case plan.Unreachable:
		return mirror.LinkUnavailable
	case plan.Misconfigured:
		return mirror.LinkFailed
	default:
		return mirror.LinkUnknown
	}
}

// healthNow is the link's health; r.mu is held.
func (r *running) healthNow() mirror.LinkHealth {
	if r.set.paused {
		return mirror.LinkPaused
	}
	return health(r.contact.Reach)
}
