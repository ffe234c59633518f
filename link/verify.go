package link

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/verify"
	"github.com/hawserio/hawser/meta"
)

const (
	verifyBytes   = 4 << 20                // asked of the source at once
	verifyMax     = 256 << 20              // for a batch larger than that
	verifyTries   = 10                     // in a row without an answer
	verifyBackoff = 500 * time.Millisecond // between them
	verifyExtends = 5                      // how often the end is moved for records that wait for a later one of their key
)

// Verify begins to compare a mirror with its source: all that both hold now, byte for byte. It answers at once;
// Verification tells how far it is, and the result.
func (ls *Links) Verify(link, topic string) (Verification, error) {
	img, rec, err := ls.named(link)
	if err != nil {
		return Verification{}, err
	}
	m, err := mirrorNamed(img, rec, topic)
	if err != nil {
		return Verification{}, err
	}
	v := &Verification{
		Link: rec.Name, LinkID: rec.ID, Cluster: img.Cluster.ID, SourceCluster: rec.RemoteClusterID,
		Topic: m.topic.Name, TopicID: m.topic.ID, SourceTopic: m.rec.SourceTopic, SourceTopicID: m.rec.SourceTopicID,
		Started: ls.env.Now(), Partitions: make([]VerifiedPart, m.topic.Partitions),
	}
	for p := range v.Partitions {
		v.Partitions[p] = VerifiedPart{Partition: int32(p), Verdict: Incomplete, First: []verify.Difference{}}
	}
	r := ls.runningOf(rec.ID)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if r == nil || ls.closed {
		return Verification{}, &Error{Kind: Internal, Code: string(mirror.InternalError), Text: "The broker is starting or stopping.",
			Hint: "Try again."}
	}
	if err := ls.verifying.begin(v); err != nil {
		return Verification{}, err
	}
	ls.wait.Go(func() { r.verify(ls.ctx, v, m) })
	return v.copyOf(), nil
}

// Verification is the mirror's last one.
func (ls *Links) Verification(link, topic string) (Verification, error) {
	img, rec, err := ls.named(link)
	if err != nil {
		return Verification{}, err
	}
	m, err := mirrorNamed(img, rec, topic)
	if err != nil {
		return Verification{}, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v := ls.verifying.list[m.topic.ID]
	if v == nil {
		return Verification{}, &Error{Kind: NotFound, Text: fmt.Sprintf("Mirror topic '%s' was not verified since the broker started.",
			topic), Hint: "Begin one with POST …:verify or 'hawser mirror verify'."}
	}
	return v.copyOf(), nil
}

// verify compares all partitions of a mirror, a few side by side.
func (r *running) verify(ctx context.Context, v *Verification, m topicMirror) {
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(verifyParts)
	for p := range v.Partitions {
		work.Go(func() error {
			job := verifying{r: r, v: v, m: m, partition: int32(p)}
			err := job.run(inner)
			job.show(err)
			return nil
		})
	}
	_ = work.Wait() // no partition's failure ends the others
	r.ls.mu.Lock()
	defer r.ls.mu.Unlock()
	v.Verdict, v.Finished = worst(v.Partitions), r.ls.env.Now()
	r.ls.verifying.running--
	if r.ls.env.Sign == nil {
		return
	}
	text, err := json.Marshal(v)
	if err == nil {
		v.Signed, err = r.ls.env.Sign(text)
	}
	if err != nil {
		r.ls.env.Logger.Error("a verification could not be signed", "link", v.Link, "topic", v.Topic, "error", err)
	}
}

// verifying is one partition's comparison.
type verifying struct {
	r         *running
	v         *Verification
	m         topicMirror
	partition int32

	part       MirrorPartition
	source     kafka.TopicPartition
	comparison *verify.Comparison
	session    fetcher.Session
	leader     fetcher.Leader
	id         kafka.TopicID
}

func (j *verifying) run(ctx context.Context) error {
	defer func() {
		if j.session != nil {
			j.session.Close()
		}
	}()
	j.source = kafka.TopicPartition{Topic: j.m.rec.SourceTopic, Partition: j.partition}
	j.part = j.r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: j.m.topic.ID, Partition: j.partition})
	if j.part == nil {
		return errors.New("the partition is not open on this broker")
	}
	if err := j.part.Err(); err != nil {
		return err
	}
	from, to, err := j.bounds(ctx)
	if err != nil {
		return err
	}
	j.comparison = verify.New(verify.Spec{From: from, To: to, MirrorCleaned: j.part.CleanedTo(),
		Compacted: strings.Contains(j.m.topic.Configs["cleanup.policy"], "compact")})
	j.show(nil)
	for extended := 0; ; {
		side, at, done := j.comparison.Next()
		switch {
		case done && j.comparison.Waiting() > 0 && extended < verifyExtends:
			// What a cleaner took away may be superseded above the end.
			extended++
			if err := j.extend(ctx); err != nil {
				return err
			}
			continue
		case done:
			return nil
		}
		if err := j.feed(ctx, side, at); err != nil {
			return err
		}
		j.show(nil)
	}
}

