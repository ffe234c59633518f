package handler

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersionsRequest() *kmsg.ApiVersionsRequest {
	rq := kmsg.NewPtrApiVersionsRequest()
	rq.ClientSoftwareName, rq.ClientSoftwareVersion = "some-client", "1.2.3"
	return rq
}

func TestC77_ApiVersionsWithAnUnknownVersion(t *testing.T) {
	w := newWorld(t, nil).serve()
	for _, version := range []int16{6, 99, 0x7fff, -1} {
		c := w.dial()
		rq := apiVersionsRequest()
		rq.SetVersion(4)
		f := kmsg.NewRequestFormatter().AppendRequest(nil, rq, 42)
		binary.BigEndian.PutUint16(f[6:], uint16(version))
		if _, err := c.nc.Write(f); err != nil {
			t.Fatal(err)
		}
		rq.SetVersion(0)
		resp, err := c.read(rq)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		got := resp.(*kmsg.ApiVersionsResponse)
		if got.ErrorCode != int16(kafka.UnsupportedVersion) || len(got.ApiKeys) != len(w.table) {
			t.Fatalf("version %d: error %d and %d keys", version, got.ErrorCode, len(got.ApiKeys))
		}
		// The connection goes on.
		if got := ask[*kmsg.ApiVersionsResponse](c, 4, apiVersionsRequest()); got.ErrorCode != 0 || len(got.ApiKeys) != len(w.table) {
			t.Fatalf("after it: error %d", got.ErrorCode)
		}
	}
}

func TestC77_BadClientSoftwareName(t *testing.T) {
	c := newWorld(t, nil).serve().dial()
	for name, ok := range map[string]bool{"a": true, "a-b.c": true, "": false, "-a": false, "a.": false, "a b": false, "é": false} {
		for _, version := range []int16{0, 3, 4, 5} {
			rq := apiVersionsRequest()
			rq.ClientSoftwareName = name
			want := int16(0)
			if version >= 3 && !ok {
				want = int16(kafka.InvalidRequest)
			}
			if got := ask[*kmsg.ApiVersionsResponse](c, version, rq); got.ErrorCode != want {
				t.Errorf("%q version %d: error %d, want %d", name, version, got.ErrorCode, want)
			}
		}
	}
}

func TestBytesThatAreNoRequestCloseTheConnection(t *testing.T) {
	w := newWorld(t, nil).serve()
	header := func(key, version int16) []byte {
		b := []byte{0, 0, 0, 0}
		b = binary.BigEndian.AppendUint16(b, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 42, 0xff, 0xff)
		return b
	}
	sized := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	for name, raw := range map[string][]byte{
		"negative size":        {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"tiny size":            {0, 0, 0, 4, 0, 3, 0, 0},
		"huge size":            {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3},
		"17 MiB of Metadata":   {0x01, 0x10, 0, 0, 0, 3, 0, 9},
		"unknown key":          sized(header(999, 0)),
		"negative key":         sized(header(-1, 0)),
		"unserved key":         sized(header(4, 0)),
		"Fetch version 3":      sized(header(1, 3)),
		"Metadata version 14":  sized(header(3, 14)),
		"Metadata cut short":   sized(header(3, 1)),
		"transactions not on":  sized(header(26, 0)),
		"an HTTP request":      []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"client id of no size": sized(append(header(3, 0)[:12], 0x80, 0x00)),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, w.Addr(plain))
			if _, err := c.nc.Write(raw); err != nil {
				t.Fatal(err)
			}
			c.closed(name)
		})
	}
}

// minimal fills what a request must have to be answered at all.
func minimal(rq kmsg.Request) kmsg.Request {
	switch rq := rq.(type) {
	case *kmsg.ApiVersionsRequest:
		rq.ClientSoftwareName, rq.ClientSoftwareVersion = "a", "1"
	case *kmsg.ProduceRequest:
		rq.Acks = 1
	}
	return rq
}

// Every key and version that is advertised is answered; nothing is dropped.
func TestC77_AdvertisedRangesAreServed(t *testing.T) {
	w := newFullWorld(t).serve()
	c := w.dial()
	keys := ask[*kmsg.ApiVersionsResponse](c, 3, apiVersionsRequest()).ApiKeys
	for _, id := range []*string{nil, text(""), text(strings.Repeat("x", 1024))} {
		c.id = id
		for _, key := range keys {
			for version := key.MinVersion; version <= key.MaxVersion; version++ {
				rq := kmsg.RequestForKey(key.ApiKey)
				rq.SetVersion(version)
				rq.(interface{ Default() }).Default()
				rq = minimal(rq)
				ask[kmsg.Response](c, version, rq)
			}
		}
	}
}

