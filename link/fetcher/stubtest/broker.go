package stubtest

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// requestMax bounds a request's size, in bytes.
const requestMax = 16 << 20

// Broker is one stub broker.
type Broker struct {
	id       int32
	cluster  *Cluster
	listener net.Listener
	stop     chan struct{} // closed by Stop

	mu         sync.Mutex
	conns      map[net.Conn]bool
	accepted   int
	stopped    bool
	maxFetch   int16
	noSessions bool
	hardLimits bool
	throttle   time.Duration
	delay      time.Duration
	pace       int // bytes a second on each connection, 0 for no bound
	forgotten  int // how often sessions were forgotten
}

// Address is where it listens.
func (b *Broker) Address() string { return b.listener.Addr().String() }

// Stop closes it for good.
func (b *Broker) Stop() {
	b.mu.Lock()
	if !b.stopped {
		close(b.stop)
	}
	b.stopped = true
	b.mu.Unlock()
	_ = b.listener.Close() // a stub has nobody to tell
	b.HangUp()
}

// HangUp closes all connections; new ones are taken.
func (b *Broker) HangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		conn.Close()
	}
}

// MaxFetch is the newest version of Fetch it knows.
func (b *Broker) MaxFetch(version int16) { b.mu.Lock(); b.maxFetch = version; b.mu.Unlock() }

// NoSessions makes it have no room for fetch sessions.
func (b *Broker) NoSessions() { b.mu.Lock(); b.noSessions = true; b.mu.Unlock() }

// HardLimits makes it cut a first batch that is larger than the bounds, as Kafka did before KIP-74.
func (b *Broker) HardLimits() { b.mu.Lock(); b.hardLimits = true; b.mu.Unlock() }

// ForgetSessions makes it drop all fetch sessions, as one whose cache overflows.
func (b *Broker) ForgetSessions() { b.mu.Lock(); b.forgotten++; b.mu.Unlock() }

// Throttle is what it tells clients to wait after a fetch.
func (b *Broker) Throttle(d time.Duration) { b.mu.Lock(); b.throttle = d; b.mu.Unlock() }

// Delay is how long each answer takes on its way.
func (b *Broker) Delay(d time.Duration) { b.mu.Lock(); b.delay = d; b.mu.Unlock() }

// Pace is how many bytes a second each connection carries, as one whose window is small for its distance.
func (b *Broker) Pace(bytes int) { b.mu.Lock(); b.pace = bytes; b.mu.Unlock() }

// Accepted is how many connections it has taken.
func (b *Broker) Accepted() int { b.mu.Lock(); defer b.mu.Unlock(); return b.accepted }

func (b *Broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.stopped {
			conn.Close()
		} else {
			b.conns[conn] = true
			b.accepted++
			go b.serve(conn)
		}
		b.mu.Unlock()
	}
}

// pause waits, and reports false when the broker stops meanwhile.
func (b *Broker) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.stop:
		return false
	}
}

// connection is what a broker remembers of one.
type connection struct {
	broker *Broker
	authed bool
	id     int32 // fetch session, 0 for none
	since  int   // Broker.forgotten when it was opened
	epoch  int32
	parts  []sessionPart
}

func (b *Broker) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		b.mu.Lock()
		delete(b.conns, conn)
		b.mu.Unlock()
	}()
	c := &connection{broker: b}
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(head[:])
		if size < 8 || size > requestMax {
			return
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		out, ok := c.handle(frame)
		if !ok {
			return
		}
		b.mu.Lock()
		delay := b.delay
		if b.pace > 0 {
			delay += time.Duration(float64(len(out)) / float64(b.pace) * float64(time.Second))
		}
		b.mu.Unlock()
		if delay > 0 && !b.pause(delay) {
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (c *connection) handle(frame []byte) ([]byte, bool) {
	key := int16(binary.BigEndian.Uint16(frame))
	version := int16(binary.BigEndian.Uint16(frame[2:]))
	correlation := frame[4:8]
	body := frame[8:]
	if len(body) < 2 {
		return nil, false
	}
	if n := int(int16(binary.BigEndian.Uint16(body))); n < 0 {
		body = body[2:]
	} else if len(body) >= 2+n {
		body = body[2+n:]
	} else {
		return nil, false
	}
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, false
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		if len(body) == 0 {
			return nil, false
		}
		body = body[1:] // no tags are sent
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, false
	}
	c.broker.cluster.mu.Lock()
	c.broker.cluster.requests[key]++
	password := c.broker.cluster.password
	c.broker.cluster.mu.Unlock()
	if password != "" && !c.authed && key != 17 && key != 18 && key != 36 {
		return nil, false
	}
	resp := c.answer(req)
	if resp == nil {
		return nil, false
	}
	resp.SetVersion(version)
	c.broker.cluster.mu.Lock()
	lie := c.broker.cluster.lie
	c.broker.cluster.mu.Unlock()
	if lie != nil {
		lie(resp)
	}
	out := append(make([]byte, 4, 1024), correlation...)
	if resp.IsFlexible() && key != 18 {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, true
}

func (c *connection) answer(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return c.broker.versions()
	case *kmsg.SASLHandshakeRequest:
		resp := kmsg.NewPtrSASLHandshakeResponse()
		resp.SupportedMechanisms = []string{"PLAIN"}
		return resp
	case *kmsg.SASLAuthenticateRequest:
		return c.login(req)
	case *kmsg.MetadataRequest:
		return c.broker.cluster.metadata(req)
	case *kmsg.FetchRequest:
		return c.fetch(req)
	case *kmsg.ListOffsetsRequest:
		return c.broker.listOffsets(req)
	case *kmsg.OffsetForLeaderEpochRequest:
		return c.broker.epochEnds(req)
	case *kmsg.DescribeConfigsRequest:
		return c.broker.cluster.describeConfigs(req)
	}
	return nil
}

func (b *Broker) versions() kmsg.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	resp := kmsg.NewPtrApiVersionsResponse()
	// Produce is there as every broker lists it, and kgo takes a list without it for none: it would send what is not offered.
	for _, row := range [][3]int16{{0, 3, 9}, {1, 4, b.maxFetch}, {2, 1, 8}, {3, 1, 12}, {17, 1, 1}, {18, 0, 3}, {23, 2, 4},
		{32, 1, 4}, {36, 0, 2}} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = row[0], row[1], row[2]
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}

