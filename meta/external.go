package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const dialTimeout = 10 * time.Second

// connect opens a client of an external etcd and asks it something, so that a wrong address is told at once.
func connect(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialTimeout:          dialTimeout,
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
