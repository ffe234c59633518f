package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// Open opens or makes the log in dir. It tells a torn tail, which it cuts, from
// corruption of synced bytes, for which it returns an error that wraps ErrCorrupt
// and names file and position, by the synced-up-to mark (protocol rule D6): above
// the mark, a bad region that is followed by a valid batch is corruption as well, unless it
// holds blocks that were never written (zeros), which is how a torn write looks.
// A segment above one that is not known to be synced whole was never synced itself, and goes with a tail torn below it.
func Open(dir store.Dir, cfg Config) (*Log, Recovery, error) {
	o := opening{Log: &Log{dir: dir}, recovery: Recovery{FormerEnd: kafka.NoOffset}}
	o.Configure(cfg)
	if err := o.run(); err != nil {
		o.closeFiles()
		return nil, o.recovery, fmt.Errorf("open log: %w", err)
	}
	return o.Log, o.recovery, nil
}

// opening is a log that is being opened.
type opening struct {
	*Log
	recovery Recovery
	spoilt   bool // the checkpoint does not hold what was written, or is gone
	ck       checkpoint
	mark     *mark
	files    map[string]int64
	bases    []kafka.Offset // of the segments in the directory, rising
	torn     bool           // a tail was cut: nothing above it is kept
}

// closeFiles lets go of everything when the log cannot be opened.
func (o *opening) closeFiles() {
	for _, g := range o.segs {
		g.kill()
	}
}

func (o *opening) run() error {
	ck, spoilt, err := readCheckpoint(o.dir)
	if err != nil {
		return err
	}
	if ck != nil {
		o.ck = *ck
	}
	o.generation = o.ck.generation
	if err := o.list(); err != nil {
		return err
	}
	if ck == nil && !spoilt {
		if spoilt, err = o.hadCheckpoint(); err != nil {
			return err
		}
	}
	if o.spoilt = spoilt; spoilt {
		o.recovery.RebuiltFiles, o.recovery.StartLost = append(o.recovery.RebuiltFiles, checkpointName), true
	}
	if err := o.finishRewrite(); err != nil {
		return fmt.Errorf("finish rewriting: %w", err)
	}
	if err := o.removeRewrites(); err != nil {
		return err
	}
	if o.ck.pending != pendingNone {
		if err := o.finishCut(); err != nil {
			return fmt.Errorf("finish truncation: %w", err)
		}
	}
	if spoilt && len(o.bases) > 0 {
		o.ck.start = o.bases[0]
	}
	if err := o.removeBelowStart(); err != nil {
		return err
	}
	o.start, o.end, o.epochs = o.ck.start, o.ck.start, o.ck.epochs
	if err := o.openSegments(); err != nil {
		return err
	}
	if err := o.settle(); err != nil {
		return err
	}
	return o.readCleaned()
}

// hadCheckpoint reports whether a log without a checkpoint must have had one, by its mark: it is made after the checkpoint that
// begins its generation, and after the one that names its segment, but for a log's first at offset 0.
func (o *opening) hadCheckpoint() (bool, error) {
	if _, there := o.files[markName]; !there {
		return false, nil
	}
	raw, err := o.dir.ReadFile(markName)
	if err != nil {
		return false, fmt.Errorf("read synced mark: %w", err)
	}
	m, err := parseMark(raw)
	return err == nil && m.needsCheckpoint(), nil
}

func (o *opening) list() error {
	infos, err := o.dir.List()
	if err != nil {
		return err
	}
	o.files, o.bases = make(map[string]int64, len(infos)), nil
	for _, info := range infos {
		o.files[info.Name] = info.Size
		if base, ok := parseName(info.Name, ".log"); ok {
			o.bases = append(o.bases, base)
		}
	}
	slices.Sort(o.bases)
	return nil
}

// parseName reads the base offset off a segment's file.
func parseName(name, ending string) (kafka.Offset, bool) {
	digits, ok := strings.CutSuffix(name, ending)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return kafka.Offset(base), err == nil && base >= 0
}

// finishCut does what a crash kept Truncate or Reset from finishing.
func (o *opening) finishCut() error {
	for i := len(o.bases) - 1; i >= 0; i-- {
		base := o.bases[i]
		switch {
		case o.ck.pending == pendingEmpty || base > o.ck.cutBase:
			if err := o.removeSegment(base); err != nil {
				return err
			}
		case base == o.ck.cutBase && o.files[logName(base)] > o.ck.cutSize:
			if err := o.dir.Cut(logName(base), o.ck.cutSize); err != nil {
				return err
			}
		}
	}
	o.stale, o.newNames = true, true
	o.ck.pending = pendingNone
	return o.list()
}

// removeSegment removes a segment's files, the log last: an index without a log is ours to remove any time.
func (l *Log) removeSegment(base kafka.Offset) error {
	return errors.Join(l.dir.Remove(indexName(base)), l.dir.Remove(timeName(base)), l.dir.Remove(logName(base)))
}

