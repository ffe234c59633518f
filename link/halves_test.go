package link

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
)

// couple makes each of two clusters the other's source.
func couple(a, b *rig) {
	for _, side := range [][2]*rig{{a, b}, {b, a}} {
		own, other := side[0], side[1]
		own.source.change(func(s *fakeSource) { s.id, s.other = other.meta.Image().Cluster.ID, other.links })
	}
}

func newPair(t *testing.T) (a, b *rig) {
	t.Helper()
	a = newRig(t)
	b = newSerialRig(t)
	couple(a, b)
	return a, b
}

func (r *rig) create(name string, more ...string) (Info, error) {
	return r.links.Create(r.t.Context(), CreateSpec{Name: name, Configs: fast(more...), Validate: true})
}

func (r *rig) described(name string, what string, ok func(Info) bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		info, err := r.links.Describe(name)
		return err == nil && ok(info)
	})
}

func TestBidirectionalHalvesAgreeOnOneID(t *testing.T) {
	a, b := newPair(t)
	first, err := a.create("l", keyMode, peer.Bidirectional)
	if err != nil {
		t.Fatal(err)
	}
	a.described("l", "a says that the other half is missing", func(i Info) bool {
		return i.State == "ACTIVE" && i.RemoteState == string(mirror.RemoteLinkNotFound) && strings.Contains(i.RemoteText, "create the other half")
	})
	_, err = b.links.Create(t.Context(), CreateSpec{Name: "l", LinkID: kafka.NewTopicID().String(), Configs: fast(keyMode, peer.Bidirectional), Validate: true})
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), first.ID) {
		t.Errorf("another id than that of the first half: %v", err)
	}
	if _, err := b.create("l"); err != nil {
		t.Errorf("a plain link of that name: %v", err)
	}
	a.described("l", "a sees that the halves do not fit", func(i Info) bool {
		return i.State == "FAILED" && i.Err == string(mirror.Misconfiguration) && strings.Contains(i.ErrText, "link.mode=DESTINATION")
	})
	if err := b.links.Delete(t.Context(), "l", false, false); err != nil {
		t.Fatal(err)
	}
	second, err := b.create("l", keyMode, peer.Bidirectional)
	if err != nil || second.ID != first.ID {
		t.Fatalf("the second half has the id %s, the first %s, %v", second.ID, first.ID, err)
	}
	for _, r := range []*rig{a, b} {
		r.described("l", "both see both", func(i Info) bool {
			return i.State == "ACTIVE" && i.RemoteState == "ACTIVE" && i.RemoteConnection == peer.Outbound && i.RemoteText == ""
		})
	}
	// One link, mirrors in both directions.
	a.source.topic("from-b", 1)
	b.source.topic("from-a", 2)
	a.mirror("l", "from-b")
	b.mirror("l", "from-a")
	r := a.links.runningOf(a.meta.Image().LinkIDs["l"])
	body, err := r.Call(t.Context(), peer.Ask{Key: peer.Hello, Body: peer.HelloRequest{}.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := peer.DecodeHelloAnswer(body); err != nil || answer.Half == nil || answer.Half.ID.String() != first.ID {
		t.Errorf("answer %+v, %v", answer, err)
	}
	if _, err := r.Call(t.Context(), peer.Ask{Key: 31299}); faultOf(err) != peerRefused || kafka.CodeOf(err) != kafka.UnsupportedVersion {
		t.Errorf("a key that nobody answers: %v", err)
	}
}

// Rule P3: that the other cluster is a copy of this one shows also where it did not answer when it was first asked who it is.
func TestP3_ACopyIsFoundThatWasSilentFirst(t *testing.T) {
	r, other := newPair(t)
	other.meta.Image().Cluster.Incarnation = r.meta.Image().Cluster.Incarnation
	silent := true
	r.source.change(func(s *fakeSource) {
		s.asked = func(key peer.Key) error {
			if key == peer.Hello && silent {
				silent = false
				return &source.Error{Class: source.Timeout, Err: errors.New("scripted silence")}
			}
			return nil
		}
	})
	if _, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast()}); err != nil {
		t.Fatal(err)
	}
	r.described("l", "the copy is found", func(i Info) bool {
		return i.State == "FAILED" && i.Err == string(mirror.Misconfiguration) && strings.Contains(i.ErrText, "incarnation")
	})
}

