package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
)

// groupsAsked is how many groups' offsets are asked for at once.
const groupsAsked = 500

// coordinatorWait is how long a coordinator that is out of reach is tried again while the others' answers wait for it.
const coordinatorWait = 3 * time.Second

// offsetKinds are the protocol types of groups that commit offsets; "" is a group that only commits.
var offsetKinds = []string{"", "consumer", "streams"}

// GroupOffsets is one group's commits.
type GroupOffsets struct {
	Err  error // of the group or of some of its partitions; List then holds the rest
	List []GroupOffset
}

// GroupOffset is one commit.
type GroupOffset struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset
	Metadata       string
}

// admin is the client that finds coordinators.
func (c *Cluster) admin() (*kadm.Client, error) {
	if err := c.gate(); err != nil {
		return nil, err
	}
	seeds := c.candidates()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.groups == nil {
		client, err := c.newClient(seeds, kgo.RetryTimeout(coordinatorWait), kgo.RequestRetries(1))
		if err != nil {
			return nil, err
		}
		c.groups = client
	}
	return kadm.NewClient(c.groups), nil
}

// Groups lists the ids of all consumer groups, sorted; some coordinators may be out of reach: err then
// tells of them and the list holds the rest.
func (c *Cluster) Groups(ctx context.Context) ([]string, error) {
	admin, err := c.admin()
	if err != nil {
		return nil, err
	}
	asked, cancel := context.WithTimeout(ctx, c.groupsTime())
	defer cancel()
	listed, err := admin.ListGroups(asked)
	c.dropGroups(asked, ctx)
	var shards *kadm.ShardErrors
	if err != nil && !errors.As(err, &shards) {
		return nil, c.classify(err, "")
	}
	var ids []string
	for id, group := range listed {
		if slices.Contains(offsetKinds, group.ProtocolType) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var failures []error
	if shards != nil {
		for _, shard := range shards.Errs {
			address := fmt.Sprintf("broker %d", shard.Broker.NodeID)
			failures = append(failures, c.classify(shard.Err, address))
		}
	}
	return ids, errors.Join(failures...)
}

// groupsTime bounds a question about groups, with the search for their coordinators.
func (c *Cluster) groupsTime() time.Duration { return 2*c.cfg.RequestTimeout + coordinatorWait }

// dropGroups forgets the client that a question was put over when its time ran out, and not the caller's: see drop.
func (c *Cluster) dropGroups(asked, caller context.Context) {
	if asked.Err() == nil || caller.Err() != nil {
		return
	}
	c.mu.Lock()
	client := c.groups
	c.groups = nil
	c.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// GroupOffsets reads committed offsets of groups, for the topics named or for all with nil. A group
// may carry an error of its own: one coordinator that is out of reach fails its groups only.
func (c *Cluster) GroupOffsets(ctx context.Context, groups []string, topics []string) (map[string]GroupOffsets, error) {
	admin, err := c.admin()
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(topics))
	for _, topic := range topics {
		wanted[topic] = true
	}
	all := make(map[string]GroupOffsets, len(groups))
	for some := range slices.Chunk(groups, groupsAsked) {
		asked, cancel := context.WithTimeout(ctx, c.groupsTime())
		offsets := admin.FetchManyOffsets(asked, some...)
		c.dropGroups(asked, ctx)
		cancel()
		for id, fetched := range offsets {
			var g GroupOffsets
			g.Err = c.classify(fetched.Err, "coordinator of "+id)
			for topic, partitions := range fetched.Fetched {
				if topics != nil && !wanted[topic] {
					continue
				}
				for partition, commit := range partitions {
					if commit.Err != nil {
						g.Err = errors.Join(g.Err, answered(int16(codeOf(commit.Err)), "offset of group %s for %s-%d", id, topic, partition))
					} else if commit.At >= 0 {
						g.List = append(g.List, GroupOffset{
							TopicPartition: kafka.TopicPartition{Topic: topic, Partition: partition},
							Offset:         kafka.Offset(commit.At),
							Metadata:       commit.Metadata,
						})
					}
				}
			}
			all[id] = g
		}
		if err := ctx.Err(); err != nil {
			return all, err
		}
	}
	return all, nil
}
