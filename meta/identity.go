package meta

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hawserio/hawser/kafka"
)

// clusterRecord is Cluster as it is stored.
type clusterRecord struct {
	Cluster
	KeyID string `json:"key_id"` // of the key that seals secrets
}

const clusterVersion = 1

var clusterKey = recordKey{kindCluster, clusterSelf}

// identify finds out who this cluster is, or decides it where the store is
// new, and reads or makes the key file.
func (m *Meta) identify(ctx context.Context) error {
	for range maxAttempts {
		now, rev, err := m.readCluster(ctx)
		if err != nil {
			return err
		}
		next, err := m.decideCluster(now)
		if err != nil {
			return err
		}
		if next == *now && rev != 0 {
			return nil
		}
		value, err := wrap(clusterVersion, next)
		if err != nil {
			return err
		}
		path := clusterKey.path()
		resp, err := m.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(path), "=", rev)).
			Then(clientv3.OpPut(path, string(value))).Commit()
		if err != nil {
			return fmt.Errorf("store cluster identity: %w", m.storeError(err))
		}
		if resp.Succeeded {
			// Drawn or not, the identity is decided: from here on only read.
			m.cfg.NewIdentity, m.cfg.ForgetSecrets = false, false
			return nil
		}
	}
	return fmt.Errorf("store cluster identity: %w", ErrConflict)
}

func (m *Meta) readCluster(ctx context.Context) (*clusterRecord, int64, error) {
	resp, err := m.client.Get(ctx, clusterKey.path())
	if err != nil {
		return nil, 0, fmt.Errorf("read cluster identity: %w", err)
	}
	r := new(clusterRecord)
	if len(resp.Kvs) == 0 {
		return r, 0, nil
	}
	body, err := unwrap(resp.Kvs[0].Value, clusterVersion)
	if err == nil {
		err = unmarshal(body, r)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read cluster identity: %w", err)
	}
	return r, resp.Kvs[0].ModRevision, nil
}

func (m *Meta) decideCluster(now *clusterRecord) (clusterRecord, error) {
	next := *now
	wanted := m.cfg.ClusterID
	if now.ID == "" && m.cfg.MayBegin != nil {
		if err := m.cfg.MayBegin(); err != nil {
			return next, err
		}
	}
	switch {
	case now.ID == "" && wanted == "":
		next.ID = kafka.NewTopicID().String()
	case now.ID == "":
		next.ID = wanted
	case wanted != "" && wanted != now.ID:
		return next, fmt.Errorf("cluster.id is %q but this store belongs to cluster %q: leave cluster.id out, or use another directory",
			wanted, now.ID)
	}
	if now.ID == "" || m.cfg.NewIdentity {
		next.Incarnation = kafka.NewTopicID().String()
		next.ProducerPrefix = drawPrefix(now.ProducerPrefix)
	}
	var err error
	next.KeyID, err = m.openKey(now.KeyID)
	return next, err
}

// openKey makes the sealer. known is the id of the key that the cluster uses, "" for a new cluster.
func (m *Meta) openKey(known string) (string, error) {
	key, err := readKey(m.cfg.Dir)
	if err != nil {
		return "", err
	}
	if key == nil {
		if known != "" && !m.cfg.ForgetSecrets {
			return "", fmt.Errorf("%s is missing in %s, and secrets are sealed with it: copy it from another broker of the cluster "+
				"or from a backup, or start once with --forget-secrets and set the links' passwords anew", keyFile, m.cfg.Dir)
		}
		if key, err = makeKey(m.cfg.Dir); err != nil {
			return "", err
		}
	}
	if m.sealer, err = newSealer(key, m.log); err != nil {
		return "", err
	}
	m.sealer.forget = m.cfg.ForgetSecrets
	if known != "" && known != m.sealer.keyID && !m.cfg.ForgetSecrets {
		return "", fmt.Errorf("%s in %s is not the key of this cluster: copy it from another broker of the cluster "+
			"or from a backup, or start once with --forget-secrets and set the links' passwords anew", keyFile, m.cfg.Dir)
	}
	return m.sealer.keyID, nil
}

