package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lineMax bounds a line of input, in bytes; what a record may hold is for the broker to say.
const lineMax = 64 << 20

// produceFlags is what `produce` was told.
type produceFlags struct {
	delimiter, compression, acks string
	withKey, tombstones          bool
	partition                    int32
	headers                      []string
	timeout                      time.Duration
}

func (a *app) produce(use string) *cobra.Command {
	f := &produceFlags{}
	cmd := &cobra.Command{Use: use + " <topic>", Short: "Produce records: a line of the input is one", Args: exactArgs("<topic>"),
		Example: "  echo hello | hawser produce orders\n  hawser produce orders --parse-key --delimiter : --header origin=shell < lines.txt"}
	flags := cmd.Flags()
	flags.BoolVar(&f.withKey, "parse-key", false, "a line is key, delimiter, value")
	flags.StringVar(&f.delimiter, "delimiter", ":", "what stands between key and value")
	flags.BoolVar(&f.tombstones, "empty-is-null", false, "an empty value is a null one: with a key a tombstone")
	flags.Int32Var(&f.partition, "partition", -1, "the `partition` (default: by the key, else the client's choice)")
	flags.StringArrayVar(&f.headers, "header", nil, "`name=value` put on every record; may be repeated")
	flags.StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&f.acks, "acks", "all", "all, 1 or 0")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long a record may take to be acknowledged")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.runProduce(cmd.Context(), args[0], f) }
	return cmd
}

func (f *produceFlags) options() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, fmt.Errorf("--compression %q: it must be none, gzip, snappy, lz4 or zstd", f.compression)
	}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5 * time.Millisecond),
		kgo.RecordDeliveryTimeout(f.timeout), kgo.ProducerBatchMaxBytes(lineMax)}
	switch f.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("--acks %q: it must be all, 1 or 0", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func (a *app) runProduce(ctx context.Context, topic string, f *produceFlags) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	headers, err := f.recordHeaders()
	if err != nil {
		return err
	}
	c, err := a.kafkaClient(ctx, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := newFirstError()
	in := bufio.NewScanner(a.in())
	in.Buffer(make([]byte, 0, 64<<10), lineMax)
	n := 0
	for in.Scan() && sent.err() == nil {
		record, err := f.record(topic, in.Text(), headers)
		if err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		n++
		c.Produce(ctx, record, func(_ *kgo.Record, err error) { sent.set(err) })
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read the input after line %d: %w", n, err)
	}
	if err := c.Flush(ctx); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	if err := sent.err(); err != nil {
		return unproduced(topic, err)
	}
	fmt.Fprintf(a.err, "Produced %s to topic \"%s\".\n", numbered(n, "record"), clean(topic))
	return nil
}

// unproduced is a refused record in words: the client library keeps a code, not the broker's own sentence.
func unproduced(topic string, err error) error {
	switch {
	case errors.Is(err, kerr.InvalidRequest):
		return fmt.Errorf("produce to topic %q: it takes no records, as a read-only mirror topic. Write to its source; 'hawser mirror "+
			"promote' or 'failover' open it", topic)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("produce to topic %q: it does not exist. 'hawser topic create %s' makes it", topic, topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("produce to topic %q: the user is not allowed to WRITE to it. Ask for an ALLOW ACL of that operation", topic)
	}
	return fmt.Errorf("produce to topic %q: %w", topic, err)
}

func (f *produceFlags) recordHeaders() ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %q is not name=value", text)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return headers, nil
}

func (f *produceFlags) record(topic, line string, headers []kgo.RecordHeader) (*kgo.Record, error) {
	r := &kgo.Record{Topic: topic, Value: []byte(line), Headers: headers}
	if f.partition >= 0 {
		r.Partition = f.partition
	}
	if f.withKey {
		key, value, ok := strings.Cut(line, f.delimiter)
		if !ok {
			return nil, fmt.Errorf("there is no %q between key and value. Change --delimiter, or leave --parse-key out", f.delimiter)
		}
		r.Key, r.Value = []byte(key), []byte(value)
	}
	if f.tombstones && len(r.Value) == 0 {
		r.Value = nil
	}
	return r, nil
}

// firstError keeps the first of what many callbacks say.
type firstError struct{ kept chan error }

func newFirstError() firstError { return firstError{make(chan error, 1)} }

func (f firstError) set(err error) {
	if err == nil {
		return
	}
	select {
	case f.kept <- err:
	default:
	}
}

// err is the error that came first; it stays.
func (f firstError) err() error {
	select {
	case err := <-f.kept:
		f.kept <- err
		return err
	default:
		return nil
	}
}

func (a *app) in() io.Reader {
	if a.hooks.In != nil {
		return a.hooks.In
	}
	return os.Stdin
}

// kafkaClient opens the Kafka door: at --bootstrap-server, else at the brokers that REST names.
func (a *app) kafkaClient(ctx context.Context, more ...kgo.Opt) (*kgo.Client, error) {
	if err := a.door.readCommandConfig(); err != nil {
		return nil, err
	}
	bootstrap := a.door.bootstrap
	if bootstrap == "" {
		var err error
		if bootstrap, err = a.brokersByREST(ctx); err != nil {
			return nil, err
		}
	}
	opts, err := a.door.kafkaOptions(bootstrap)
	if err != nil {
		return nil, err
	}
	c, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("open the Kafka client: %w", err)
	}
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := c.Ping(ask); err != nil {
		c.Close()
		return nil, (&door{bootstrap: bootstrap}).unanswered(err)
	}
	return c, nil
}

func (a *app) brokersByREST(ctx context.Context) (string, error) {
	c, err := a.client(ctx)
	if err != nil {
		return "", err
	}
	brokers, err := c.Brokers(ctx)
	if err != nil {
		return "", err
	}
	var addresses []string
	for _, b := range brokers {
		if at := addressOf(b); at != "" {
			addresses = append(addresses, at)
		}
	}
	if len(addresses) == 0 {
		return "", errors.New("the cluster names no Kafka address. Give one with --bootstrap-server")
	}
	return strings.Join(addresses, ","), nil
}
