package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// Objects is a store over whole objects: a file is parts, each put once, and a
// directory is a manifest of which every version is an object of its own. What is not yet
// put is in memory and gone after a crash.
//
// A put that its sender gave up may arrive later, even after a crash: so parts are
// named by who opened the file, and the manifest says whose parts count.
type Objects struct {
	bucket *bucket

	mu    sync.Mutex // guards all below, and all of the directories and files
	dirs  map[kafka.PartitionID]*objectsDir
	stamp uint64 // for names that are not used twice
	life  uint64 // of this process
}

var _ store.Store = (*Objects)(nil)

// NewObjects makes an empty store; the seed decides which requests and answers are lost or late.
func NewObjects(seed uint64) *Objects { return openObjects(newBucket(seed), seed<<8) }

func openObjects(b *bucket, life uint64) *Objects {
	return &Objects{bucket: b, dirs: map[kafka.PartitionID]*objectsDir{}, life: life}
}

// Crash is the store as another process finds it: what was not put is lost. m must not be used any more.
func (o *Objects) Crash(uint64) *Objects {
	o.mu.Lock()
	defer o.mu.Unlock()
	return openObjects(o.bucket, o.life+1)
}

// manifest is what a directory holds. Each version is put once.
type manifest struct {
	Version int
	Files   map[string]*manifestFile
	Gone    bool
}

// manifestFile is a file's parts: those named, then those that its writer put since.
type manifestFile struct {
	Parts  []string
	Writer string
}

type objectsDir struct {
	store   *Objects
	id      kafka.PartitionID
	version int
	names   map[string]*objectsNode
}

// objectsNode is a file's bytes.
type objectsNode struct {
	parts  []string // put
	writer string   // prefix of the parts that this process puts; "" if it has put none and the manifest names nobody
	data   []byte
	synced int
	fixed  bool // the manifest names writer
	failed bool
	hint   bool // put with the next SyncDir only
}

// put tries until it knows: a timeout says nothing, and a taken key may be our own earlier try.
func (o *Objects) put(key string, content []byte) error {
	for range 50 {
		switch err := o.bucket.put(key, content); {
		case err == nil:
			return nil
		case errors.Is(err, errTaken):
			have, err := o.bucket.get(key)
			if err == nil && bytes.Equal(have, content) {
				return nil
			}
			return fmt.Errorf("put %s: %w by another writer", key, errTaken)
		}
	}
	return fmt.Errorf("put %s: %w", key, errTimeout)
}

func (o *Objects) unique(prefix string) string {
	o.stamp++
	return fmt.Sprintf("%s/%d-%d", prefix, o.life, o.stamp)
}

func manifestKey(id kafka.PartitionID, version int) string {
	return fmt.Sprintf("dir/%s/%09d", id, version)
}

// newest is the newest manifest of a directory, nil if there is none.
func (o *Objects) newest(id kafka.PartitionID) (*manifest, error) {
	keys := o.bucket.list(fmt.Sprintf("dir/%s/", id))
	if len(keys) == 0 {
		return nil, nil
	}
	raw, err := o.bucket.get(keys[len(keys)-1])
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return &m, nil
}

// Partitions lists the directories.
func (o *Objects) Partitions() ([]kafka.PartitionID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[kafka.PartitionID]bool{}
	for _, key := range o.bucket.list("dir/") {
		name := strings.Split(key, "/")[1]
		dash := strings.LastIndexByte(name, '-')
		topic, err := kafka.ParseTopicID(name[:dash])
		if err != nil {
			return nil, err
		}
		id := kafka.PartitionID{Topic: topic}
		if _, err := fmt.Sscanf(name[dash+1:], "%d", &id.Partition); err != nil {
			return nil, err
		}
		m, err := o.newest(id)
		if err != nil {
			return nil, err
		}
		if m != nil && !m.Gone {
			seen[id] = true
		}
	}
	return slices.Collect(maps.Keys(seen)), nil
}

