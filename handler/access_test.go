package handler

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
)

// certificate is a self-signed one for 127.0.0.1.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots}
}

// plainUsers is SASL PLAIN with one password for all.
type plainUsers struct {
	password string
	until    time.Time
}

func (plainUsers) Mechanisms() []string { return []string{"PLAIN"} }

func (p plainUsers) Begin(string) (Exchange, error) { return &plainExchange{users: p}, nil }

type plainExchange struct {
	users plainUsers
	name  string
}

func (e *plainExchange) Step(token []byte) ([]byte, error) {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 || parts[2] != e.users.password {
		return nil, errors.New("the password of " + parts[0] + " is wrong")
	}
	e.name = "User:" + parts[1]
	return nil, nil
}

func (e *plainExchange) Principal() (string, time.Time, bool) {
	return e.name, e.users.until, e.name != ""
}

func TestTLSListener(t *testing.T) {
	server, client := certificate(t)
	w := newFullWorld(t)
	if err := w.Listen(Listener{Name: "TLS", Address: "127.0.0.1:0", TLS: server}); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.make("t", 1, nil)
	cl := w.kafkaClient(kgo.SeedBrokers(w.Addr("TLS")), kgo.DialTLSConfig(client), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	produceN(t, cl, "t", 20, 100_000)
	consumeN(t, cl, 20)
	// A long poll over TLS, to see that watching for a hang-up harms nothing.
	produceN(t, cl, "t", 1, 10)
	consumeN(t, cl, 1)
	// Plain bytes on a TLS port end the connection.
	c := dial(t, w.Addr("TLS"))
	if _, err := c.nc.Write([]byte("\x00\x00\x00\x20nothing of TLS in these bytes at all")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.nc); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
}

func saslWorld(t *testing.T, users plainUsers, more ...func(*world, *Deps)) *world {
	w := newFullWorld(t, more...)
	if err := w.Listen(Listener{Name: "SASL", Address: "127.0.0.1:0", SASL: users}); err != nil {
		t.Fatal(err)
	}
	return w.serve()
}

func handshake(c *client, version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	rq := kmsg.NewPtrSASLHandshakeRequest()
	rq.Mechanism = mechanism
	return ask[*kmsg.SASLHandshakeResponse](c, version, rq)
}

func authenticate(c *client, version int16, token string) *kmsg.SASLAuthenticateResponse {
	rq := kmsg.NewPtrSASLAuthenticateRequest()
	rq.SASLAuthBytes = []byte(token)
	return ask[*kmsg.SASLAuthenticateResponse](c, version, rq)
}

func TestSaslClient(t *testing.T) {
	w := saslWorld(t, plainUsers{password: "secret"})
	w.make("t", 1, nil)
	login := saslplain.Auth{User: "alice", Pass: "secret"}
	produceN(t, w.kafkaClient(kgo.SeedBrokers(w.Addr("SASL")), kgo.SASL(login.AsMechanism())), "t", 1, 10)
}

func TestSaslExchange(t *testing.T) {
	at := &clock{time.Unix(1000, 0)}
	w := saslWorld(t, plainUsers{password: "secret", until: at.at.Add(time.Minute)}, func(_ *world, d *Deps) { d.Now = at.now })
	c := dial(t, w.Addr("SASL"))
	// ApiVersions may be asked before, nothing else.
	ask[*kmsg.ApiVersionsResponse](c, 3, apiVersionsRequest())
	if got := handshake(c, 1, "SCRAM-SHA-256"); got.ErrorCode != int16(kafka.UnsupportedSaslMechanism) || len(got.SupportedMechanisms) != 1 {
		t.Fatalf("%+v", got)
	}
	if got := authenticate(c, 1, "x"); got.ErrorCode != int16(kafka.IllegalSaslState) {
		t.Fatalf("before a handshake: %+v", got)
	}
	c = dial(t, w.Addr("SASL"))
	if got := handshake(c, 1, "PLAIN"); got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if got := authenticate(c, 2, "\x00alice\x00secret"); got.ErrorCode != 0 || got.SessionLifetimeMillis != 60_000 {
		t.Fatalf("%+v", got)
	}
	ask[*kmsg.MetadataResponse](c, 9, kmsg.NewPtrMetadataRequest())
	// Renewed in time, as the same user.
	handshake(c, 1, "PLAIN")
	if got := authenticate(c, 2, "\x00alice\x00secret"); got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	at.at = at.at.Add(2 * time.Minute)
	late := kmsg.NewPtrMetadataRequest()
	late.SetVersion(9)
	c.write(late)
	c.closed("the login is over")
}

func TestSaslFailures(t *testing.T) {
	w := saslWorld(t, plainUsers{password: "secret"})
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.SetVersion(9)

	c := dial(t, w.Addr("SASL"))
	c.write(metadata)
	c.closed("a request before authentication")

	c = dial(t, w.Addr("SASL"))
	handshake(c, 1, "PLAIN")
	got := authenticate(c, 1, "\x00alice\x00wrong")
	if got.ErrorCode != int16(kafka.SaslAuthenticationFailed) || got.ErrorMessage == nil || strings.Contains(*got.ErrorMessage, "password") {
		t.Fatalf("%+v: the client learns only that it failed", got)
	}
	again := kmsg.NewPtrSASLHandshakeRequest()
	again.Mechanism = "PLAIN"
	c.write(again)
	c.closed("a second try on the connection")

	c = dial(t, w.Addr("SASL"))
	handshake(c, 1, "PLAIN")
	authenticate(c, 1, "\x00alice\x00secret")
	handshake(c, 1, "PLAIN")
	if got := authenticate(c, 1, "\x00bob\x00secret"); got.ErrorCode != int16(kafka.SaslAuthenticationFailed) {
		t.Fatalf("renewed as another user: %+v", got)
	}
	c.write(metadata)
	c.closed("after a failed renewal")

	plainText := w.dial()
	if got := handshake(plainText, 1, "PLAIN"); got.ErrorCode != int16(kafka.IllegalSaslState) {
		t.Fatalf("a listener without SASL: %+v", got)
	}
}

// Version 0 of the handshake is followed by bare frames.
func TestC79_SaslHandshakeVersion0(t *testing.T) {
	w := saslWorld(t, plainUsers{password: "secret"})
	token := func(c *client, text string) {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		if _, err := c.nc.Write(append(frame, text...)); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, w.Addr("SASL"))
	handshake(c, 0, "PLAIN")
	token(c, "\x00alice\x00secret")
	var empty [4]byte
	if _, err := io.ReadFull(c.nc, empty[:]); err != nil || binary.BigEndian.Uint32(empty[:]) != 0 {
		t.Fatalf("answer %v, %v", empty, err)
	}
	ask[*kmsg.MetadataResponse](c, 9, kmsg.NewPtrMetadataRequest())

	c = dial(t, w.Addr("SASL"))
	handshake(c, 0, "PLAIN")
	token(c, "\x00alice\x00wrong")
	c.closed("a wrong password")
}

// nothing allows nothing; except, if set, one operation on one resource.
type nothing struct {
	op   kmsg.ACLOperation
	name string
}

func (n nothing) Allowed(_, _ string, op kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
	return n.op != 0 && op == n.op && name == n.name
}

func (n nothing) AllowedSomewhere(_, _ string, op kmsg.ACLOperation, _ kmsg.ACLResourceType) bool {
	return n.op != 0 && op == n.op
}

// Every API that names something answers that it is not allowed, and has no effect.
func TestC76_DeniedAtTheKafkaDoor(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Authorizer, d.Settings.AutoCreateTopics = nothing{}, true }).serve()
	made := w.make("t", 1, nil)
	c := w.dial()
	topicDenied, groupDenied, clusterDenied := int16(kafka.TopicAuthorizationFailed), int16(kafka.GroupAuthorizationFailed), int16(kafka.ClusterAuthorizationFailed)
	expect := func(what string, got, want int16) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, kafka.ErrorCode(got), kafka.ErrorCode(want))
		}
	}
	expect("Produce", produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 1, noProducer()))).ErrorCode, topicDenied)
	expect("Fetch", fetched(t, c, 12, fetchRequest("t", 0, 0)).ErrorCode, topicDenied)
	expect("ListOffsets", listOffset(c, 6, timeLatest, 0).ErrorCode, topicDenied)
	md := kmsg.NewPtrMetadataRequest()
	if got := ask[*kmsg.MetadataResponse](c, 12, md); len(got.Topics) != 0 {
		t.Errorf("Metadata of all shows %d topics", len(got.Topics))
	}
	md.AllowAutoTopicCreation = true
	md.Topics = []kmsg.MetadataRequestTopic{{Topic: text("t")}, {Topic: text("new")}, {TopicID: made.ID}}
	got := ask[*kmsg.MetadataResponse](c, 12, md).Topics
	expect("Metadata", got[0].ErrorCode, topicDenied)
	expect("Metadata that creates", got[1].ErrorCode, topicDenied)
	expect("Metadata by id", got[2].ErrorCode, topicDenied)
	expect("OffsetCommit", int16(commit(c, "t", 0, 0, nil)), groupDenied)
	expect("CreateTopics", create(c, 7, false, newTopic("new", 1, 1))[0].ErrorCode, topicDenied)
	expect("CreatePartitions", int16(grow(c, "t", 2, false)), topicDenied)
	expect("DescribeConfigs", describe(c, topicKind, "t").ErrorCode, topicDenied)
	expect("DescribeConfigs of the broker", describe(c, brokerKind, "1").ErrorCode, clusterDenied)
	expect("IncrementalAlterConfigs", alter(c, topicKind, "t", 0, "retention.ms", "1").ErrorCode, topicDenied)
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.TopicNames = []string{"t"}
	expect("DeleteTopics", ask[*kmsg.DeleteTopicsResponse](c, 5, gone).Topics[0].ErrorCode, topicDenied)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group = "g"
	expect("JoinGroup", ask[*kmsg.JoinGroupResponse](c, 7, join).ErrorCode, groupDenied)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	expect("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](c, 4, find).Coordinators[0].ErrorCode, groupDenied)
	expect("DescribeAcls", ask[*kmsg.DescribeACLsResponse](c, 3, kmsg.NewPtrDescribeACLsRequest()).ErrorCode, int16(kafka.SecurityDisabled))
	if w.partition("t", 0).Offsets().LogEnd != 0 || (worldTopics{w}).ByName("new") != nil || (worldTopics{w}).ByName("t").Partitions != 1 {
		t.Error("something that was refused was done")
	}
}