// removeBelowStart removes the segments that SetStart had done with, and indexes without a log.
func (o *opening) removeBelowStart() error {
	listed := o.ck.sealed
	o.ck.sealed = slices.DeleteFunc(slices.Clone(listed), func(s state) bool { return s.next <= o.ck.start })
	var kept []kafka.Offset
	for i, base := range o.bases {
		below := i+1 < len(o.bases) && o.bases[i+1] <= o.ck.start
		below = below || slices.ContainsFunc(listed, func(s state) bool { return s.base == base && s.next <= o.ck.start })
		if !below {
			kept = append(kept, base)
			continue
		}
		o.newNames = true
		if err := o.removeSegment(base); err != nil {
			return err
		}
	}
	o.bases = kept
	for name := range o.files {
		base, ok := parseName(name, ".index")
		if !ok {
			base, ok = parseName(name, ".timeindex")
		}
		if !ok || o.hasSegment(base) {
			continue
		}
		if err := o.dir.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (o *opening) hasSegment(base kafka.Offset) bool {
	_, found := slices.BinarySearch(o.bases, base)
	return found
}

// openSegments makes out the segments: those that the checkpoint vouches for as they are, the others by reading them.
func (o *opening) openSegments() error {
	if err := o.missing(); err != nil {
		return err
	}
	sealed := make(map[kafka.Offset]state, len(o.ck.sealed))
	for _, s := range o.ck.sealed {
		sealed[s.base] = s
	}
	o.recovery.Clean = !o.spoilt
	for i, base := range o.bases {
		size := o.files[logName(base)]
		row, listed := sealed[base]
		last := i == len(o.bases)-1
		var err error
		switch t := o.ck.tail; {
		case listed && row.size == size:
			err = o.trust(row, true)
		case listed:
			err = corrupt(base, min(size, row.size), fmt.Errorf("the file has %d bytes, %d were synced", size, row.size))
		case last && t != nil && t.resume.base == base && t.whole() && t.size == size:
			err = o.trust(t.resume, false)
		default:
			err = o.recoverSegment(base, size, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// missing finds segments that must be there and are not.
func (o *opening) missing() error {
	listed := o.ck.sealed
	if t := o.ck.tail; t != nil && t.resume.next > o.ck.start {
		listed = append(slices.Clone(listed), t.resume)
	}
	for _, s := range listed {
		if !o.hasSegment(s.base) {
			return fmt.Errorf("%w: segment %s is missing, %d bytes of it were synced", ErrCorrupt, logName(s.base), s.size)
		}
	}
	return nil
}

// trust takes a segment as it was noted. Its indexes are looked at by size now and by CRC when they are read.
func (o *opening) trust(st state, sealed bool) error {
	g := newSegment(o.dir, st)
	g.sealed.Store(sealed)
	g.settled.Store(sealed)
	o.segs = append(o.segs, g)
	o.end = max(o.end, st.next)
	var lost []string
	if o.files[indexName(st.base)] < int64(st.sums.offsets)*offsetEntrySize {
		lost = append(lost, indexName(st.base))
	}
	if o.files[timeName(st.base)] < int64(st.sums.times)*timeEntrySize {
		lost = append(lost, timeName(st.base))
	}
	if len(lost) == 0 {
		return nil
	}
	o.recovery.RebuiltFiles = append(o.recovery.RebuiltFiles, lost...)
	o.recovery.ScannedBytes += st.size
	f, err := g.acquire()
	if err != nil {
		return err
	}
	defer f.release()
	again, x, err := o.rescan(f, st)
	if err != nil {
		return fmt.Errorf("%w: rebuild index: %w", ErrCorrupt, err)
	}
	g.state, g.idx, g.flushed = again, x, newState(st.base, st.created)
	o.stale, o.changed = true, true
	if !sealed {
		return nil
	}
	again.addTime(x)
	return o.flushIndex(g, again, *x, durable)
}

// settle drops what lies below the start, and makes durable what was found and what was decided about it.
func (o *opening) settle() error {
	if len(o.segs) > 0 && o.end <= o.start {
		for _, g := range o.segs {
			g.kill()
			if err := o.removeSegment(g.base); err != nil {
				return err
			}
		}
		o.segs, o.newNames, o.stale = nil, true, true
		o.generation++ // the mark speaks of a segment whose name may come back
	}
	if t := o.ck.tail; t != nil && !o.hasSegment(t.resume.base) {
		o.stale = true // and so may this one's
	}
	if len(o.segs) > 0 {
		o.epochs = epochsBelow(o.epochs, o.end)
	}
	o.epochs = epochsFrom(o.epochs, o.start)
	known := len(o.ck.epochs)
	if known > len(o.epochs) || !slices.Equal(o.epochs[:known], o.ck.epochs) {
		o.stale = true
	}
	if o.spoilt {
		if err := o.newGeneration(); err != nil {
			return err
		}
	}
	o.synced = o.start
	if o.recovery.Clean && !o.stale && !o.newNames {
		o.synced = o.end
		return nil
	}
	if _, err := o.syncLocked(); err != nil {
		return err
	}
	o.synced = o.end
	return nil
}

// newGeneration finds one that no mark has, after the checkpoint that knew it was lost.
func (o *opening) newGeneration() error {
	o.stale = true
	raw, err := o.dir.ReadFile(markName)
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if m, err := parseMark(raw); err == nil {
		o.generation = m.generation + 1
	}
	return nil
}
