package storetest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Errors of a bucket.
var (
	errTaken   = errors.New("precondition failed: the object exists")
	errTimeout = errors.New("no answer")
	errNoKey   = errors.New("no such key")
)

// bucket is an object store: whole objects, a put that fails if the key is
// taken, and a network in between that loses requests, loses answers, and
// delivers requests after their sender has given up.
type bucket struct {
	mu      sync.Mutex
	rng     *rand.Rand
	objects map[string][]byte
	late    []lateKey // puts still on their way
}

type lateKey struct {
	key     string
	content []byte
}

func newBucket(seed uint64) *bucket {
	return &bucket{rng: rand.New(rand.NewPCG(seed, 0x6f626a)), objects: map[string][]byte{}}
}

// put stores an object if its key is free. On errTimeout it may have done so, or may yet.
func (b *bucket) put(key string, content []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver()
	content = slices.Clone(content)
	switch b.rng.IntN(12) {
	case 0: // the request is lost
		return errTimeout
	case 1: // the answer is lost
		_ = b.store(key, content)
		return errTimeout
	case 2: // the request comes late
		b.late = append(b.late, lateKey{key, content})
		return errTimeout
	}
	return b.store(key, content)
}

func (b *bucket) store(key string, content []byte) error {
	if _, taken := b.objects[key]; taken {
		return errTaken
	}
	b.objects[key] = content
	return nil
}

// deliver lets some of the late requests arrive.
func (b *bucket) deliver() {
	b.late = slices.DeleteFunc(b.late, func(l lateKey) bool {
		if b.rng.IntN(3) > 0 {
			return false
		}
		_ = b.store(l.key, l.content)
		return true
	})
}

func (b *bucket) get(key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.objects[key]
	if !ok {
		return nil, errNoKey
	}
	return content, nil
}

// list is the keys that begin with prefix, sorted.
func (b *bucket) list(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deliver()
	var keys []string
	for key := range maps.Keys(b.objects) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
