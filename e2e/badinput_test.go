//go:build e2e

package e2e

import (
	"bytes"
	"context"
	bits "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bad is one row: an input that no good client sends, and what becomes of it.
type bad struct {
	name  string
	bytes []byte // of a whole request with its size, as they go out
	rq    kmsg.Request
	// want is the code of the answer, by Kafka's name, or closed.
	want string
	// words is what the answer must say, or, where the connection is closed, the log.
	words string
	// kafka is what Apache Kafka 4.1 answers where it is not want; unasked where it is not asked.
	kafka string
	login bool // goes to the listener for logins
}

const (
	closed  = "closed"
	unasked = "not asked"
)

// request is the bytes of a request as a client of some name sends it.
func request(rq kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bad")).AppendRequest(nil, rq, 42)
}

func (row *bad) raw() []byte {
	if row.bytes != nil {
		return row.bytes
	}
	return request(row.rq)
}

// put sends a row's bytes and says what came: a code and its message, or closed.
func (row *bad) put(address string) (outcome, message string, err error) {
	nc, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", "", err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := nc.Write(row.raw()); err != nil {
		return closed, "", nil // before all was written
	}
	if row.rq == nil || row.bytes != nil {
		_ = nc.(*net.TCPConn).CloseWrite() // half a request must not wait for its other half
	}
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		if isTimeout(err) {
			return "", "", fmt.Errorf("neither an answer nor an end: %w", err)
		}
		return closed, "", nil
	}
	frame := make([]byte, bits.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		return "", "", err
	}
	if row.rq == nil {
		return "an answer", fmt.Sprintf("%x", frame), nil
	}
	resp := row.rq.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return "", "", fmt.Errorf("the answer cannot be read: %w", err)
	}
	code, message := firstError(reflect.ValueOf(resp))
	return kafka.ErrorCode(code).String(), message, nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// firstError finds the first code that is not zero anywhere in an answer, and the message beside it.
func firstError(v reflect.Value) (code int16, message string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return firstError(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if code, message := firstError(v.Index(i)); code != 0 {
				return code, message
			}
		}
	case reflect.Struct:
		for _, name := range []string{"ErrorCode", "ConfigErrorCode"} {
			if f := v.FieldByName(name); f.IsValid() && f.Int() != 0 {
				for _, words := range []string{"ErrorMessage", "ErrMsg"} {
					if m := v.FieldByName(words); m.IsValid() && m.Kind() == reflect.Pointer && !m.IsNil() {
						message = m.Elem().String()
					}
				}
				return int16(f.Int()), message
			}
		}
		for i := range v.NumField() {
			if code, message := firstError(v.Field(i)); code != 0 {
				return code, message
			}
		}
	}
	return 0, ""
}

// existing is all that a bad input could have made.
func existing(t *testing.T, client *kgo.Client) string {
	t.Helper()
	ctx, admin := testContext(t), kadm.NewClient(client)
	topics, err := admin.ListTopicsWithInternal(ctx)
	fatal(t, err)
	groups, err := admin.ListGroups(ctx)
	fatal(t, err)
	ends, err := admin.ListEndOffsets(ctx, "bad-input", "bad-compacted")
	fatal(t, err)
	configs, err := admin.DescribeTopicConfigs(ctx, "bad-input")
	fatal(t, err)
	brokers, err := admin.DescribeBrokerConfigs(ctx, 1)
	fatal(t, err)
	transactions, err := admin.ListTransactions(ctx, nil, nil)
	fatal(t, err)
	quotas, err := admin.DescribeClientQuotas(ctx, false, nil)
	fatal(t, err)
	users, err := admin.DescribeUserSCRAMs(ctx)
	fatal(t, err)
	var b strings.Builder
	fmt.Fprintln(&b, topics.Names(), groups.Groups(), transactions.TransactionalIDs(), len(quotas), len(users))
	ends.Each(func(o kadm.ListedOffset) { fmt.Fprintln(&b, o.Topic, o.Partition, o.Offset) })
	for _, list := range []kadm.ResourceConfigs{configs, brokers} {
		for _, r := range list {
			for _, c := range r.Configs {
				if c.Source != kmsg.ConfigSourceDefaultConfig {
					fmt.Fprintln(&b, r.Name, c.Key, c.MaybeValue())
				}
			}
		}
	}
	lines := strings.Split(b.String(), "\n") // maps and answers have no order
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// latencies produces one record after another until it is told to end, and keeps how long each took.
type latencies struct {
	mu   sync.Mutex
	all  []time.Duration
	errs []error
	stop context.CancelFunc
	done sync.WaitGroup
}

func measure(t *testing.T, bootstrap, topic string) *latencies {
	l := &latencies{}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	client := Client(t, bootstrap, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	l.done.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			err := client.ProduceSync(context.WithoutCancel(ctx), &kgo.Record{Value: []byte("steady")}).FirstErr()
			l.mu.Lock()
			l.all = append(l.all, time.Since(begun))
			if err != nil {
				l.errs = append(l.errs, err)
			}
			l.mu.Unlock()
			pause(ctx, 2*time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); l.done.Wait() })
	return l
}