// bounds is what both sides hold now; of a mirror that was stopped, what was mirrored.
func (j *verifying) bounds(ctx context.Context) (from, to kafka.Offset, err error) {
	var start, end kafka.Offset
	err = j.patiently(ctx, func(src Source) error {
		if start, err = src.ListOffset(ctx, j.source, -2); err == nil {
			end, err = src.ListOffset(ctx, j.source, -1)
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("ask the source for its offsets: %w", err)
	}
	own := j.part.Offsets()
	to = min(end, own.HighWatermark)
	states := j.r.ls.env.Metadata.Image().Partitions[j.m.topic.ID]
	if states != nil && int(j.partition) < len(states.List) {
		if e := states.List[j.partition]; e.Role == meta.RoleOpen && e.Stop != nil {
			to = min(to, e.Stop.Offset)
		}
	}
	from = max(start, own.LogStart)
	return from, max(from, to), nil
}

// extend moves the end to where both sides are now.
func (j *verifying) extend(ctx context.Context) error {
	_, to, err := j.bounds(ctx)
	if err == nil {
		j.comparison.Extend(to)
	}
	return err
}

// feed reads the side that the comparison wants and gives it over.
func (j *verifying) feed(ctx context.Context, side verify.Side, at kafka.Offset) error {
	if side == verify.Mirror {
		read, err := j.part.Batches(at)
		if kafka.CodeOf(err) == kafka.OffsetOutOfRange {
			if start := j.part.Offsets().LogStart; start > at {
				j.comparison.Jump(start)
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("read the mirror at offset %d: %w", at, err)
		}
		return j.comparison.Add(side, read)
	}
	var got fetcher.Fetched
	err := j.patiently(ctx, func(src Source) (err error) {
		got, err = j.fetch(ctx, src, at)
		return err
	})
	switch {
	case kafka.CodeOf(err) == kafka.OffsetOutOfRange:
		return j.jump(ctx, at)
	case err != nil:
		return fmt.Errorf("read the source at offset %d: %w", at, err)
	}
	return j.comparison.Add(side, got.Batches)
}

// jump goes past what the source has removed meanwhile.
func (j *verifying) jump(ctx context.Context, at kafka.Offset) error {
	var start kafka.Offset
	err := j.patiently(ctx, func(src Source) (err error) {
		start, err = src.ListOffset(ctx, j.source, -2)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("ask the source for its log start: %w", err)
	case start <= at:
		return fmt.Errorf("the source has no offset %d, though it says that it holds %d and later", at, start)
	}
	j.comparison.Jump(start)
	return nil
}

// fetch asks the source's leader once, for a batch larger than usual once more.
func (j *verifying) fetch(ctx context.Context, src Source, at kafka.Offset) (fetcher.Fetched, error) {
	if j.session == nil {
		if err := j.connect(ctx, src); err != nil {
			return fetcher.Fetched{}, err
		}
	}
	for size := verifyBytes; ; size = min(4*size, verifyMax) {
		want := fetcher.Want{TopicPartition: j.source, TopicID: j.id, Offset: at, LastEpoch: kafka.NoEpoch, CurrentEpoch: j.leader.Epoch,
			MaxBytes: size}
		list, err := j.session.Fetch(ctx, []fetcher.Want{want}, fetcher.Ask{MaxWait: time.Second, MinBytes: 1, MaxBytes: size})
		if err == nil && len(list) == 1 {
			err = list[0].Err
		}
		switch {
		case err == nil && len(list) != 1:
			err = kafka.Errorf(kafka.RequestTimedOut, "The source sent nothing below its own high watermark.")
		case err == nil:
			if size == verifyMax || !cutShort(list[0].Batches) {
				return list[0], nil
			}
			continue
		}
		if kafka.CodeOf(err) != kafka.OffsetOutOfRange {
			j.session.Close() // the next try asks for the leader anew
			j.session = nil
		}
		return fetcher.Fetched{}, err
	}
}

// cutShort reports an answer that does not hold one whole batch.
func cutShort(read batch.Batches) bool {
	_, _, err := batch.Split(read)
	return len(read) > 0 && errors.Is(err, batch.ErrShort)
}

// connect opens a session of its own to the partition's leader: mirroring goes on beside it.
func (j *verifying) connect(ctx context.Context, src Source) error {
	leaders, err := src.Leaders(ctx, j.source.Topic, true)
	if err != nil {
		return err
	}
	if known := j.m.rec.SourceTopicID; !known.IsZero() && !leaders.TopicID.IsZero() && leaders.TopicID != known {
		return kafka.Errorf(kafka.InconsistentTopicID, "The source's topic '%s' is another one than was mirrored: it was deleted and "+
			"created again.", j.source.Topic)
	}
	if int(j.partition) >= len(leaders.List) || leaders.List[j.partition].Broker < 0 {
		return kafka.Errorf(kafka.LeaderNotAvailable, "Partition %s has no leader at the source now.", j.source)
	}
	j.leader, j.id = leaders.List[j.partition], leaders.TopicID
	j.session, err = src.Session(ctx, j.leader.Broker)
	return err
}

// patiently tries again what fails for a while: leaders move, brokers start again, credentials change.
func (j *verifying) patiently(ctx context.Context, do func(Source) error) error {
	for try := 1; ; try++ {
		j.r.mu.Lock()
		src := j.r.src
		j.r.mu.Unlock()
		err := errors.New("the link has no connection to its source")
		if src != nil {
			err = do(src)
		}
		switch kafka.CodeOf(err) {
		case kafka.OffsetOutOfRange, kafka.InconsistentTopicID, kafka.TopicAuthorizationFailed:
			return err
		}
		if err == nil || try == verifyTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(verifyBackoff):
		}
	}
}

// show puts how far it is where others see it; with an error, or when all was compared, the verdict too.
func (j *verifying) show(err error) {
	out := VerifiedPart{Partition: j.partition, Verdict: Incomplete, First: []verify.Difference{}}
	if j.comparison != nil {
		_, _, done := j.comparison.Next()
		found := j.comparison.Result()
		out.From, out.To, out.At = found.From, found.To, j.comparison.At()
		out.Batches, out.Bytes, out.SHA256 = found.Batches, found.Bytes, hex.EncodeToString(found.Sum)
		out.Records, out.Explained = found.Records, found.Explained
		if done || err != nil {
			out.Differences, out.First = found.Differences, append(out.First, found.First...)
			out.Verdict = verdictOf(found, done && err == nil)
		}
	}
	if err != nil {
		out.Error = err.Error()
	}
	j.r.ls.mu.Lock()
	defer j.r.ls.mu.Unlock()
	j.v.Partitions[j.partition] = out
}

func verdictOf(found verify.Result, whole bool) Verdict {
	switch {
	case found.Differences > 0 && whole:
		return Different
	case !whole:
		return Incomplete
	case found.Records > 0 || found.Explained > 0:
		return Equivalent
	}
	return Identical
}