// What a topic is made of is shown only to those who may describe its configs.
// groupsOnly lets everybody do everything to groups and nothing else.
type groupsOnly struct{ nothing }

func (groupsOnly) Allowed(_, _ string, _ kmsg.ACLOperation, kind kmsg.ACLResourceType, _ string) bool {
	return kind == kmsg.ACLResourceTypeGroup
}

// TestC76_OffsetsOfDeniedTopicsByID: version 10 names topics by id, and says no more of one that is denied than version 9.
func TestC76_OffsetsOfDeniedTopicsByID(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Authorizer = groupsOnly{} }).serve()
	made := w.make("t", 1, nil)
	c := w.dial()
	want := map[kafka.TopicID]kafka.ErrorCode{made.ID: kafka.TopicAuthorizationFailed, kafka.NewTopicID(): kafka.UnknownTopicID}
	put, read, group := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	put.Group, put.Generation, group.Group = "g", -1, "g"
	for id := range want {
		in := kmsg.NewOffsetCommitRequestTopic()
		in.TopicID, in.Partitions = id, []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
		put.Topics = append(put.Topics, in)
		ask := kmsg.NewOffsetFetchRequestGroupTopic()
		ask.TopicID, ask.Partitions = id, []int32{0}
		group.Topics = append(group.Topics, ask)
	}
	read.Groups = append(read.Groups, group)
	for _, topic := range ask[*kmsg.OffsetCommitResponse](c, 10, put).Topics {
		if got := kafka.ErrorCode(topic.Partitions[0].ErrorCode); got != want[topic.TopicID] {
			t.Errorf("commit to %v: %v, want %v", topic.TopicID, got, want[topic.TopicID])
		}
	}
	topics := ask[*kmsg.OffsetFetchResponse](c, 10, read).Groups[0].Topics
	if len(topics) != len(want) {
		t.Errorf("%d topics are answered, want %d", len(topics), len(want))
	}
	for _, topic := range topics {
		if got := kafka.ErrorCode(topic.Partitions[0].ErrorCode); got != want[topic.TopicID] || topic.Topic != "" {
			t.Errorf("fetch of %v %q: %v, want %v", topic.TopicID, topic.Topic, got, want[topic.TopicID])
		}
	}
}