// take is the 99th percentile since the last take, and how many records it is of.
func (l *latencies) take() (p99 time.Duration, n int, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.all)
	if n = len(l.all); n > 0 {
		p99 = l.all[n*99/100]
	}
	errs = l.errs
	l.all, l.errs = nil, nil
	return p99, n, errs
}

// badWorld makes what the rows speak of.
func badWorld(t *testing.T, client *kgo.Client) {
	t.Helper()
	createOn(t, client, "bad-input", []int32{1}, map[string]string{"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "1000000000000", "max.message.bytes": "1048588"})
	createOn(t, client, "bad-compacted", []int32{1}, map[string]string{"cleanup.policy": "compact"})
	createOn(t, client, "bad-steady", []int32{1}, nil)
	write(t, client, "bad-input", 0, 10, "good")
	// The internal topics are there before anything is compared.
	commit(t, client, "bad-warm", "bad-input", 1)
	rq := kmsg.NewPtrInitProducerIDRequest()
	rq.TransactionalID, rq.TransactionTimeoutMillis = kmsg.StringPtr("bad-warm"), 10_000
	eventually(t, 60*time.Second, "transactions work", func() (bool, string) {
		resp, err := rq.RequestWith(testContext(t), client)
		return err == nil && resp.ErrorCode == 0, fmt.Sprint(resp, err)
	})
}

// TestBadInputMakesNothing puts each row to a hawser beside a producer at work: it has its answer and words, nothing
// new exists afterwards, and the producer's p99 stays where it was.
func TestBadInputMakesNothing(t *testing.T) {
	h, secured := startSecured(t)
	client := Client(t, h.Kafka)
	badWorld(t, client)
	rows := badRows(t, client)
	if len(rows) < 120 {
		t.Fatalf("only %d rows", len(rows))
	}
	steady := measure(t, h.Kafka, "bad-steady")
	before := existing(t, client)
	var quiet time.Duration
	for begun := time.Now(); time.Since(begun) < 3*time.Second; { // the same questions as between the rows, so that only the rows differ
		existing(t, client)
	}
	quiet, n, errs := steady.take()
	t.Logf("p99 before: %v of %d", quiet, n)
	quietErrs := len(errs)
	log := logReader{path: h.logPath()}
	log.more()
	for _, row := range rows {
		address := h.Kafka
		if row.login {
			address = secured
		}
		outcome, message, err := row.put(address)
		switch {
		case err != nil:
			t.Errorf("%s: %v", row.name, err)
		case outcome != row.want:
			t.Errorf("%s: %s (%s), want %s", row.name, outcome, message, row.want)
		case outcome == closed && row.words != "" && !log.says(row.words):
			t.Errorf("%s: the log has no line like %q", row.name, row.words)
		case outcome != closed && row.words != "" && !regexp.MustCompile(row.words).MatchString(message):
			t.Errorf("%s: says %q, want %q", row.name, message, row.words)
		}
		if after := existing(t, client); after != before {
			t.Errorf("%s: before\n%s\nafter\n%s", row.name, before, after)
			before = after
		}
	}
	p99, n, errs := steady.take()
	t.Logf("p99 during %d rows: %v of %d", len(rows), p99, n)
	if len(errs) > 0 || quietErrs > 0 {
		t.Errorf("the producer failed: %v", errs)
	}
	if p99 > 3*quiet+150*time.Millisecond {
		t.Errorf("the producer's p99 went from %v to %v", quiet, p99)
	}
}

// logReader reads what a log grows by.
type logReader struct {
	path string
	from int
	fed  int
}

func (l *logReader) more() []byte {
	text, _ := os.ReadFile(l.path)
	fresh := text[min(l.from, len(text)):]
	l.from = len(text)
	return fresh
}

// says reports whether the log has a line like that now. After twenty closed connections it bounds what it writes of them.
func (l *logReader) says(words string) bool {
	if l.fed++; l.fed > 20 {
		return true
	}
	pattern := regexp.MustCompile(words)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); pause(context.Background(), 5*time.Millisecond) {
		if fresh := l.more(); pattern.Match(bytes.TrimSpace(fresh)) {
			return true
		}
	}
	return false
}

// TestBadInputIsAnsweredAsKafka puts the rows to Apache Kafka 4.1 and wants the codes that the table names.
func TestBadInputIsAnsweredAsKafka(t *testing.T) {
	k := SharedKafka(t)
	client := Client(t, k.Bootstrap())
	badWorld(t, client)
	asked := 0
	for _, row := range badRows(t, client) {
		want := row.want
		if row.kafka != "" {
			want = row.kafka
		}
		if row.login || want == unasked {
			continue
		}
		asked++
		var outcome, message string
		var err error
		for id := 1; id <= 3; id++ { // the one that coordinates the group or the transaction
			outcome, message, err = row.put(k.Address(id))
			if outcome != "NOT_COORDINATOR" {
				break
			}
		}
		if err != nil || outcome != want {
			t.Errorf("%s: Apache Kafka says %s (%s) %v, want %s", row.name, outcome, message, err, want)
		}
	}
	t.Logf("%d rows were put to Apache Kafka", asked)
}
