package stores

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"time"
)

// lookEvery bounds how often it is looked whether a file has changed.
const lookEvery = 5 * time.Second

// Live is what a store held when it was last read. A store in a file is read again when
// the file's time or size changes, so that a renewed certificate needs no restart.
type Live[T any] struct {
	location string // "": it never changes
	read     func() (T, error)

	mu    sync.Mutex // guards what follows
	has   bool
	value T
	stamp stamp
	next  time.Time // before which the file is not looked at again
}

type stamp struct {
	at   time.Time
	size int64
}

// LiveKeyPair reads a key store, now and whenever it changes.
func (s Store) LiveKeyPair() (*Live[*tls.Certificate], error) {
	return live(s, func() (*tls.Certificate, error) {
		pair, err := s.KeyPair()
		return &pair, err
	})
}

// LiveRoots reads a trust store, now and whenever it changes.
func (s Store) LiveRoots() (*Live[*x509.CertPool], error) { return live(s, s.Roots) }

func live[T any](s Store, read func() (T, error)) (*Live[T], error) {
	l := &Live[T]{read: read}
	if s.Certificates == "" {
		l.location = s.Location
	}
	_, err := l.Current(time.Now())
	return l, err
}

// Current is the newest that could be read. A file that is being replaced, or is
// damaged, turns nobody away while there is an older value.
func (l *Live[T]) Current(now time.Time) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has && (l.location == "" || now.Before(l.next)) {
		return l.value, nil
	}
	l.next = now.Add(lookEvery)
	var seen stamp
	if l.location != "" {
		info, err := os.Stat(l.location)
		if err != nil {
			return l.kept(err)
		}
		if seen = (stamp{info.ModTime(), info.Size()}); l.has && seen == l.stamp {
			return l.value, nil
		}
	}
	value, err := l.read()
	if err != nil {
		return l.kept(err)
	}
	l.has, l.value, l.stamp = true, value, seen
	return value, nil
}

func (l *Live[T]) kept(err error) (T, error) {
	if l.has {
		err = nil
	}
	return l.value, err
}
