package meta

import (
	"fmt"
	"maps"

	"github.com/hawserio/hawser/kafka"
)

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
	// Configs are dynamic configs of brokers: "" is the cluster-wide default, else a node id; and of groups
	// and client-metrics subscriptions, group:NAME and client-metrics:NAME with the name as in a URL's path.
	Configs map[string]map[string]string
	ACLs    map[kafka.TopicID]*ACL // by ACL.Key
	Scrams  map[ScramKey]*Scram
	Quotas  map[QuotaEntity]*Quota

	// revs is the modification revision of every record, by kind and id.
	revs map[string]map[string]int64
}

// TopicByName finds a topic; nil if there is none of that name.
func (img *Image) TopicByName(name string) *Topic {
	id, ok := img.TopicIDs[name]
	if !ok {
		return nil
	}
	return img.Topics[id]
}

// LinkByName finds a link; nil if there is none of that name.
func (img *Image) LinkByName(name string) *Link {
	id, ok := img.LinkIDs[name]
	if !ok {
		return nil
	}
	return img.Links[id]
}

// rev is the revision at which the record was last written; 0 if there is none.
func (img *Image) rev(k recordKey) int64 { return img.revs[k.kind][k.id] }

func emptyImage() *Image {
	return &Image{
		Topics:     map[kafka.TopicID]*Topic{},
		TopicIDs:   map[string]kafka.TopicID{},
		Partitions: map[kafka.TopicID]*Partitions{},
		Links:      map[kafka.TopicID]*Link{},
		LinkIDs:    map[string]kafka.TopicID{},
		Mirrors:    map[kafka.TopicID]*Mirror{},
		Deletions:  map[kafka.TopicID]*Deletion{},
		Configs:    map[string]map[string]string{},
		ACLs:       map[kafka.TopicID]*ACL{},
		Scrams:     map[ScramKey]*Scram{},
		Quotas:     map[QuotaEntity]*Quota{},
		revs:       map[string]map[string]int64{},
	}
}

// record is one change of the store as it is read back: at load, and from the watch.
type record struct {
	key      string // whole, as in etcd
	value    []byte // nil: deleted
	revision int64
}

// draft is an image in the making. It clones a map of the image it began with
// before the first change, and leaves the others shared.
type draft struct {
	schema schema
	img    Image
	owned  map[string]bool // by kind
}

func newDraft(s schema, from *Image) *draft {
	d := &draft{schema: s, img: *from, owned: map[string]bool{}}
	d.img.revs = maps.Clone(from.revs)
	return d
}

// apply is the one way in which a record gets into an image.
func (d *draft) apply(r record) error {
	k, err := parseKey(r.key)
	if err != nil {
		return err
	}
	kind, ok := d.schema[k.kind]
	if !ok {
		return fmt.Errorf("metadata holds %q, a kind that this version does not know: run the newer hawser that wrote it", r.key)
	}
	if !d.owned[k.kind] {
		kind.own(&d.img)
		d.img.revs[k.kind] = maps.Clone(d.img.revs[k.kind])
		if d.img.revs[k.kind] == nil {
			d.img.revs[k.kind] = map[string]int64{}
		}
		d.owned[k.kind] = true
	}
	d.img.Revision = max(d.img.Revision, r.revision)
	if r.value == nil {
		delete(d.img.revs[k.kind], k.id)
		return kind.remove(&d.img, k.id)
	}
	body, err := unwrap(r.value, kind.version)
	if err != nil {
		return fmt.Errorf("read metadata %q: %w", r.key, err)
	}
	if err := kind.put(&d.img, k.id, body); err != nil {
		return fmt.Errorf("read metadata %q: %w", r.key, err)
	}
	d.img.revs[k.kind][k.id] = r.revision
	return nil
}