// Unknown tagged fields in every flexible API are ignored.
func TestC78_UnknownTags(t *testing.T) {
	w := newFullWorld(t).serve()
	c := w.dial()
	for _, key := range w.table.keys() {
		row := w.table[key]
		for version := row.min; version <= row.max; version++ {
			rq := minimal(kmsg.RequestForKey(key))
			rq.SetVersion(version)
			if !rq.IsFlexible() {
				continue
			}
			body := rq.AppendTo(nil)
			// The request's own tags come last: none, so a single zero. A few keys have tags of their own that are not written when empty.
			if body[len(body)-1] != 0 {
				t.Fatalf("%s version %d does not end in an empty tag section", row.name, version)
			}
			body = append(body[:len(body)-1], 1, 0xe7, 0x07, 3, 'a', 'b', 'c')
			frame := []byte{0, 0, 0, 0}
			frame = binary.BigEndian.AppendUint16(frame, uint16(key))
			frame = binary.BigEndian.AppendUint16(frame, uint16(version))
			frame = append(frame, 0, 0, 0, 42, 0xff, 0xff, 1, 0xe6, 0x07, 2, 'x', 'y')
			frame = append(frame, body...)
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			if _, err := c.nc.Write(frame); err != nil {
				t.Fatal(err)
			}
			if _, err := c.read(rq); err != nil {
				t.Fatalf("%s version %d: %v", row.name, version, err)
			}
		}
	}
}

func TestAnswersComeInTheOrderOfRequests(t *testing.T) {
	c := newWorld(t, nil).serve().dial()
	first, second := apiVersionsRequest(), kmsg.NewPtrMetadataRequest()
	first.SetVersion(3)
	second.SetVersion(9)
	c.write(first)
	c.write(second)
	if _, err := c.read(first); err != nil {
		t.Fatal(err)
	}
	if _, err := c.read(second); err != nil {
		t.Fatal(err)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	w := newWorld(t, func(_ *world, d *Deps) { d.Settings.MaxIdle = 50 * time.Millisecond }).serve()
	w.dial().closed("idle")
}

func TestMaxConnections(t *testing.T) {
	w := newWorld(t, func(_ *world, d *Deps) { d.Settings.MaxConnections = 1 }).serve()
	first := w.dial()
	ask[*kmsg.ApiVersionsResponse](first, 0, apiVersionsRequest())
	w.dial().closed("one too many")
	ask[*kmsg.ApiVersionsResponse](first, 0, apiVersionsRequest())
}

func TestMaxConnectionsPerAddress(t *testing.T) {
	for name, set := range map[string]Settings{
		"for all": {MaxPerIP: 1}, "for this one": {MaxPerIP: 1000, PerIP: map[string]int{"127.0.0.1": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *world, d *Deps) { d.Settings = set }).serve()
			first := w.dial()
			ask[*kmsg.ApiVersionsResponse](first, 0, apiVersionsRequest())
			w.dial().closed("one too many")
			_ = first.nc.Close()
			for w.Connections() > 0 {
				time.Sleep(time.Millisecond) // the server tells nobody that a connection ended
			}
			ask[*kmsg.ApiVersionsResponse](w.dial(), 0, apiVersionsRequest())
		})
	}
}

func TestShutdownClosesConnectionsAtRest(t *testing.T) {
	w := newWorld(t, nil).serve()
	c := w.dial()
	ask[*kmsg.ApiVersionsResponse](c, 0, apiVersionsRequest())
	w.Shutdown(t.Context())
	c.closed("shut down")
	if nc, err := net.Dial("tcp", w.Addr(plain)); err == nil {
		_ = nc.Close()
		t.Fatal("a closed door accepts")
	}
	if n := w.Connections(); n != 0 {
		t.Fatalf("%d connections are left", n)
	}
}

// A connection that has sent half a request holds neither the others nor the shutdown.
func TestShutdownDoesNotWaitForHalfARequest(t *testing.T) {
	w := newWorld(t, nil).serve()
	c := w.dial()
	ask[*kmsg.ApiVersionsResponse](c, 0, apiVersionsRequest())
	if _, err := c.nc.Write([]byte{0, 0, 0, 50, 0, 3}); err != nil {
		t.Fatal(err)
	}
	for !w.midRequest() {
		time.Sleep(time.Millisecond) // nothing tells from outside that the bytes were read
	}
	ctx, cancel := contextWithTimeout(t, 100*time.Millisecond)
	defer cancel()
	w.Shutdown(ctx)
	c.closed("shut down")
}

// rest waits until the one connection waits for a request: before that a new one
// looks as if it were in the middle of one.
func (w *world) rest() {
	for w.Connections() != 1 || w.midRequest() {
		time.Sleep(time.Millisecond) // nothing tells from outside
	}
}