// Dir opens or makes a directory.
func (o *Objects) Dir(id kafka.PartitionID) (store.Dir, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d := o.dirs[id]; d != nil {
		return d, nil
	}
	d := &objectsDir{store: o, id: id, names: map[string]*objectsNode{}}
	m, err := o.newest(id)
	if err != nil {
		return nil, err
	}
	if m != nil {
		d.version = m.Version
	}
	if m == nil || m.Gone {
		if err := d.putManifest(); err != nil {
			return nil, err
		}
	} else if err := d.load(m); err != nil {
		return nil, err
	}
	o.dirs[id] = d
	return d, nil
}

// load reads the files of a manifest.
func (d *objectsDir) load(m *manifest) error {
	for name, f := range m.Files {
		n := &objectsNode{parts: f.Parts}
		for i := len(f.Parts); f.Writer != ""; i++ {
			key := fmt.Sprintf("%s/%09d", f.Writer, i)
			if _, err := d.store.bucket.get(key); err != nil {
				break
			}
			n.parts = append(n.parts, key)
		}
		for _, key := range n.parts {
			part, err := d.store.bucket.get(key)
			if err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			n.data = append(n.data, part...)
		}
		n.synced = len(n.data)
		d.names[name] = n
	}
	return nil
}

// putManifest makes the names durable, and what they name as far as it is put.
func (d *objectsDir) putManifest() error {
	m := manifest{Version: d.version + 1, Files: map[string]*manifestFile{}}
	for name, n := range d.names {
		if n.hint && n.synced < len(n.data) {
			continue // missing after a crash
		}
		m.Files[name] = &manifestFile{Parts: n.parts, Writer: n.writer}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := d.store.put(manifestKey(d.id, m.Version), raw); err != nil {
		return fmt.Errorf("put manifest: %w", err)
	}
	d.version = m.Version
	for _, n := range d.names {
		n.fixed = n.writer != ""
	}
	return nil
}

// drop makes a directory vanish.
func (o *Objects) drop(id kafka.PartitionID) error {
	m, err := o.newest(id)
	delete(o.dirs, id)
	if err != nil || m == nil || m.Gone {
		return err
	}
	raw, err := json.Marshal(manifest{Version: m.Version + 1, Gone: true})
	if err != nil {
		return err
	}
	return o.put(manifestKey(id, m.Version+1), raw)
}

// Remove deletes a directory.
func (o *Objects) Remove(id kafka.PartitionID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drop(id)
}

// SetAside copies a directory's manifest to another name.
func (o *Objects) SetAside(id kafka.PartitionID) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, err := o.newest(id)
	if err != nil {
		return "", err
	}
	if m == nil || m.Gone {
		return "", fmt.Errorf("set %s aside: %w", id, store.ErrNotExist)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	where := o.unique("aside/" + id.String())
	if err := o.put(where, raw); err != nil {
		return "", err
	}
	return where, o.drop(id)
}

// Close does nothing.
func (o *Objects) Close() error { return nil }

func (d *objectsDir) find(name string) (*objectsNode, error) {
	if n := d.names[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%s: %w", name, store.ErrNotExist)
}

func (d *objectsDir) List() ([]store.Info, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	var infos []store.Info
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		infos = append(infos, store.Info{Name: name, Size: int64(len(d.names[name].data))})
	}
	return infos, nil
}

func (d *objectsDir) Create(name string) (store.File, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	if d.names[name] != nil {
		return nil, fmt.Errorf("%s: %w", name, store.ErrExist)
	}
	n := &objectsNode{}
	d.names[name] = n
	return &objectsFile{dir: d, name: name, node: n}, nil
}

func (d *objectsDir) Open(name string) (store.File, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &objectsFile{dir: d, name: name, node: n}, nil
}

func (d *objectsDir) ReadFile(name string) ([]byte, error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.data), nil
}

// whole puts content as one object and binds the name to it. Called with the lock held.
func (d *objectsDir) whole(name string, content []byte) error {
	n := &objectsNode{data: slices.Clone(content)}
	if err := n.putRest(d); err != nil {
		return err
	}
	d.names[name] = n
	return d.putManifest()
}

