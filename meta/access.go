package meta

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// ACL allows or denies something. Words are Kafka's, upper case, as TOPIC,
// PREFIXED, READ, ALLOW.
type ACL struct {
	ResourceType string `json:"resource_type"`
	Resource     string `json:"resource"`
	PatternType  string `json:"pattern_type"`
	Principal    string `json:"principal"` // as User:alice
	Host         string `json:"host"`      // "*" is any
	Operation    string `json:"operation"`
	Permission   string `json:"permission"`
	// Link is the link that copied it here; zero for one made here.
	Link kafka.TopicID `json:"link"`
}

// Key is equal for two ACLs that say the same, whoever made them. It is the
// record's id: an ACL exists at most once.
func (a *ACL) Key() kafka.TopicID {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		a.ResourceType, a.Resource, a.PatternType, a.Principal, a.Host, a.Operation, a.Permission,
	}, "\x00")))
	return kafka.TopicID(sum[:16])
}

// Scram is a user's credentials for one SCRAM mechanism (RFC 5802): what a
// server keeps instead of the password. All of it is sealed.
type Scram struct {
	User       string `json:"user"`
	Mechanism  string `json:"mechanism"` // SCRAM-SHA-256 or SCRAM-SHA-512
	Salt       Secret `json:"-"`
	StoredKey  Secret `json:"-"`
	ServerKey  Secret `json:"-"`
	Iterations int32  `json:"iterations"`
}

// ScramKey names a user's credentials.
type ScramKey struct{ User, Mechanism string }

// Quota is client quotas of one entity, by Kafka's keys, as consumer_byte_rate.
type Quota struct {
	Entity QuotaEntity        `json:"entity"`
	Values map[string]float64 `json:"values"`
}

// QuotaEntity is whom a quota is for. A part that is absent does not count; one
// that is DefaultEntity is for all that have no quota of their own.
type QuotaEntity struct {
	User     string `json:"user,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	IP       string `json:"ip,omitempty"`
}

// DefaultEntity is Kafka's name of everybody else.
const DefaultEntity = "<default>"

// PutACL writes an ACL.
func PutACL(a *ACL) Change { return Change{key: idKey(kindACL, a.Key()), value: a} }

// DeleteACL removes the ACL that says the same.
func DeleteACL(a *ACL) Change { return Change{key: idKey(kindACL, a.Key())} }

// PutScram writes a user's credentials.
func PutScram(s *Scram) Change {
	return Change{key: recordKey{kindScram, scramID(ScramKey{s.User, s.Mechanism})}, value: s}
}

// DeleteScram removes a user's credentials.
func DeleteScram(k ScramKey) Change { return Change{key: recordKey{kindScram, scramID(k)}} }

// PutQuota writes the quotas of an entity; without values it removes them.
func PutQuota(q *Quota) Change {
	c := Change{key: recordKey{kindQuota, q.Entity.id()}}
	if len(q.Values) > 0 {
		c.value = q
	}
	return c
}

func scramID(k ScramKey) string { return k.Mechanism + "/" + k.User }

func scramOfID(id string) (ScramKey, error) {
	mechanism, user, ok := strings.Cut(id, "/")
	if !ok {
		return ScramKey{}, fmt.Errorf("%q names no credentials", id)
	}
	return ScramKey{user, mechanism}, nil
}

func (e QuotaEntity) id() string {
	text, err := json.Marshal(e)
	if err != nil {
		panic("BUG: three texts are no JSON: " + err.Error())
	}
	return string(text)
}

func quotaOfID(id string) (QuotaEntity, error) {
	var e QuotaEntity
	return e, json.Unmarshal([]byte(id), &e)
}

// scramRecord is Scram as it is stored.
type scramRecord struct {
	Scram
	Sealed map[string]string `json:"sealed"`
}

// scramOwner is what a credential is bound to, in place of a link's id.
func scramOwner(s *Scram) kafka.TopicID {
	sum := sha256.Sum256([]byte(scramID(ScramKey{s.User, s.Mechanism})))
	return kafka.TopicID(sum[:16])
}

func (s *Scram) parts() map[string]*Secret {
	return map[string]*Secret{"salt": &s.Salt, "stored_key": &s.StoredKey, "server_key": &s.ServerKey}
}

func (s *sealer) sealScram(c *Scram) (scramRecord, error) {
	r := scramRecord{Scram: *c, Sealed: map[string]string{}}
	for name, part := range c.parts() {
		sealed, err := s.seal(part.Reveal(), name, scramOwner(c))
		if err != nil {
			return scramRecord{}, err
		}
		r.Sealed[name] = sealed
	}
	return r, nil
}

func (s *sealer) openScram(body []byte) (*Scram, error) {
	var r scramRecord
	if err := unmarshal(body, &r); err != nil {
		return nil, err
	}
	c := r.Scram
	for name, part := range c.parts() {
		text, err := s.open(r.Sealed[name], name, scramOwner(&c))
		if errors.Is(err, errOtherKey) && s.forget {
			s.log.Warn("credentials of user forgotten: their key is lost; set them anew", "user", c.User, "mechanism", c.Mechanism)
			s.forgotUsers[ScramKey{c.User, c.Mechanism}] = true
			return &Scram{User: c.User, Mechanism: c.Mechanism}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("open credentials of user %s: %w", c.User, err)
		}
		*part = NewSecret(text)
	}
	return &c, nil
}