// drawPrefix draws 31 random bits, never 0 (Kafka's own ids have that high half) and not the ones before.
func drawPrefix(before uint32) uint32 {
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic("BUG: the system's randomness failed: " + err.Error())
		}
		if p := binary.BigEndian.Uint32(b[:]) >> 1; p != 0 && p != before {
			return p
		}
	}
}

// producersRecord counts the ids handed out under one prefix.
type producersRecord struct {
	Next int64 `json:"next"` // low half of the next id
}

const producersVersion = 1

// producerIDsPerPrefix is how many ids one prefix has: the low half of an id.
const producerIDsPerPrefix = int64(1) << 32

// ProducerIDs hands out a block of n producer ids of this cluster's prefix and
// returns the first. No id is handed out twice, also after a crash.
func (m *Meta) ProducerIDs(ctx context.Context, n int64) (kafka.ProducerID, error) {
	if n < 1 || n > 1<<20 {
		return 0, fmt.Errorf("draw producer ids: %d at once is not between 1 and %d", n, 1<<20)
	}
	var first int64
	err := m.moveProducers(ctx, func(next int64) int64 { first = next; return next + n })
	if err != nil {
		return 0, fmt.Errorf("draw producer ids: %w", err)
	}
	return kafka.ProducerID(int64(m.Image().Cluster.ProducerPrefix)<<32 | first), nil
}

// RaiseProducerIDs makes sure that ids up to seen are never handed out: seen is
// the highest of this cluster's prefix found in a local log (protocol rule P3).
// An id of another prefix changes nothing.
func (m *Meta) RaiseProducerIDs(ctx context.Context, seen kafka.ProducerID) error {
	if seen < 0 || uint32(seen>>32) != m.Image().Cluster.ProducerPrefix {
		return nil
	}
	low := int64(seen) & (producerIDsPerPrefix - 1)
	if err := m.moveProducers(ctx, func(next int64) int64 { return max(next, low+1) }); err != nil {
		return fmt.Errorf("raise producer ids: %w", err)
	}
	return nil
}

// moveProducers moves the counter of the prefix on. A move whose answer is lost
// is made again from where the counter is found: ids are skipped, not repeated.
func (m *Meta) moveProducers(ctx context.Context, move func(next int64) int64) error {
	path := recordKey{kindProducers, strconv.FormatUint(uint64(m.Image().Cluster.ProducerPrefix), 10)}.path()
	lane := lane{m: m}
	if err := lane.enter(ctx, 1); err != nil {
		return err
	}
	defer lane.leave()
	var last error
	for attempt := range maxAttempts {
		var done bool
		if done, last = m.moveOnce(ctx, path, move); done || errors.Is(last, errRefused) {
			return last
		}
		if err := m.pause(ctx, attempt); err != nil {
			return errors.Join(last, err)
		}
	}
	if last == nil {
		last = ErrConflict
	}
	return last
}

func (m *Meta) moveOnce(ctx context.Context, path string, move func(int64) int64) (done bool, err error) {
	if err := m.Err(); err != nil {
		return false, err
	}
	resp, err := m.client.Get(ctx, path)
	if err != nil {
		return false, m.storeError(err)
	}
	var r producersRecord
	var rev int64
	if len(resp.Kvs) > 0 {
		body, err := unwrap(resp.Kvs[0].Value, producersVersion)
		if err == nil {
			err = unmarshal(body, &r)
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", errRefused, err)
		}
		rev = resp.Kvs[0].ModRevision
	}
	next := move(r.Next)
	if next == r.Next && rev != 0 {
		return true, nil
	}
	if next > producerIDsPerPrefix {
		return false, fmt.Errorf("%w: all ids of this cluster's prefix are used: restart once with --new-identity", errRefused)
	}
	r.Next = next
	value, err := wrap(producersVersion, r)
	if err != nil {
		return false, err
	}
	txn, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(path), "=", rev)).
		Then(clientv3.OpPut(path, string(value))).Commit()
	if err != nil {
		return false, m.storeError(err)
	}
	return txn.Succeeded, nil
}
