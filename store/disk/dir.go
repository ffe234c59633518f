package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hawserio/hawser/store"
)

// node is one open file. Guarded by Store.mu.
type node struct {
	handles int
	path    string // its name now, "" once it has none
}

// Dir is one partition's directory.
type Dir struct {
	store *Store
	path  string
}

var _ store.Dir = (*Dir)(nil)

// join makes a path of a name; names are ours, so one with a separator is a bug.
func (d *Dir) join(name string) string {
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		panic(fmt.Sprintf("BUG: %q is no file name", name))
	}
	return filepath.Join(d.path, name)
}

// List is the names and sizes, sorted by name.
func (d *Dir) List() ([]store.Info, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list partition directory: %w", notExist(err))
	}
	infos := make([]store.Info, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() || strings.HasSuffix(entry.Name(), tempSuffix) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since the listing
		}
		if err != nil {
			return nil, fmt.Errorf("list partition directory: %w", err)
		}
		infos = append(infos, store.Info{Name: entry.Name(), Size: info.Size()})
	}
	return infos, nil
}

// Create makes an empty file.
func (d *Dir) Create(name string) (store.File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open opens a file.
func (d *Dir) Open(name string) (store.File, error) { return d.open(name, os.O_RDWR) }

func (d *Dir) open(name string, flags int) (store.File, error) {
	path := d.join(name)
	// Registered before it is opened: a Cut that comes between must see it.
	n := d.store.hold(path)
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		d.store.letGo(n)
		return nil, fmt.Errorf("open file: %w", notExist(err))
	}
	info, err := f.Stat()
	if err != nil {
		d.store.letGo(n)
		return nil, errors.Join(fmt.Errorf("open file: %w", err), f.Close())
	}
	file := &File{f: f, store: d.store, path: path, node: n}
	file.size.Store(info.Size())
	return file, nil
}

func (s *Store) hold(path string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[path]
	if n == nil {
		n = &node{path: path}
		s.nodes[path] = n
	}
	n.handles++
	return n
}

func (s *Store) letGo(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.handles--
	if n.handles == 0 && n.path != "" {
		delete(s.nodes, n.path)
	}
}

// nameless parts what is open at path from the name. Called with mu held.
func (s *Store) nameless(path string) {
	if n := s.nodes[path]; n != nil {
		n.path = ""
		delete(s.nodes, path)
	}
}

// ReadFile is a small file's content.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	content, err := os.ReadFile(d.join(name))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", notExist(err))
	}
	return content, nil
}

// WriteAtomic replaces a small file's content.
func (d *Dir) WriteAtomic(name string, content []byte) error {
	path := d.join(name)
	return errors.Join(writeAtomic(path, content), d.store.hints.part(path))
}

func writeAtomic(path string, content []byte) error {
	err := writeTemp(path, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("replace file: %w", err)
	}
	return nil
}

// writeTemp fills a file beside path and, once it is durable, gives it the name.
func writeTemp(path string, fill func(*os.File) error) error {
	temp := path + tempSuffix
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return notExist(err)
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// WriteHint overwrites one sector in place.
func (d *Dir) WriteHint(name string, content []byte) error {
	if len(content) > store.HintMax {
		panic(fmt.Sprintf("BUG: hint %s has %d bytes", name, len(content)))
	}
	path := d.join(name)
	f, seen := d.store.hints.take(path)
	if f == nil {
		var err error
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
			return fmt.Errorf("write hint: %w", notExist(err))
		}
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return errors.Join(fmt.Errorf("write hint: %w", err), f.Close())
	}
	if err := d.store.hints.keep(path, f, seen); err != nil {
		return fmt.Errorf("write hint: %w", err)
	}
	return nil
}

// CopyPrefix makes a new file of another's first bytes.
func (d *Dir) CopyPrefix(from, to string, size int64) error {
	source, err := os.Open(d.join(from))
	if err != nil {
		return fmt.Errorf("copy start of file: %w", notExist(err))
	}
	defer source.Close()
	if _, err := os.Lstat(d.join(to)); err == nil {
		return fmt.Errorf("copy start of file: %s: %w", to, store.ErrExist)
	}
	err = writeTemp(d.join(to), func(f *os.File) error {
		// ReadFrom lets the kernel copy, or share blocks where the file system can.
		n, err := f.ReadFrom(io.LimitReader(source, size))
		if err == nil && n < size {
			return fmt.Errorf("%s has %d bytes, not %d", from, n, size)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copy start of file: %w", err)
	}
	return nil
}

// Cut shortens a file: in place if nobody has it open, else by a shorter copy.
func (d *Dir) Cut(name string, size int64) error {
	path := d.join(name)
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cut file: %w", notExist(err))
	}
	if info.Size() < size {
		return fmt.Errorf("cut file: %s has %d bytes, not %d", name, info.Size(), size)
	}
	done, err := d.cutUnseen(path, size)
	if err == nil && !done {
		if err = cutByCopy(path, size); err == nil {
			d.store.mu.Lock()
			d.store.nameless(path)
			d.store.mu.Unlock()
			err = d.store.hints.part(path)
		}
	}
	if err != nil {
		return fmt.Errorf("cut file: %w", err)
	}
	return nil
}

// cutUnseen cuts in place unless somebody has the file open.
func (d *Dir) cutUnseen(path string, size int64) (done bool, err error) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock() // nobody may open it between the look and the cut
	if d.store.nodes[path] != nil {
		return false, nil
	}
	return true, cutInPlace(path, size)
}

func cutInPlace(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func cutByCopy(path string, size int64) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	return writeTemp(path, func(f *os.File) error {
		_, err := f.ReadFrom(io.LimitReader(source, size))
		return err
	})
}

// Rename moves a file over another name.
func (d *Dir) Rename(from, to string) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	source, target := d.join(from), d.join(to)
	if err := os.Rename(source, target); err != nil {
		return fmt.Errorf("rename file: %w", notExist(err))
	}
	d.store.nameless(target)
	if err := errors.Join(d.store.hints.part(source), d.store.hints.part(target)); err != nil {
		return fmt.Errorf("rename file: %w", err)
	}
	if n := d.store.nodes[source]; n != nil {
		n.path = target
		d.store.nodes[target] = n
		delete(d.store.nodes, source)
	}
	return nil
}

// Remove deletes a name.
func (d *Dir) Remove(name string) error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	path := d.join(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove file: %w", err)
	}
	d.store.nameless(path)
	if err := d.store.hints.part(path); err != nil {
		return fmt.Errorf("remove file: %w", err)
	}
	return nil
}

// SyncDir makes names durable.
func (d *Dir) SyncDir() error { return syncDir(d.path) }

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", notExist(err))
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// notExist puts the store's own errors beside the system's.
func notExist(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %w", store.ErrNotExist, err)
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%w: %w", store.ErrExist, err)
	}
	return err
}
