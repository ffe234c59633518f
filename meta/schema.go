package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// prefix is where all keys are. The number is the layout's version.
const prefix = "/hawser/1/"

// The kinds of records, as they stand in keys behind the prefix.
const (
	kindCluster    = "cluster"
	kindProducers  = "producer-ids"
	kindTopic      = "topic"
	kindTopicName  = "topic-name"
	kindPartitions = "partitions"
	kindLink       = "link"
	kindLinkName   = "link-name"
	kindMirror     = "mirror"
	kindDeletion   = "deletion"
	kindConfigs    = "configs"
	kindACL        = "acl"
	kindScram      = "scram"
	kindQuota      = "quota"
)

// The ids of records of which there is one.
const (
	clusterSelf    = "self"
	defaultConfigs = "<default>" // Kafka's name of the cluster-wide entity
)

// recordKey names a record.
type recordKey struct{ kind, id string }

func (k recordKey) path() string { return prefix + k.kind + "/" + k.id }

func parseKey(path string) (recordKey, error) {
	rest, ok := strings.CutPrefix(path, prefix)
	kind, id, found := strings.Cut(rest, "/")
	if !ok || !found || id == "" {
		return recordKey{}, fmt.Errorf("metadata holds key %q, which is not one of ours", path)
	}
	return recordKey{kind, id}, nil
}

// Every value is {"v":VERSION,"r":RECORD}: its format's version, and the record.
// It is taken apart by hand, so that a record is parsed once.
const (
	envelopeHead = `{"v":`
	envelopeMid  = `,"r":`
	envelopeTail = '}'
)

func wrap(version int, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	value := make([]byte, 0, len(body)+16)
	value = strconv.AppendInt(append(value, envelopeHead...), int64(version), 10)
	value = append(append(value, envelopeMid...), body...)
	return append(value, envelopeTail), nil
}

var errNoRecord = errors.New("not a record")

func unwrap(value []byte, version int) (json.RawMessage, error) {
	rest, ok := bytes.CutPrefix(value, []byte(envelopeHead))
	number, body, found := bytes.Cut(rest, []byte(envelopeMid))
	got, err := strconv.Atoi(string(number[:min(len(number), 10)]))
	switch {
	case !ok || !found || err != nil || len(body) == 0 || body[len(body)-1] != envelopeTail:
		return nil, fmt.Errorf("%w: %.40q", errNoRecord, value)
	case got > version:
		return nil, fmt.Errorf("format %d is newer than %d, the newest that this version reads: run the newer hawser that wrote it",
			got, version)
	case got < 1:
		return nil, fmt.Errorf("format %d does not exist", got)
	}
	return json.RawMessage(body[:len(body)-1]), nil
}

// unmarshal reads a record. A field that is not known is an error: the next write of the record would lose it.
func unmarshal(body []byte, record any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(record)
	if err != nil {
		if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return fmt.Errorf("field %s is not known to this version: run the newer hawser that wrote it", field)
		}
		return err
	}
	if d.More() {
		return fmt.Errorf("%d bytes come after the record", int64(len(body))-d.InputOffset())
	}
	return nil
}

// kind is how records of one kind come into an image and out of it.
type kind struct {
	version int // the newest format known; also the one written
	own     func(*Image)
	put     func(img *Image, id string, body []byte) error
	remove  func(img *Image, id string) error
}

type schema map[string]kind

func newSchema(s *sealer) schema {
	return schema{
		kindCluster: {
			version: 1,
			own:     func(*Image) {},
			put: func(img *Image, _ string, body []byte) error {
				var r clusterRecord
				err := unmarshal(body, &r)
				img.Cluster = r.Cluster
				return err
			},
			remove: func(*Image, string) error {
				return fmt.Errorf("the cluster's own record was deleted")
			},
		},
		// The counter is read where ids are drawn, and by nobody else.
		kindProducers: {
			version: 1,
			own:     func(*Image) {},
			put:     func(*Image, string, []byte) error { return nil },
			remove:  func(*Image, string) error { return nil },
		},
		kindTopic:      mapped(func(i *Image) *map[kafka.TopicID]*Topic { return &i.Topics }, kafka.ParseTopicID, decode[Topic]),
		kindTopicName:  mapped(func(i *Image) *map[string]kafka.TopicID { return &i.TopicIDs }, sameText, decodeValue[kafka.TopicID]),
		kindPartitions: mapped(func(i *Image) *map[kafka.TopicID]*Partitions { return &i.Partitions }, kafka.ParseTopicID, decode[Partitions]),
		kindLink:       mapped(func(i *Image) *map[kafka.TopicID]*Link { return &i.Links }, kafka.ParseTopicID, s.openLink),
		kindLinkName:   mapped(func(i *Image) *map[string]kafka.TopicID { return &i.LinkIDs }, sameText, decodeValue[kafka.TopicID]),
		kindMirror:     mapped(func(i *Image) *map[kafka.TopicID]*Mirror { return &i.Mirrors }, kafka.ParseTopicID, decode[Mirror]),
		kindDeletion:   mapped(func(i *Image) *map[kafka.TopicID]*Deletion { return &i.Deletions }, kafka.ParseTopicID, decode[Deletion]),
		kindConfigs:    mapped(func(i *Image) *map[string]map[string]string { return &i.Configs }, entityOfID, decodeValue[map[string]string]),
		kindACL:        mapped(func(i *Image) *map[kafka.TopicID]*ACL { return &i.ACLs }, kafka.ParseTopicID, decode[ACL]),
		kindScram:      mapped(func(i *Image) *map[ScramKey]*Scram { return &i.Scrams }, scramOfID, s.openScram),
		kindQuota:      mapped(func(i *Image) *map[QuotaEntity]*Quota { return &i.Quotas }, quotaOfID, decode[Quota]),
	}
}

// mapped is a kind whose records are the values of one of the image's maps.
func mapped[K comparable, V any](field func(*Image) *map[K]V, parse func(string) (K, error), decode func([]byte) (V, error)) kind {
	return kind{
		version: 1,
		own:     func(img *Image) { *field(img) = maps.Clone(*field(img)) },
		put: func(img *Image, id string, body []byte) error {
			k, err := parse(id)
			if err != nil {
				return err
			}
			v, err := decode(body)
			if err != nil {
				return err
			}
			(*field(img))[k] = v
			return nil
		},
		remove: func(img *Image, id string) error {
			k, err := parse(id)
			if err != nil {
				return err
			}
			delete(*field(img), k)
			return nil
		},
	}
}

func decode[R any](body []byte) (*R, error) {
	r := new(R)
	return r, unmarshal(body, r)
}

func decodeValue[R any](body []byte) (R, error) {
	var r R
	err := unmarshal(body, &r)
	return r, err
}

func sameText(id string) (string, error) { return id, nil }

func entityOfID(id string) (string, error) {
	if id == defaultConfigs {
		return "", nil
	}
	return id, nil
}
