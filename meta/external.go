package meta

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const dialTimeout = 10 * time.Second

// connect opens a client of an external etcd and asks it something, so that a wrong address is told at once.
func connect(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	wait := dialTimeout // of the login, too
	if end, bounded := ctx.Deadline(); bounded {
		wait = min(wait, time.Until(end))
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		Username:             cfg.User,
		Password:             cfg.Password,
		DialTimeout:          wait,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		// Without it gRPC would wait up to two minutes before it looks for a member that came back.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
		Logger: zap.New(&zapToSlog{log: cfg.Logger.With("part", "etcd client")}),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", cfg.Endpoints, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := c.Get(ctx, prefix+kindCluster+"/"+clusterSelf); err != nil {
		return nil, errors.Join(fmt.Errorf("reach etcd at %v: %w", cfg.Endpoints, err), c.Close())
	}
	return c, nil
}

// compactionKey is where brokers agree which of them removes history. It lies beside
// what the image is made of.
const compactionKey = "/hawser/upkeep/compaction"

// compactionTimeout bounds one removal.
const compactionTimeout = 30 * time.Second

// compactExternal removes the history of an external etcd, as an embedded one does by
// itself: at each turn what was there at the turn before. Of several brokers the first whose turn comes does it for all.
func (m *Meta) compactExternal(ctx context.Context) {
	ticker := time.NewTicker(m.cfg.CompactEvery)
	defer ticker.Stop()
	turn := compaction{horizon: m.Image().Revision}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := turn.take(ctx, m); err != nil && ctx.Err() == nil {
			m.log.Warn("history of the metadata store could not be removed", "err", err)
		}
	}
}

// compaction is one broker's turns.
type compaction struct {
	seen    int64 // modification revision of compactionKey at the last turn
	horizon int64 // revision of the metadata at the last turn
}

func (c *compaction) take(ctx context.Context, m *Meta) error {
	ctx, cancel := context.WithTimeout(ctx, compactionTimeout)
	defer cancel()
	upTo := c.horizon
	c.horizon = m.Image().Revision
	answer, err := m.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(compactionKey), "=", c.seen)).
		Then(clientv3.OpPut(compactionKey, strconv.FormatInt(upTo, 10))).
		Else(clientv3.OpGet(compactionKey)).Commit()
	if err != nil {
		return fmt.Errorf("agree on who removes it: %w", err)
	}
	if !answer.Succeeded {
		c.seen = 0
		for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
			c.seen = kv.ModRevision
		}
		return nil // another broker has done it since
	}
	c.seen = answer.Header.Revision
	if _, err := m.client.Compact(ctx, upTo); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact to revision %d: %w", upTo, err)
	}
	return nil
}