func TestC88_CreateTopicsHidesConfigs(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Authorizer = nothing{kmsg.ACLOperationCreate, "t"} }).serve()
	got := create(w.dial(), 7, false, newTopic("t", 3, 1))[0]
	if got.ErrorCode != 0 || got.ConfigErrorCode != int16(kafka.TopicAuthorizationFailed) || got.NumPartitions != -1 || got.ReplicationFactor != -1 || len(got.Configs) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestCertificatesNamePrincipals(t *testing.T) {
	server, client := certificate(t)
	server = server.Clone()
	server.ClientAuth, server.ClientCAs = tls.VerifyClientCertIfGiven, client.RootCAs
	with := client.Clone()
	with.Certificates = server.Certificates
	seen := &onlySeen{}
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Authorizer = seen })
	name := func(state *tls.ConnectionState) (string, error) {
		if len(state.VerifiedChains) == 0 {
			return "", nil
		}
		return "User:CN=alice", nil
	}
	refuse := func(*tls.ConnectionState) (string, error) { return "", errors.New("no rule matches") }
	for _, l := range []Listener{
		{Name: "TLS", Address: "127.0.0.1:0", TLS: server, Principal: name}, {Name: "STRICT", Address: "127.0.0.1:0", TLS: server, Principal: refuse},
	} {
		if err := w.Listen(l); err != nil {
			t.Fatal(err)
		}
	}
	w.serve()
	for config, want := range map[*tls.Config]string{with: "User:CN=alice", client: Anonymous} {
		c := dialTLS(t, w.Addr("TLS"), config)
		ask[*kmsg.ListGroupsResponse](c, 4, kmsg.NewPtrListGroupsRequest())
		if got := seen.last(); got != want {
			t.Errorf("the authorizer was asked about %s, want %s", got, want)
		}
	}
	c := dialTLS(t, w.Addr("STRICT"), with)
	rq := kmsg.NewPtrListGroupsRequest()
	rq.SetVersion(4)
	c.write(rq)
	c.closed("a certificate that no rule maps")
}

func dialTLS(t *testing.T, address string, config *tls.Config) *client {
	t.Helper()
	c := dial(t, address)
	config = config.Clone()
	config.ServerName = "127.0.0.1"
	c.nc = tls.Client(c.nc, config)
	return c
}

// onlySeen allows everything and remembers who asked.
type onlySeen struct {
	mu  sync.Mutex
	who string
}

func (o *onlySeen) Allowed(principal, _ string, _ kmsg.ACLOperation, _ kmsg.ACLResourceType, _ string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = principal
	return true
}

func (o *onlySeen) AllowedSomewhere(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType) bool {
	return o.Allowed(principal, host, op, kind, "")
}

func (o *onlySeen) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.who
}