func (w *world) midRequest() bool {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	for c := range w.conns {
		c.mu.Lock()
		idle := c.idle
		c.mu.Unlock()
		if !idle {
			return true
		}
	}
	return false
}

func TestC94_MetadataNamesTheListenerThatWasAsked(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.Listen(Listener{Name: "OUTSIDE", Address: "127.0.0.1:0", AdvertisedHost: "kafka.example.org", AdvertisedPort: 443}); err != nil {
		t.Fatal(err)
	}
	if err := w.Listen(Listener{Name: "OUTSIDE", Address: "127.0.0.1:0"}); err == nil {
		t.Fatal("two listeners of one name")
	}
	w.serve()
	for name, want := range map[string]string{plain: w.Addr(plain), "OUTSIDE": "kafka.example.org:443"} {
		c := dial(t, w.Addr(name))
		broker := ask[*kmsg.MetadataResponse](c, 12, kmsg.NewPtrMetadataRequest()).Brokers[0]
		coordinator := kmsg.NewPtrFindCoordinatorRequest()
		coordinator.CoordinatorKeys = []string{"g"}
		found := ask[*kmsg.FindCoordinatorResponse](c, 4, coordinator).Coordinators[0]
		cluster := ask[*kmsg.DescribeClusterResponse](c, 1, kmsg.NewPtrDescribeClusterRequest()).Brokers[0]
		for what, got := range map[string]string{
			"Metadata": address(broker.Host, broker.Port), "FindCoordinator": address(found.Host, found.Port),
			"DescribeCluster": address(cluster.Host, cluster.Port), "Advertised": w.Advertised(name),
		} {
			if got != want {
				t.Errorf("%s on %s: %s, want %s", what, name, got, want)
			}
		}
		if broker.NodeID != found.NodeID {
			t.Errorf("C83: the coordinator %d is not among the brokers", found.NodeID)
		}
	}
}

func TestApiVersionsToAnotherBroker(t *testing.T) {
	c := newWorld(t, nil).serve().dial()
	for _, tc := range []struct {
		cluster *string
		node    int32
		want    kafka.ErrorCode
	}{
		{nil, -1, kafka.None}, {text(testCluster), testNode, kafka.None},
		{text(testCluster), 7, kafka.RebootstrapRequired}, {text("another"), testNode, kafka.RebootstrapRequired},
		{text(testCluster), -1, kafka.InvalidRequest}, {nil, testNode, kafka.InvalidRequest},
	} {
		rq := apiVersionsRequest()
		rq.ClusterID, rq.NodeID = tc.cluster, tc.node
		if got := ask[*kmsg.ApiVersionsResponse](c, 5, rq); got.ErrorCode != int16(tc.want) {
			t.Errorf("cluster %v node %d: error %d, want %v", tc.cluster, tc.node, got.ErrorCode, tc.want)
		}
	}
}

func TestApiVersionsFeatures(t *testing.T) {
	c := newWorld(t, nil).serve().dial()
	for _, version := range []int16{3, 4, 5} {
		got := ask[*kmsg.ApiVersionsResponse](c, version, apiVersionsRequest())
		if len(got.SupportedFeatures) != 1 || got.SupportedFeatures[0].Name != "group.version" ||
			len(got.FinalizedFeatures) != 1 || got.FinalizedFeatures[0].MaxVersionLevel != 1 || got.FinalizedFeaturesEpoch < 0 {
			t.Errorf("version %d, without transactions: %+v", version, got)
		}
	}
}

// A request that is larger than what is left of the memory for requests waits for it, and all of it comes back.
func TestLargeRequestsShareMemory(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Settings.RequestMaxBytes, d.Settings.QueuedMaxBytes = 1<<20, 1<<20 }).serve()
	w.make("t", 1, nil)
	hog, other := w.dial(), w.dial()
	half := binary.BigEndian.AppendUint32(nil, 1<<20)
	if _, err := hog.nc.Write(append(half, make([]byte, 600<<10)...)); err != nil {
		t.Fatal(err)
	}
	for w.memory.TryAcquire(1 << 19) {
		w.memory.Release(1 << 19)
		time.Sleep(time.Millisecond) // nothing tells from outside how far the bytes were read
	}
	answered := make(chan kmsg.ProduceResponseTopicPartition, 1)
	big := make([]byte, 700<<10)
	go func() { answered <- produced(t, other, 9, produceRequest(t, "t", 1, big)) }()
	_ = hog.nc.Close()
	if got := <-answered; got.ErrorCode == 0 {
		t.Fatal("zeros are no batch")
	}
	_ = other.nc.Close()
	w.Shutdown(t.Context())
	if !w.memory.TryAcquire(1 << 20) {
		t.Fatal("memory of requests that are over is still taken")
	}
}
