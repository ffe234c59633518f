package meta

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hawserio/hawser/kafka"
)

// ErrConflict says that a record changed under an Update more often than it may.
var ErrConflict = errors.New("metadata changed meanwhile")

// ErrReadOnly says that the metadata store takes no ordinary writes: its space
// is nearly used up (protocol rule D8). Partition and mirror states may still be written.
var ErrReadOnly = errors.New("metadata store is read-only: out of space")

// Config says where the metadata lives.
type Config struct {
	Dir    string // embedded etcd's directory, and that of the key file that seals secrets
	NodeID int32
	// ClusterID is wanted when the store is new; empty draws one. For a store that
	// exists it must be empty or equal.
	ClusterID   string
	NewIdentity bool // draw incarnation and producer prefix anew
	Logger      *slog.Logger
	// Endpoints of an external etcd; empty means embedded.
	Endpoints []string
}

// Meta is an open metadata store.
type Meta struct{ impl }

// Open starts the embedded etcd, or connects to an external one, and reads everything.
func Open(ctx context.Context, cfg Config) (*Meta, error) { panic("meta: to be built") }

// Image is all records at one revision. It is immutable: whoever has one may
// read it for ever, nobody may change it or what it points to.
type Image struct {
	Revision   int64
	Cluster    Cluster
	Topics     map[kafka.TopicID]*Topic
	TopicIDs   map[string]kafka.TopicID // by name
	Partitions map[kafka.TopicID]*Partitions
	Links      map[kafka.TopicID]*Link
	LinkIDs    map[string]kafka.TopicID // by name
	Mirrors    map[kafka.TopicID]*Mirror
	Deletions  map[kafka.TopicID]*Deletion
	// Configs are dynamic configs of brokers: "" is the cluster-wide default, else a node id.
	Configs map[string]map[string]string
}

// Image is the newest known image. It never goes back.
func (m *Meta) Image() *Image { panic("meta: to be built") }

// Change is one record to write. Make them with the functions below.
type Change struct {
	key   string
	value any // nil deletes
}

// PutTopic, PutPartitions, … each write one record whole.
func PutTopic(t *Topic) Change                                   { panic("meta: to be built") }
func DeleteTopic(id kafka.TopicID, name string) Change           { panic("meta: to be built") }
func PutPartitions(p *Partitions) Change                         { panic("meta: to be built") }
func DeletePartitions(id kafka.TopicID) Change                   { panic("meta: to be built") }
func PutLink(l *Link) Change                                     { panic("meta: to be built") }
func DeleteLink(id kafka.TopicID, name string) Change            { panic("meta: to be built") }
func PutMirror(r *Mirror) Change                                 { panic("meta: to be built") }
func DeleteMirror(topic kafka.TopicID) Change                    { panic("meta: to be built") }
func PutDeletion(d *Deletion) Change                             { panic("meta: to be built") }
func DeleteDeletion(topic kafka.TopicID) Change                  { panic("meta: to be built") }
func PutConfigs(entity string, configs map[string]string) Change { panic("meta: to be built") }

// Update changes records. decide gets the newest image and returns the changes,
// all or none of which are written, and only if no record of the image that they replace
// has changed meanwhile (nor been made, where they create); else decide is called
// again with a newer image, ten times at most: then ErrConflict. An error of decide ends it and is returned as it is. No
// changes: nothing is written. When Update returns nil, Image has the changes.
// A topic's or link's name is taken at most once: a second PutTopic with the name of another id
// makes decide run again. More than 60 changes are refused: 128 operations are etcd's limit.
func (m *Meta) Update(ctx context.Context, decide func(*Image) ([]Change, error)) error {
	panic("meta: to be built")
}

// UpdatePartitions is Update for partition states alone: it may carry any number
// (split over transactions by topic, each atomic), goes on when ordinary writes are refused for lack of
// space, and is what partition calls its stream.
func (m *Meta) UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*Partitions) (*Partitions, error)) error {
	panic("meta: to be built")
}

// Watch calls fn, one call at a time and in order of revision, with each pair of
// successive images; some may be skipped. The first call comes at once with old == nil. It returns when ctx ends.
func (m *Meta) Watch(ctx context.Context, fn func(old, new *Image)) { panic("meta: to be built") }

// ProducerIDs hands out a block of n producer ids of this cluster's prefix and
// returns the first. No id is handed out twice, also after a crash.
func (m *Meta) ProducerIDs(ctx context.Context, n int64) (kafka.ProducerID, error) {
	panic("meta: to be built")
}

// Close stops the embedded etcd.
func (m *Meta) Close() error { panic("meta: to be built") }

type impl struct{}