func (d *objectsDir) WriteAtomic(name string, content []byte) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	return d.whole(name, content)
}

func (d *objectsDir) CopyPrefix(from, to string, size int64) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	if d.names[to] != nil {
		return fmt.Errorf("%s: %w", to, store.ErrExist)
	}
	return d.prefix(from, to, size)
}

func (d *objectsDir) Cut(name string, size int64) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	return d.prefix(name, name, size)
}

func (d *objectsDir) prefix(from, to string, size int64) error {
	n, err := d.find(from)
	if err != nil {
		return err
	}
	if int64(len(n.data)) < size {
		return fmt.Errorf("%s has %d bytes, not %d", from, len(n.data), size)
	}
	return d.whole(to, n.data[:size])
}

// WriteHint keeps the content in memory; the next manifest that needs the file put takes it along.
func (d *objectsDir) WriteHint(name string, content []byte) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.names[name] = &objectsNode{data: slices.Clone(content), hint: true}
	return nil
}

func (d *objectsDir) Rename(from, to string) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	n, err := d.find(from)
	if err != nil {
		return err
	}
	d.names[to] = n
	delete(d.names, from)
	return nil
}

func (d *objectsDir) Remove(name string) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	delete(d.names, name)
	return nil
}

func (d *objectsDir) SyncDir() error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	for _, n := range d.names {
		if n.hint && n.synced < len(n.data) {
			if err := n.putRest(d); err != nil {
				return err
			}
		}
	}
	return d.putManifest()
}

// putRest puts what the file has gained as its next part. Called with the lock held.
func (n *objectsNode) putRest(d *objectsDir) error {
	if n.synced == len(n.data) {
		return nil
	}
	if n.writer == "" {
		n.writer = d.store.unique("part")
	}
	key := fmt.Sprintf("%s/%09d", n.writer, len(n.parts))
	if err := d.store.put(key, n.data[n.synced:]); err != nil {
		return err
	}
	n.parts = append(n.parts[:len(n.parts):len(n.parts)], key)
	n.synced = len(n.data)
	return nil
}

// has reports whether a name means n.
func (d *objectsDir) has(n *objectsNode) bool {
	for _, have := range d.names {
		if have == n {
			return true
		}
	}
	return false
}

// objectsFile is an open file.
type objectsFile struct {
	dir  *objectsDir
	name string
	node *objectsNode
}

func (f *objectsFile) ReadAt(p []byte, at int64) (int, error) {
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

func (f *objectsFile) Append(p []byte) error {
	f.dir.store.mu.Lock()
	defer f.dir.store.mu.Unlock()
	if f.node.failed {
		return fmt.Errorf("append to %s: %w", f.name, store.ErrFailed)
	}
	f.node.data = append(f.node.data, p...)
	return nil
}

// Sync puts a part. The first part of a writer counts only once a manifest names it.
func (f *objectsFile) Sync() error {
	f.dir.store.mu.Lock()
	defer f.dir.store.mu.Unlock()
	n := f.node
	if n.failed {
		return fmt.Errorf("sync %s: %w", f.name, store.ErrFailed)
	}
	err := n.putRest(f.dir)
	if err == nil && !n.fixed && n.writer != "" && f.dir.has(n) {
		err = f.dir.putManifest()
	}
	if err != nil {
		n.failed = true
		return fmt.Errorf("sync %s: %w: %w", f.name, store.ErrFailed, err)
	}
	return nil
}

func (f *objectsFile) StartWriteback(int64, int64) {}

// Uncache does nothing: what is here is not a copy of anything.
func (f *objectsFile) Uncache(int64, int64) {}

func (f *objectsFile) Size() int64 {
	f.dir.store.mu.Lock()
	defer f.dir.store.mu.Unlock()
	return int64(len(f.node.data))
}

func (f *objectsFile) OSFile() *os.File { return nil }
func (f *objectsFile) Close() error     { return nil }
