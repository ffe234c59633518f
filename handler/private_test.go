package handler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// echo answers a private request with its own body and remembers it.
type echo struct {
	mu    sync.Mutex
	asked []peer.Request
	who   []string
	err   error
}

func (e *echo) Answer(_ context.Context, principal string, rq *peer.Request) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.who = append(e.asked, *rq), append(e.who, principal)
	return rq.Body, e.err
}

// rights allows exactly these, as "OPERATION name".
type rights []string

func (r rights) Allowed(_, _ string, op kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
	return slices.Contains(r, op.String()+" "+name)
}

// linked is a connection to a world's door as a link has it.
func linked(t *testing.T, w *world) *source.Cluster {
	t.Helper()
	c, err := source.Dial(source.Config{Bootstrap: []string{w.Addr(plain)}, RequestTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestR9_PrivateKeysAreCheckedRowByRow(t *testing.T) {
	for _, row := range peer.Rows() {
		var all rights
		topics := []string(nil)
		all = append(all, row.Cluster.String()+" "+clusterResource)
		if row.Topic != kmsg.ACLOperationUnknown {
			all = append(all, row.Topic.String()+" t", row.Topic.String()+" u")
			topics = []string{"t", "u"}
		}
		for without := range len(all) + 1 {
			have := slices.Clone(all)
			want := kafka.None
			if without < len(all) {
				have = slices.Delete(have, without, without+1)
				want = kafka.TopicAuthorizationFailed
				if without == 0 {
					want = kafka.ClusterAuthorizationFailed
				}
			}
			e := &echo{}
			w := newWorld(t, func(_ *world, d *Deps) { d.Peers, d.Authorizer = e, have }).serve()
			rq := &peer.Request{Ask: peer.Ask{Key: row.Key, Topics: topics, Body: []byte("body")}, Link: kafka.TopicID{1}, Caller: "caller", Callee: testCluster}
			body, err := linked(t, w).Call(t.Context(), rq)
			if kafka.CodeOf(err) != want {
				t.Errorf("%s with %v: %v, want %v", row.Name, have, err, want)
			}
			if want == kafka.None && (string(body) != "body" || len(e.asked) != 1 || e.asked[0].Caller != "caller" || e.who[0] != Anonymous) {
				t.Errorf("%s: %q for %+v of %v", row.Name, body, e.asked, e.who)
			}
			if want != kafka.None && (len(e.asked) != 0 || !strings.Contains(err.Error(), "allow it to the link's principal")) {
				t.Errorf("%s: refused with %v, %d came through", row.Name, err, len(e.asked))
			}
		}
	}
}

func TestPrivateKeysRefuseWithWords(t *testing.T) {
	e := &echo{}
	w := newWorld(t, func(_ *world, d *Deps) { d.Peers = e }).serve()
	c := linked(t, w)
	for name, test := range map[string]struct {
		rq   peer.Request
		code kafka.ErrorCode
	}{
		"another cluster is wanted":         {peer.Request{Ask: peer.Ask{Key: peer.Hello}, Callee: "another"}, kafka.InconsistentClusterID},
		"no topics where there must be":     {peer.Request{Ask: peer.Ask{Key: peer.Freeze}}, kafka.InvalidRequest},
		"topics where there must not be":    {peer.Request{Ask: peer.Ask{Key: peer.Hello, Topics: []string{"t"}}}, kafka.InvalidRequest},
		"the answer says no":                {peer.Request{Ask: peer.Ask{Key: peer.Freeze, Topics: []string{"no"}}}, kafka.PolicyViolation},
		"a body that is longer than we may": {peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: make([]byte, peer.BodyMax+1)}}, kafka.UnknownServerError},
	} {
		e.err = nil
		if test.code == kafka.PolicyViolation {
			e.err = kafka.Errorf(kafka.PolicyViolation, "Not today.")
		}
		_, err := c.Call(t.Context(), &test.rq)
		if kafka.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %v", name, err, test.code)
		}
		var unreached *source.Error
		if errors.As(err, &unreached) || errors.Is(err, peer.ErrNotHawser) {
			t.Errorf("%s: %v is told as something else than a refusal", name, err)
		}
	}
}

// A cluster that lists no private keys, as an Apache Kafka, and one that is not there are told apart.
func TestAClusterWithoutPrivateKeysIsNoHawser(t *testing.T) {
	w := newWorld(t, nil).serve()
	c := linked(t, w)
	if _, err := c.Call(t.Context(), &peer.Request{Ask: peer.Ask{Key: peer.Hello}}); !errors.Is(err, peer.ErrNotHawser) {
		t.Errorf("%v, want ErrNotHawser", err)
	}
	w.Close()
	var unreached *source.Error
	if _, err := c.Call(t.Context(), &peer.Request{Ask: peer.Ask{Key: peer.Hello}}); !errors.As(err, &unreached) {
		t.Errorf("%v, want that it is unreachable", err)
	}
}
