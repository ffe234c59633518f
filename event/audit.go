package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Order is something that somebody asked for, with what came of it. Values of
// configs are not in it, only their names.
type Order struct {
	At        time.Time `json:"at"`
	Principal string    `json:"principal"`        // User:alice; User:ANONYMOUS without login
	Client    string    `json:"client,omitempty"` // address
	Door      string    `json:"door"`             // kafka, rest, console
	Verb      string    `json:"verb"`             // as promote, create-link, delete-topic
	Link      string    `json:"link,omitempty"`
	Topics    []string  `json:"topics,omitempty"`
	Configs   []string  `json:"configs,omitempty"` // names
	DryRun    bool      `json:"dry_run,omitempty"`
	Err       string    `json:"error,omitempty"`
}

// Audit writes orders as lines of JSON. A nil Audit writes nothing.
type Audit struct {
	mu  sync.Mutex // one line at a time
	out io.Writer
}

// OpenAudit appends to the file at path, which it makes for its owner alone.
// Every line is synced.
func OpenAudit(path string) (*Audit, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	endLine(path, f)
	return &Audit{out: f}, nil
}

// endLine ends a line of which a crash has kept the end from the disk: the next one would else be part of it. Where that fails nothing is
// lost but that line.
func endLine(path string, f *os.File) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return
	}
	old, err := os.Open(path)
	if err != nil {
		return
	}
	defer old.Close()
	var last [1]byte
	if _, err := old.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
		_, _ = f.Write([]byte{'\n'})
	}
}

// Record writes one order. An error means that the order is not on record.
func (a *Audit) Record(o Order) error {
	if a == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	if f, ok := a.out.(*os.File); ok {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync audit log: %w", err)
		}
	}
	return nil
}

// Close closes the file.
func (a *Audit) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.out.(io.Closer); ok {
		if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			return fmt.Errorf("close audit log: %w", err)
		}
	}
	return nil
}