// Both halves made before either knows of the other, as two operators do it at the same moment.
func TestHalvesMadeAtOnceHaveOneID(t *testing.T) {
	a, b := newPair(t)
	var infos []Info
	for _, side := range [][2]*rig{{a, b}, {b, a}} {
		info, err := side[0].links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(keyMode, peer.Bidirectional), RemoteClusterID: side[1].meta.Image().Cluster.ID})
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	if infos[0].ID != infos[1].ID {
		t.Errorf("the ids %s and %s", infos[0].ID, infos[1].ID)
	}
	a.described("l", "both see both", func(i Info) bool { return i.State == "ACTIVE" && i.RemoteState == "ACTIVE" })
}

func TestBidirectionalNeedsAHawserOnBothSides(t *testing.T) {
	r := newRig(t)
	_, err := r.create("l", keyMode, peer.Bidirectional)
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), "no hawser") || !strings.Contains(err.Error(), "DESTINATION") {
		t.Errorf("a bidirectional link with an Apache Kafka: %v", err)
	}
	if _, err := r.create("d"); err != nil {
		t.Errorf("a DESTINATION link with it: %v", err)
	}
}

// Rule P3: two copies of one cluster hand out the same producer ids, so they are not linked.
func TestP3_CopiesOfOneClusterAreNotLinked(t *testing.T) {
	own, other := peer.Self{Incarnation: "i", ProducerPrefix: 7}, peer.Self{Incarnation: "j", ProducerPrefix: 8}
	if err := distinct(own, other, "c"); err != nil {
		t.Error(err)
	}
	for _, copied := range []peer.Self{{Incarnation: "i", ProducerPrefix: 8}, {Incarnation: "j", ProducerPrefix: 7}} {
		if err := distinct(own, copied, "c"); err == nil || !strings.Contains(err.Error(), "--new-identity") {
			t.Errorf("%+v: %v", copied, err)
		}
	}
	r := newRig(t)
	r.source.change(func(s *fakeSource) { s.other = r.links }) // answers with this cluster's own incarnation
	for _, mode := range []string{peer.Destination, peer.Bidirectional} {
		if _, err := r.create("l", keyMode, mode); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "incarnation") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestAnswersGoOnlyToTheLinksOwnCluster(t *testing.T) {
	a, b := newPair(t)
	if _, err := a.create("l", keyMode, peer.Bidirectional); err != nil {
		t.Fatal(err)
	}
	id, own := a.meta.Image().LinkIDs["l"], b.meta.Image().Cluster.ID
	hello := peer.HelloRequest{Half: peer.LinkHalf{Name: "l"}}.Encode()
	for name, test := range map[string]struct {
		rq   peer.Request
		code kafka.ErrorCode
	}{
		"another cluster":        {peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: hello}, Link: id, Caller: "somebody"}, kafka.InconsistentClusterID},
		"a link that is not":     {peer.Request{Ask: peer.Ask{Key: peer.Freeze, Topics: []string{"t"}}, Link: kafka.NewTopicID(), Caller: own}, kafka.ResourceNotFound},
		"a message that is none": {peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: []byte{1}}, Link: id, Caller: own}, kafka.InvalidRequest},
		"the link's own":         {peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: hello}, Link: id, Caller: own}, kafka.None},
	} {
		if _, err := a.links.Answer(t.Context(), "User:x", &test.rq); kafka.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %v", name, err, test.code)
		}
	}
	// By name alone somebody else does not learn of the half.
	body, err := a.links.Answer(t.Context(), "User:x", &peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: hello}, Caller: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := peer.DecodeHelloAnswer(body); err != nil || m.Half != nil {
		t.Errorf("%+v, %v", m.Half, err)
	}
}

