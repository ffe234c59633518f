// Package journal keeps, over restarts, what a cluster saw of the sources of its mirrors: per partition the source's end, the mirror's
// synced end, and when the mirror last had all that the source had. From it comes what a failover could lose, in seconds, while
// the source is out of reach (rule X3). It decides nothing, and is asked for nothing that a mirror could not do without.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/hawserio/hawser/kafka"
)

// Entry is what was known of one mirror partition at one moment. Times are Unix milliseconds.
type Entry struct {
	Partition kafka.PartitionID // of the mirror
	Epoch     kafka.LeaderEpoch // of the mirror's last batch below Applied; NoEpoch where there is none
	SourceEnd kafka.Offset      // the source's high watermark when it was last heard, exclusive
	Applied   kafka.Offset      // the mirror's synced end, exclusive
	At        int64             // when it was noted
	CaughtUp  int64             // the last moment at which all that the source had then was applied; 0 for unknown
	Behind    int64             // when the oldest record that was not applied was first seen at the source; 0 for none
}

const (
	// keptMax is how many entries of a partition outlive a rotation: the last one, and some before it, in case the mirror was truncated
	// since the last.
	keptMax = 4
	// partitionsMax bounds what is kept in memory.
	partitionsMax = 1 << 20
	// rotateLeast is the size in bytes below which the file is not rotated.
	rotateLeast = 1 << 20
)

// Config says where a journal is.
type Config struct {
	Path string // of the file; beside it, while it is rotated, one with ".new" behind it
	// Live reports whether a topic is a mirror still: entries of others go with the next rotation.
	Live   func(topic kafka.TopicID) bool
	Logger *slog.Logger
}

// Journal is one open file. Its methods may be called at once.
type Journal struct {
	cfg Config

	mu     sync.Mutex // guards what follows
	file   *os.File   // nil while the disk does not take it
	size   int64
	closed bool
	last   map[kafka.PartitionID][]Entry // oldest first, at most keptMax
}

// Open reads the file, or begins one. What in it is damaged is passed over; a file that is none, that is of a newer version or that cannot
// be read is set aside under another name, and the log says so. A disk that does not take the file is tried again with each Append: no
// broker must stay down for this.
func Open(cfg Config) *Journal {
	j := &Journal{cfg: cfg, last: map[kafka.PartitionID][]Entry{}}
	damaged, err := read(cfg.Path, j.remember)
	if err != nil {
		aside := cfg.Path + ".set-aside"
		cfg.Logger.Warn("the journal of the mirrors cannot be used: what a failover could lose is unknown until sources are heard",
			"file", cfg.Path, "kept", aside, "error", errors.Join(err, os.Rename(cfg.Path, aside)))
	}
	if damaged > 0 {
		cfg.Logger.Warn("entries of the journal of the mirrors are damaged and were passed over", "file", cfg.Path, "entries", damaged)
	}
	if err := j.rotate(nil); err != nil {
		cfg.Logger.Warn("the journal of the mirrors is not kept for now", "error", err)
	}
	return j
}

// remember takes an entry in. One that differs from the last in its times only takes its place; of too many the one goes that was
// noted soonest after the one before it. It needs mu.
func (j *Journal) remember(e Entry) {
	list, is := j.last[e.Partition]
	if !is && len(j.last) >= partitionsMax {
		return
	}
	if n := len(list); n > 0 && list[n-1].Applied == e.Applied && list[n-1].Epoch == e.Epoch {
		list[n-1] = e
		return
	}
	if len(list) == keptMax {
		least := 1
		for i := 2; i < len(list); i++ {
			if list[i].At-list[i-1].At < list[least].At-list[least-1].At {
				least = i
			}
		}
		list = slices.Delete(list, least, least+1)
	}
	j.last[e.Partition] = append(list, e)
}

// Last is what is known of a partition, the newest first.
func (j *Journal) Last(id kafka.PartitionID) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := slices.Clone(j.last[id])
	slices.Reverse(list)
	return list
}

// Append notes entries and syncs them. Applied was synced before that, so that no entry says more than the log holds. After an error
// the entries may be there or not; the journal goes on.
func (j *Journal) Append(list []Entry) error {
	if len(list) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	if j.file == nil || j.size+int64(len(list))*entrySize > j.sizeMax() {
		return j.rotate(list)
	}
	buf := make([]byte, 0, len(list)*entrySize)
	for _, e := range list {
		buf = e.append(buf)
	}
	// What is cut short here is written over by the next.
	if _, err := j.file.WriteAt(buf, j.size); err != nil {
		return fmt.Errorf("write the journal of the mirrors: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("sync the journal of the mirrors: %w", err)
	}
	j.size += int64(len(buf))
	for _, e := range list {
		j.remember(e)
	}
	return nil
}

// sizeMax is how large the file may get. It needs mu.
func (j *Journal) sizeMax() int64 {
	var kept int64
	for _, list := range j.last {
		kept += int64(len(list))
	}
	return max(rotateLeast, 4*kept*entrySize)
}

// rotate puts a file in the place of the present one that has only what is kept, and the list. It needs mu, but for Open.
func (j *Journal) rotate(list []Entry) error {
	for _, e := range list {
		j.remember(e)
	}
	var all []Entry
	for id, entries := range j.last {
		if !j.cfg.Live(id.Topic) {
			delete(j.last, id)
			continue
		}
		all = append(all, entries...)
	}
	file, size, err := replace(j.cfg.Path, all)
	if err != nil {
		return fmt.Errorf("rotate the journal of the mirrors: %w", err)
	}
	old := j.file
	j.file, j.size = file, size
	if old != nil {
		// Everything in it is in the new one, synced.
		_ = old.Close()
	}
	return nil
}

// Close ends it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	if err != nil {
		return fmt.Errorf("close the journal of the mirrors: %w", err)
	}
	return nil
}
