package commitlog_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store/disk"
)

// TestReadersAndSyncsRunBesideEveryChange: one writer appends, cuts, resets and moves the start, while a
// syncer and readers run. Whatever a reader gets must be whole batches in order, at or behind what it asked for.
func TestReadersAndSyncsRunBesideEveryChange(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		done := make(chan struct{})
		var group sync.WaitGroup
		until := func(do func() error) {
			group.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if err := do(); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		until(func() error { _, err := f.log.Sync(); return err })
		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed, 1))
			until(func() error { return readSomewhere(f.log, rng) })
		}
		until(func() error {
			start := f.log.StartOffset()
			for _, err := range []error{
				f.log.Scan(start, true, func(batch.Batch) error { return nil }),
				second(f.log.OffsetForTime(now.UnixMilli()+50, start+100)),
				second(f.log.MaxTimestamp(start + 100)),
			} {
				// A walk may meet a cut, and say so.
				if err != nil && !errors.Is(err, commitlog.ErrOutOfRange) && !strings.Contains(err.Error(), "meanwhile") {
					return err
				}
			}
			return nil
		})
		change(f)
		close(done)
		group.Wait()
		f.sync()
		f.reopen(small)
	})
}

func second[T any](_ T, err error) error { return err }

// change is the writer.
func change(f *fixture) {
	rng := rand.New(rand.NewPCG(99, 1))
	for range 150 {
		end, start := f.log.EndOffset(), f.log.StartOffset()
		var err error
		switch rng.IntN(16) {
		case 0:
			err = f.log.Truncate(start + kafka.Offset(rng.Int64N(int64(end-start)+1)))
		case 1:
			err = f.log.SetStart(start + kafka.Offset(rng.Int64N(int64(end-start)+1)))
		case 2:
			if rng.IntN(4) == 0 {
				err = f.log.Reset(end)
			}
		default:
			err = f.log.Append([]byte(build(f, end, 3, 1, now.UnixMilli()+int64(rng.IntN(100)), rng.IntN(200))), now)
		}
		if err != nil {
			f.Error(err)
			return
		}
	}
}

func readSomewhere(l *commitlog.Log, rng *rand.Rand) error {
	start, end := l.StartOffset(), l.EndOffset()
	from := start + kafka.Offset(rng.Int64N(max(int64(end-start), 0)+1))
	s, err := l.Read(from, end, 1+rng.IntN(3000), true)
	if errors.Is(err, commitlog.ErrOutOfRange) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	got, err := s.Bytes()
	if err != nil {
		return err
	}
	for b, err := range got.All() {
		if err != nil {
			return err
		}
		if err := b.CheckCRC(); err != nil {
			return err
		}
		if b.NextOffset() <= from {
			return fmt.Errorf("asked from %d, got a batch to %d", from, b.NextOffset())
		}
		from = b.NextOffset()
	}
	return nil
}

const killedEnv = "COMMITLOG_TEST_DIRECTORY"

// TestKill9LosesNothingSynced kills a process that appends and syncs, over and over, in one directory.
func TestKill9LosesNothingSynced(t *testing.T) {
	if root := os.Getenv(killedEnv); root != "" {
		appendUntilKilled(t, root)
		return
	}
	root := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 5))
	synced := kafka.Offset(0)
	for round := range 5 {
		child := exec.Command(os.Args[0], "-test.run", "^TestKill9LosesNothingSynced$")
		child.Env = append(os.Environ(), killedEnv+"="+root)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = child.Process.Kill() })
		lines := bufio.NewScanner(out)
		for range 1 + rng.IntN(60) { // each line is an end that was synced
			if !lines.Scan() {
				t.Fatalf("round %d: the child ended by itself", round)
			}
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil || kafka.Offset(n) < synced {
				t.Fatalf("round %d: %q after %d", round, lines.Text(), synced)
			}
			synced = kafka.Offset(n)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it said before it died counts
			if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				synced = max(synced, kafka.Offset(n))
			}
		}
		_ = child.Wait()
		checkAfterKill(t, root, synced)
	}
}

func checkAfterKill(t *testing.T, root string, synced kafka.Offset) {
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	l, recovery, err := commitlog.Open(dirOf(t, st), small)
	if err != nil {
		t.Fatal(err)
	}
	next := kafka.Offset(0)
	err = l.Scan(0, false, func(b batch.Batch) error {
		if b.BaseOffset() != next {
			return fmt.Errorf("batch at %d, want %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		return b.CheckCRC()
	})
	if err != nil || next < synced || l.SyncedEnd() != next {
		t.Fatalf("log ends at %d, %d was synced (%+v): %v", next, synced, recovery, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendUntilKilled(t *testing.T, root string) {
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := commitlog.Open(dirOf(t, st), small)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1_000_000 {
		end := l.EndOffset()
		if err := l.Append([]byte(build(t, end, 3, kafka.LeaderEpoch(end/500), now.UnixMilli(), i%300)), now); err != nil {
			t.Fatal(err)
		}
		if i%5 > 0 {
			continue
		}
		synced, err := l.Sync()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(os.Stdout, fmt.Sprintln(int64(synced))); err != nil {
			return // the parent is gone
		}
	}
}