// describeConfigs says that every topic has the defaults, and what Configs was told besides.
func (c *Cluster) describeConfigs(req *kmsg.DescribeConfigsRequest) kmsg.Response {
	c.mu.Lock()
	configs := c.configs
	c.mu.Unlock()
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, r := range req.Resources {
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = r.ResourceType, r.ResourceName
		var set map[string]string
		if configs != nil {
			var code kafka.ErrorCode
			set, code = configs(r.ResourceName)
			row.ErrorCode = int16(code)
		}
		for _, pair := range [][2]string{{"cleanup.policy", "delete"}, {"max.message.bytes", "1048588"},
			{"message.timestamp.type", "CreateTime"}, {"retention.ms", "-1"}, {"retention.bytes", "-1"}} {
			if _, is := set[pair[0]]; !is {
				row.Configs = append(row.Configs, described(pair[0], pair[1], kmsg.ConfigSourceDefaultConfig))
			}
		}
		for name, value := range set {
			row.Configs = append(row.Configs, described(name, value, kmsg.ConfigSourceDynamicTopicConfig))
		}
		resp.Resources = append(resp.Resources, row)
	}
	return resp
}

func described(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.Source, c.IsDefault = name, &value, source, source == kmsg.ConfigSourceDefaultConfig
	return c
}

func (c *connection) login(req *kmsg.SASLAuthenticateRequest) kmsg.Response {
	c.broker.cluster.mu.Lock()
	password := c.broker.cluster.password
	c.broker.cluster.mu.Unlock()
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	words := strings.Split(string(req.SASLAuthBytes), "\x00")
	if c.authed = len(words) == 3 && words[2] == password; !c.authed {
		resp.ErrorCode = int16(kafka.SaslAuthenticationFailed)
		resp.ErrorMessage = kmsg.StringPtr("Authentication failed")
	}
	return resp
}

func (c *Cluster) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = &c.ID
	for id, b := range c.brokers {
		b.mu.Lock()
		stopped := b.stopped
		b.mu.Unlock()
		if stopped {
			continue
		}
		host, port, _ := net.SplitHostPort(b.Address())
		n, _ := strconv.Atoi(port)
		row := kmsg.NewMetadataResponseBroker()
		row.NodeID, row.Host, row.Port = id, host, int32(n)
		resp.Brokers = append(resp.Brokers, row)
	}
	var names []string
	if req.Topics == nil {
		for name := range c.topics {
			names = append(names, name)
		}
	}
	for _, t := range req.Topics {
		if t.Topic != nil {
			names = append(names, *t.Topic)
		}
	}
	for _, name := range names {
		row := kmsg.NewMetadataResponseTopic()
		row.Topic = &name
		t := c.topics[name]
		if t == nil {
			row.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			resp.Topics = append(resp.Topics, row)
			continue
		}
		row.TopicID = t.id
		for i, q := range t.parts {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch = int32(i), q.leader, int32(q.epoch)
			row.Partitions = append(row.Partitions, p)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

// find gives a partition that this broker leads in the epoch the client believes in. The cluster's lock is held.
func (b *Broker) find(name string, partition, epoch int32) (*part, kafka.ErrorCode) {
	t := b.cluster.topics[name]
	if t == nil || partition < 0 || int(partition) >= len(t.parts) {
		return nil, kafka.UnknownTopicOrPartition
	}
	q := t.parts[partition]
	switch {
	case q.leader != b.id:
		return nil, kafka.NotLeaderForPartition
	case epoch >= 0 && kafka.LeaderEpoch(epoch) < q.epoch:
		return nil, kafka.FencedLeaderEpoch
	case epoch >= 0 && kafka.LeaderEpoch(epoch) > q.epoch:
		return nil, kafka.UnknownLeaderEpoch
	}
	return q, q.deny
}

func (b *Broker) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		row := kmsg.NewListOffsetsResponseTopic()
		row.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewListOffsetsResponseTopicPartition()
			out.Partition = p.Partition
			q, code := b.find(t.Topic, p.Partition, p.CurrentLeaderEpoch)
			out.ErrorCode = int16(code)
			if code == kafka.None {
				switch {
				case p.Timestamp == -2:
					out.Offset = int64(q.start)
				case req.IsolationLevel == 1:
					out.Offset = int64(q.lastStable())
				default:
					out.Offset = int64(q.highWatermark())
				}
			}
			row.Partitions = append(row.Partitions, out)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

func (b *Broker) epochEnds(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		row := kmsg.NewOffsetForLeaderEpochResponseTopic()
		row.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			out.Partition = p.Partition
			q, code := b.find(t.Topic, p.Partition, p.CurrentLeaderEpoch)
			out.ErrorCode = int16(code)
			if code == kafka.None {
				epoch, end := q.epochEnd(kafka.LeaderEpoch(p.LeaderEpoch))
				out.LeaderEpoch, out.EndOffset = int32(epoch), int64(end)
			}
			row.Partitions = append(row.Partitions, out)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}
