// Package storetest has the test that every store passes, and two stores for
// tests: Memory, which can be crashed at any moment and then forgets all that it
// did not have to keep, and Objects, which has the shape of an object store.
// Tests of commitlog and of what is above it use them. It knows no batches.
package storetest

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// Op is one operation on a store, as Memory tells its hook.
type Op struct {
	Kind string // "append", "sync", "create", "rename", "remove", "syncdir", "atomic", "copy", "cut", "hint", "mkdir", "rmdir", "aside"
	Dir  kafka.PartitionID
	Name string // empty for operations on the directory
}

// String is the operation for a trace.
func (o Op) String() string { return strings.TrimRight(o.Kind+" "+o.Name, " ") }

// Memory is a store in memory that keeps, through a crash, only what its contract
// says: synced bytes, synced names.
type Memory struct {
	mu   sync.Mutex
	dirs map[kafka.PartitionID]*memoryDir
	set  map[string]*memoryDir // aside
	hook func(Op) error
}

var _ store.Store = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{dirs: map[kafka.PartitionID]*memoryDir{}, set: map[string]*memoryDir{}}
}

// Hook calls h before each operation that changes something, without a lock held, until the next Hook. An
// error is the operation's: an append then leaves half of its bytes, everything else is not done.
func (m *Memory) Hook(h func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

// do runs an operation under the lock, after the hook.
func (m *Memory) do(op Op, act func() error) error {
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	var err error
	if hook != nil {
		err = hook(op)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return act()
}

// inode is a file's bytes. Guarded by Memory.mu.
type inode struct {
	data   []byte
	synced int // bytes that are sure to survive
	hints  [][]byte
}

// memoryDir is a directory: the names as they are, and for each name what it may mean after a
// crash: the last synced meaning first, then each that came after. Guarded by Memory.mu.
type memoryDir struct {
	store *Memory
	id    kafka.PartitionID
	names map[string]*inode
	maybe map[string][]*inode // nil entries: no such name
	// moved are the renames since the last SyncDir: one is done whole or not at all.
	moved []move
}

// move is a rename of a file.
type move struct {
	from string
	node *inode
}

func (d *memoryDir) bind(name string, n *inode) {
	if _, ok := d.maybe[name]; !ok {
		d.maybe[name] = []*inode{nil}
	}
	d.maybe[name] = append(d.maybe[name], n)
	if n == nil {
		delete(d.names, name)
	} else {
		d.names[name] = n
	}
}

// settle makes a name's meaning sure.
func (d *memoryDir) settle(name string) {
	if n := d.names[name]; n != nil {
		d.maybe[name] = []*inode{n}
	} else {
		delete(d.maybe, name)
	}
}

// Partitions lists the directories.
func (m *Memory) Partitions() ([]kafka.PartitionID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.dirs)), nil
}

