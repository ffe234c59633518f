//go:build e2e

package e2e

import (
	be "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawTalk is one connection on which requests of any version are sent, and what was answered.
type rawTalk struct {
	t       *testing.T
	address string
	conn    net.Conn
	last    int32
	heard   []string
	topic   kafka.TopicID // of t
}

func newRawTalk(t *testing.T, address string) *rawTalk {
	t.Helper()
	return &rawTalk{t: t, address: address}
}

// send sends one request in the given version. An answer that does not come, or cannot be read, is an error; the next request has a
// connection of its own then.
func (c *rawTalk) send(rq kmsg.Request, version int16) (resp kmsg.Response, err error) {
	defer func() {
		if err != nil && c.conn != nil {
			c.conn.Close()
			c.conn = nil
		}
	}()
	if c.conn == nil {
		if c.conn, err = net.Dial("tcp", c.address); err != nil {
			return nil, err
		}
		c.t.Cleanup(func() {
			if c.conn != nil {
				c.conn.Close()
			}
		})
	}
	rq.SetVersion(version)
	c.last++
	client := "talk"
	frame := kbin.AppendInt16(make([]byte, 4), rq.Key())
	frame = kbin.AppendNullableString(kbin.AppendInt32(kbin.AppendInt16(frame, version), c.last), &client)
	if rq.IsFlexible() {
		frame = append(frame, 0)
	}
	frame = rq.AppendTo(frame)
	be.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_ = c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.conn.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, be.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	resp, body = rq.ResponseKind(), body[4:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// say sends a request and notes the answer for the comparison.
func (c *rawTalk) say(what string, rq kmsg.Request, version int16) kmsg.Response {
	resp, err := c.send(rq, version)
	answer := "no answer"
	if err == nil {
		answer = compared(resp)
	}
	c.heard = append(c.heard, fmt.Sprintf("%s v%d: %s", what, version, answer))
	if resp == nil {
		resp = rq.ResponseKind()
	}
	return resp
}

// until sends a request again while its answer's code is one of those that a client waits out.
func (c *rawTalk) until(rq kmsg.Request, version int16) kmsg.Response {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		resp, err := c.send(rq, version)
		if err == nil && !slices.Contains([]kafka.ErrorCode{kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.NotCoordinator,
			kafka.ConcurrentTransactions}, firstCode(resp)) {
			return resp
		}
		pause(testContext(c.t), 50*time.Millisecond)
	}
	c.t.Fatalf("%T is never answered for good", rq)
	return nil
}

// firstCode is the answer's own error code, or that of the first coordinator in it.
func firstCode(resp kmsg.Response) kafka.ErrorCode {
	if found, ok := resp.(*kmsg.FindCoordinatorResponse); ok {
		return kafka.ErrorCode(found.Coordinators[0].ErrorCode)
	}
	return kafka.ErrorCode(reflect.ValueOf(resp).Elem().FieldByName("ErrorCode").Int())
}

var (
	memberUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	realID     = regexp.MustCompile(`"(ProducerID|StartTimestamp)":[1-9][0-9]*`)
)

// compared is the answer as text without what differs between any two clusters: ids, times, the words of messages, orders of
// lists that have none.
func compared(resp kmsg.Response) string {
	raw, err := json.Marshal(resp)
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := json.Unmarshal([]byte(realID.ReplaceAllString(string(raw), `"$1":1`)), &tree); err != nil {
		return err.Error()
	}
	return memberUUID.ReplaceAllString(render(tree), "UUID")
}

func render(tree any) string {
	switch node := tree.(type) {
	case map[string]any:
		var parts []string
		for name, value := range node {
			switch name {
			case "UnknownTags", "ThrottleMillis", "Version", "ErrorMessage", "ClientHost", "TopicID":
			case "ErrorCode":
				parts = append(parts, kafka.ErrorCode(value.(float64)).String())
			default:
				parts = append(parts, name+"="+render(value))
			}
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		var parts []string
		for _, value := range node {
			parts = append(parts, render(value))
		}
		slices.Sort(parts)
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(tree)
}

// ready makes topic t with 100 records a partition, and waits until both coordinators answer.
func (c *rawTalk) ready() {
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 3, 1
	create.Topics = []kmsg.CreateTopicsRequestTopic{topic}
	if _, err := c.send(create, 7); err != nil {
		c.t.Fatal(err)
	}
	producer := Client(c.t, c.address, kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(20))
	var records []*kgo.Record
	for n := range int32(300) {
		records = append(records, &kgo.Record{Partition: n % 3, Value: []byte("v")})
	}
	if err := producer.ProduceSync(testContext(c.t), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
	resp, err := c.send(metadata, 12)
	if err != nil {
		c.t.Fatal(err)
	}
	c.topic = resp.(*kmsg.MetadataResponse).Topics[0].TopicID
	for kind := range int8(2) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorType, find.CoordinatorKeys = kind, []string{"warm"}
		c.until(find, 4)
	}
	c.until(fetchOf("warm", 0), 7)
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("warm"), 1000
	c.until(init, 4)
}

// The APIs of groups, of transactions and of records answer as Apache Kafka does: the same requests, in all their versions,
// right and wrong, to both. What differs on purpose is not asked: a group that was refused its only member is not kept here,
// and what was decided is shown at once, where Kafka shows it when its log has caught up.
func TestC84_GroupsAndTransactionsAnswerAsKafkaDoes(t *testing.T) {
	k := NewKafka(t, KafkaOptions{Brokers: 1})
	h := StartHawser(t)
	theirs, ours := newRawTalk(t, k.Bootstrap()), newRawTalk(t, h.Kafka)
	for _, c := range []*rawTalk{theirs, ours} {
		c.ready()
		dataTalk(c)
		for _, v := range []int16{0, 2, 3, 4, 5, 7, 9} {
			classicTalk(c, v)
		}
		for _, v := range []int16{5, 7, 9} {
			staticTalk(c, v)
		}
		offsetsTalk(c)
		oddBeatsTalk(c)
		consumerTalk(c)
		staticConsumerTalk(c)
		initTalk(c)
		transactionTalk(c)
		bumpingTalk(c)
	}
	if len(theirs.heard) != len(ours.heard) {
		t.Fatalf("%d answers and %d", len(theirs.heard), len(ours.heard))
	}
	for i := range theirs.heard {
		if theirs.heard[i] != ours.heard[i] {
			t.Errorf("request %d\nKafka:  %s\nhawser: %s", i, theirs.heard[i], ours.heard[i])
		}
	}
	t.Logf("%d answers compared", len(ours.heard))
}