// Rule T6: a mirror whose source comes from that very mirror is refused, over however many clusters; the refusal names the way.
func TestT6_ATopicIsNoMirrorOfItself(t *testing.T) {
	a, b := newPair(t)
	for _, r := range []*rig{a, b} {
		r.source.topic("t", 1)
		r.source.topic("u", 1)
	}
	b.link("l")
	b.mirror("l", "t")
	a.link("back")
	_, err := a.links.CreateMirror(t.Context(), "back", MirrorSpec{SourceTopic: "t"})
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), "'t' of this cluster would come from 't' of cluster "+b.meta.Image().Cluster.ID) {
		t.Errorf("a ring of two: %v", err)
	}
	if _, err := a.links.CreateMirror(t.Context(), "back", MirrorSpec{SourceTopic: "u"}); err != nil {
		t.Errorf("a topic that is no mirror: %v", err)
	}
	// A stopped mirror is a topic of its own.
	b.obeyed("l", Failover, "t")
	b.state("t", mirror.Stopped)
	if _, err := a.links.CreateMirror(t.Context(), "back", MirrorSpec{SourceTopic: "t"}); err != nil {
		t.Errorf("a chain that is open: %v", err)
	}
}

// The source's own configs show a ring of two where it does not say more.
func TestT6_ASourceThatOnlyShowsItsConfigs(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1, "hawser.mirror.link", "x", "hawser.mirror.source.cluster", r.meta.Image().Cluster.ID, "hawser.mirror.source.topic", "t")
	r.link("l")
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t"}); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "mirror of itself") {
		t.Errorf("%v", err)
	}
}

func TestSourceHalvesHoldNoMirrorsAndNeedTheirOtherHalf(t *testing.T) {
	a, b := newPair(t)
	half := []string{keyMode, peer.Source}
	if _, err := a.create("l", half...); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "does not have a link named l") {
		t.Errorf("before the other half: %v", err)
	}
	in := map[string]string{keyConnection: peer.Inbound}
	if _, err := b.links.Create(t.Context(), CreateSpec{Name: "l", Configs: in, Validate: true}); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "give its id") {
		t.Errorf("inbound without an id: %v", err)
	}
	if _, err := b.links.Create(t.Context(), CreateSpec{Name: "l", Configs: in, RemoteClusterID: a.meta.Image().Cluster.ID, Validate: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(half...)}); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "cluster_link_id") {
		t.Errorf("neither validated nor an id: %v", err)
	}
	for _, feature := range []string{keyAutoCreate, keyOffsetSync, keyACLSync} {
		set := fast(append(half, feature, "true", keyTopicFilters, "x", keyGroupFilters, "x", keyACLFilters, "x")...)
		if _, err := a.links.Create(t.Context(), CreateSpec{Name: "l", Configs: set, Validate: true}); !strings.Contains(err.Error(), feature+" has no effect on a SOURCE half") {
			t.Errorf("%s: %v", feature, err)
		}
	}
	if _, err := a.create("l", half...); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "its own cluster") {
		t.Errorf("a cluster without listeners of its own: %v", err)
	}
}

// What begins with local. is how the link logs in to its own cluster, and nothing else is.
func TestLocalConfigsAreReadApart(t *testing.T) {
	set := fast("security.protocol", "SSL", "ssl.enabled.protocols", "TLSv1.3", "local.security.protocol", "SASL_SSL", "local.sasl.mechanism", "PLAIN",
		"local.sasl.jaas.config", "near", "local.ssl.enabled.protocols", "TLSv1.2", "local.listener.name", "INSIDE")
	s, err := readSettings("l", set)
	if err != nil {
		t.Fatal(err)
	}
	near, far := s.local.Security, s.source.Security
	if near.Protocol != "SASL_SSL" || near.Mechanism != "PLAIN" || near.JAAS != "near" || !slices.Equal(near.Versions, []string{"TLSv1.2"}) || s.localListener != "INSIDE" {
		t.Errorf("local: %+v", near)
	}
	if far.Protocol != "SSL" || far.JAAS != "" || !slices.Equal(far.Versions, []string{"TLSv1.3"}) {
		t.Errorf("the other cluster: %+v", far)
	}
	// A half that does not dial has no use for any of them.
	set[keyConnection] = peer.Inbound
	if s, err = readSettings("l", set); err != nil || !reflect.DeepEqual(s.source.Security, source.Security{}) || !slices.Equal(s.source.Bootstrap, []string{anyBroker}) {
		t.Errorf("inbound: %+v, %v", s.source, err)
	}
}
