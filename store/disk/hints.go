package disk

import (
	"container/list"
	"errors"
	"os"
	"sync"
)

// hintsMax is how many hints are kept open at most; fewer where the system lets this process open few files.
const hintsMax = 4096

// hints are the files that WriteHint writes, kept open so that a hint costs one call to the system: it is written with every
// sync. What was written longest ago is closed first.
type hints struct {
	max int

	mu    sync.Mutex // guards what follows
	files map[string]*list.Element
	order list.List // of *hint, the latest first
	// parted counts how often a name was parted from its file: who took a file before must not put it back under its name.
	parted uint64
}

type hint struct {
	path string
	f    *os.File
}

func newHints() *hints {
	return &hints{max: max(16, min(hintsMax, openFilesMax()/8)), files: map[string]*list.Element{}}
}

// take hands out the open file of a path, nil if there is none; it is the caller's until keep.
func (h *hints) take(path string) (f *os.File, seen uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.files[path]; e != nil {
		f = h.remove(e).f
	}
	return f, h.parted
}

// keep takes a file over, and closes the one that is now too many. seen is what take said.
func (h *hints) keep(path string, f *os.File, seen uint64) error {
	h.mu.Lock()
	var extra *os.File
	switch {
	case seen != h.parted || h.files[path] != nil:
		extra = f
	default:
		h.files[path] = h.order.PushFront(&hint{path, f})
		if h.order.Len() > h.max {
			extra = h.remove(h.order.Back()).f
		}
	}
	h.mu.Unlock()
	if extra == nil {
		return nil
	}
	return extra.Close()
}

// remove takes an element out. Called with mu held.
func (h *hints) remove(e *list.Element) *hint {
	one := h.order.Remove(e).(*hint)
	delete(h.files, one.path)
	return one
}

// part closes the file of a path, which names another or none now.
func (h *hints) part(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parted++
	if e := h.files[path]; e != nil {
		return h.remove(e).f.Close()
	}
	return nil
}

// partAll closes the files of paths that have moved or are gone.
func (h *hints) partAll(paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, h.part(path))
	}
	return errors.Join(errs...)
}

// close closes all.
func (h *hints) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parted++
	var errs []error
	for _, e := range h.files {
		errs = append(errs, h.remove(e).f.Close())
	}
	return errors.Join(errs...)
}