// Dir opens or makes a directory.
func (m *Memory) Dir(id kafka.PartitionID) (store.Dir, error) {
	m.mu.Lock()
	d := m.dirs[id]
	m.mu.Unlock()
	if d != nil {
		return d, nil
	}
	err := m.do(Op{Kind: "mkdir", Dir: id}, func() error {
		d = &memoryDir{store: m, id: id, names: map[string]*inode{}, maybe: map[string][]*inode{}}
		m.dirs[id] = d
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Remove deletes a directory.
func (m *Memory) Remove(id kafka.PartitionID) error {
	return m.do(Op{Kind: "rmdir", Dir: id}, func() error {
		delete(m.dirs, id)
		return nil
	})
}

// SetAside takes a directory out of sight.
func (m *Memory) SetAside(id kafka.PartitionID) (where string, err error) {
	err = m.do(Op{Kind: "aside", Dir: id}, func() error {
		if m.dirs[id] == nil {
			return fmt.Errorf("set %s aside: %w", id, store.ErrNotExist)
		}
		where = fmt.Sprintf("aside/%s.%d", id, len(m.set))
		m.set[where] = m.dirs[id]
		delete(m.dirs, id)
		return nil
	})
	return where, err
}

// Close does nothing.
func (m *Memory) Close() error { return nil }

// Crash is the store as it may be after a crash at this moment; the seed decides what of the
// unsynced survived. m itself goes on as if nothing had happened.
func (m *Memory) Crash(seed uint64) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	rng := rand.New(rand.NewPCG(seed, 0x6372617368))
	after := NewMemory()
	mood := mood(rng.IntN(int(moods)))
	ids := slices.SortedFunc(maps.Keys(m.dirs), func(a, b kafka.PartitionID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range ids {
		after.dirs[id] = m.dirs[id].crash(after, rng, mood)
	}
	return after
}

// Plant gives a file, durably, a content that nobody wrote: decay, or a foreign hand.
func (m *Memory) Plant(id kafka.PartitionID, name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs[id] == nil {
		m.dirs[id] = &memoryDir{store: m, id: id, names: map[string]*inode{}, maybe: map[string][]*inode{}}
	}
	m.dirs[id].replace(name, content)
}

// mood is what kind of crash it is.
type mood int

const (
	forgetful mood = iota // nothing survives that was not synced
	lucky                 // everything survives: the process died, the system did not
	torn                  // files end somewhere in what was not synced
	holed                 // and sectors of it are missing
	moods
)

func (d *memoryDir) crash(after *Memory, rng *rand.Rand, mood mood) *memoryDir {
	out := &memoryDir{store: after, id: d.id, names: map[string]*inode{}, maybe: map[string][]*inode{}}
	copies := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(d.maybe)) {
		meanings := d.maybe[name]
		var n *inode
		switch mood {
		case forgetful:
			n = meanings[0]
		case lucky:
			n = meanings[len(meanings)-1]
		default:
			n = meanings[rng.IntN(len(meanings))]
		}
		if n == nil {
			continue
		}
		if copies[n] == nil {
			copies[n] = n.crash(rng, mood)
		}
		out.names[name] = copies[n]
		out.maybe[name] = []*inode{copies[n]}
	}
	for _, r := range d.moved {
		// A name that lost its file to a rename which did not happen has it still.
		if copies[r.node] == nil && out.names[r.from] == nil && d.maybe[r.from][0] == r.node {
			copies[r.node] = r.node.crash(rng, mood)
			out.names[r.from] = copies[r.node]
			out.maybe[r.from] = []*inode{copies[r.node]}
		}
	}
	return out
}

const sector = 512

func (n *inode) crash(rng *rand.Rand, mood mood) *inode {
	if len(n.hints) > 0 {
		pick := rng.IntN(len(n.hints))
		switch mood {
		case forgetful:
			pick = 0
		case lucky:
			pick = len(n.hints) - 1
		}
		content := slices.Clone(n.hints[pick])
		return &inode{data: content, synced: len(content), hints: [][]byte{content}}
	}
	size := n.synced
	unsynced := len(n.data) - n.synced
	switch {
	case mood == lucky:
		size = len(n.data)
	case mood != forgetful && unsynced > 0:
		size += rng.IntN(unsynced + 1)
	}
	data := slices.Clone(n.data[:size])
	if mood == holed {
		for from := n.synced; from < size; {
			to := min((from/sector+1)*sector, size)
			if rng.IntN(3) == 0 {
				clear(data[from:to])
			}
			from = to
		}
	}
	return &inode{data: data, synced: size}
}

// op runs an operation of this directory.
func (d *memoryDir) op(kind, name string, act func() error) error {
	return d.store.do(Op{Kind: kind, Dir: d.id, Name: name}, act)
}

func (d *memoryDir) find(name string) (*inode, error) {
	if n := d.names[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%s: %w", name, store.ErrNotExist)
}

func (d *memoryDir) List() ([]store.Info, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	var infos []store.Info
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		infos = append(infos, store.Info{Name: name, Size: int64(len(d.names[name].data))})
	}
	return infos, nil
}

func (d *memoryDir) Create(name string) (f store.File, err error) {
	err = d.op("create", name, func() error {
		if d.names[name] != nil {
			return fmt.Errorf("%s: %w", name, store.ErrExist)
		}
		n := &inode{}
		d.bind(name, n)
		f = &memoryFile{dir: d, name: name, node: n}
		return nil
	})
	return f, err
}

func (d *memoryDir) Open(name string) (store.File, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &memoryFile{dir: d, name: name, node: n}, nil
}

func (d *memoryDir) ReadFile(name string) ([]byte, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.data), nil
}

func (d *memoryDir) WriteAtomic(name string, content []byte) error {
	return d.op("atomic", name, func() error {
		d.replace(name, content)
		return nil
	})
}

// replace gives a name a new, durable content.
func (d *memoryDir) replace(name string, content []byte) {
	d.bind(name, &inode{data: slices.Clone(content), synced: len(content)})
	d.settle(name)
}

func (d *memoryDir) CopyPrefix(from, to string, size int64) error {
	return d.op("copy", to, func() error {
		n, err := d.find(from)
		if err != nil {
			return err
		}
		if d.names[to] != nil {
			return fmt.Errorf("%s: %w", to, store.ErrExist)
		}
		if int64(len(n.data)) < size {
			return fmt.Errorf("%s has %d bytes, not %d", from, len(n.data), size)
		}
		d.replace(to, n.data[:size])
		return nil
	})
}

func (d *memoryDir) Cut(name string, size int64) error {
	return d.op("cut", name, func() error {
		n, err := d.find(name)
		if err != nil {
			return err
		}
		if int64(len(n.data)) < size {
			return fmt.Errorf("%s has %d bytes, not %d", name, len(n.data), size)
		}
		d.replace(name, n.data[:size])
		return nil
	})
}

func (d *memoryDir) WriteHint(name string, content []byte) error {
	if len(content) > store.HintMax {
		panic(fmt.Sprintf("BUG: hint %s has %d bytes", name, len(content)))
	}
	return d.op("hint", name, func() error {
		n := d.names[name]
		if n == nil {
			n = &inode{}
			d.bind(name, n)
		}
		n.hints = append(n.hints, slices.Clone(content))
		if extra := len(n.hints) - 16; extra > 0 { // it does not take for ever
			n.hints = n.hints[extra:]
		}
		n.data = n.hints[len(n.hints)-1]
		return nil
	})
}

func (d *memoryDir) Rename(from, to string) error {
	return d.op("rename", from, func() error {
		n, err := d.find(from)
		if err != nil {
			return err
		}
		d.bind(to, n)
		d.bind(from, nil)
		d.moved = append(d.moved, move{from, n})
		return nil
	})
}

func (d *memoryDir) Remove(name string) error {
	return d.op("remove", name, func() error {
		if d.names[name] != nil {
			d.bind(name, nil)
		}
		return nil
	})
}

func (d *memoryDir) SyncDir() error {
	return d.op("syncdir", "", func() error {
		for name := range d.maybe {
			d.settle(name)
		}
		d.moved = nil
		return nil
	})
}

// memoryFile is an open file.
type memoryFile struct {
	dir    *memoryDir
	name   string
	node   *inode
	failed bool // guarded by Memory.mu
}

func (f *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	f.dir.store.mu.Lock()
	defer f.dir.store.mu.Unlock()
	if at > int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) Append(p []byte) error {
	return f.write("append", func() { f.node.data = append(f.node.data, p...) }, func() { f.node.data = append(f.node.data, p[:len(p)/2]...) })
}

func (f *memoryFile) Sync() error {
	size := f.Size()
	return f.write("sync", func() { f.node.synced = max(f.node.synced, int(size)) }, func() {})
}

// write does what it is for or, if the hook says so, fails for good.
func (f *memoryFile) write(kind string, act, half func()) error {
	m := f.dir.store
	m.mu.Lock()
	failed := f.failed
	m.mu.Unlock()
	if failed {
		return fmt.Errorf("%s %s: %w", kind, f.name, store.ErrFailed)
	}
	err := f.dir.op(kind, f.name, func() error { act(); return nil })
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		f.failed = true
		half()
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	return nil
}

func (f *memoryFile) StartWriteback(int64, int64) {}

// Uncache does nothing: what is here is not a copy of anything.
func (f *memoryFile) Uncache(int64, int64) {}

func (f *memoryFile) Size() int64 {
	f.dir.store.mu.Lock()
	defer f.dir.store.mu.Unlock()
	return int64(len(f.node.data))
}

func (f *memoryFile) OSFile() *os.File { return nil }
func (f *memoryFile) Close() error     { return nil }
