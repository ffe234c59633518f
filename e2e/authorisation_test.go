//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordAuthorisation writes down anew what Apache Kafka answers.
var recordAuthorisation = flag.Bool("record-authorisation", false, "ask Apache Kafka and write testdata/authorisation.txt")

const authorisationFile = "testdata/authorisation.txt"

// rightsMatrix asks one broker every request under every set of rights.
type rightsMatrix struct {
	t      *testing.T
	admin  *kgo.Client // may do everything
	talk   *rawTalk    // alice's
	ids    map[string]kafka.TopicID
	names  map[kafka.TopicID]string
	record []byte
	// inTransaction is the same as a part of a transaction that there is not.
	inTransaction []byte
	drawn         int
}

func newRightsMatrix(t *testing.T, open, logins string) *rightsMatrix {
	t.Helper()
	b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{Value: []byte("v"), Timestamp: time.Now().UnixMilli()}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := batch.Build(batch.Spec{ProducerID: 4242, ProducerEpoch: 0, BaseSequence: 0, Transactional: true}, []batch.Record{{Value: []byte("v"), Timestamp: time.Now().UnixMilli()}})
	if err != nil {
		t.Fatal(err)
	}
	m := &rightsMatrix{t: t, admin: Client(t, open), talk: newRawTalk(t, logins), ids: map[string]kafka.TopicID{}, names: map[kafka.TopicID]string{}, record: b, inTransaction: in}
	for _, topic := range []string{"mx-t", "hidden-t"} {
		CreateTopic(t, m.admin, topic, 1, 1, nil)
		if err := m.admin.ProduceSync(testContext(t), texts(topic, "v", 0, 3)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	m.learn()
	for _, group := range []string{"mx-g", "hidden-g"} {
		commit(t, m.admin, group, "mx-t", 1)
	}
	commit(t, m.admin, "mx-g", "hidden-t", 1) // so that there is something to leave out
	for _, id := range []string{"mx-x", "hidden-x"} {
		rq := kmsg.NewPtrInitProducerIDRequest()
		rq.TransactionalID, rq.TransactionTimeoutMillis = &id, 60_000
		eventually(t, 30*time.Second, "a producer id for "+id, func() (bool, string) {
			rs, err := rq.RequestWith(testContext(t), m.admin)
			return err == nil && rs.ErrorCode == 0, fmt.Sprint(err, rs)
		})
	}
	return m
}

// learn finds out the ids of the topics there are.
func (m *rightsMatrix) learn() {
	m.t.Helper()
	rq := kmsg.NewPtrMetadataRequest()
	rs, err := rq.RequestWith(testContext(m.t), m.admin)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, topic := range rs.Topics {
		m.ids[*topic.Topic], m.names[topic.TopicID] = topic.TopicID, *topic.Topic
	}
}

// idOf is a topic's id; one that is not there has an id that nobody has.
func (m *rightsMatrix) idOf(topic string) kafka.TopicID {
	id, known := m.ids[topic]
	if !known {
		sum := sha256.Sum256([]byte(topic))
		copy(id[:], sum[:])
		m.names[id] = topic
	}
	return id
}

// right is a grant, as TOPIC:READ.
type right string

var operationsOf = map[string][]string{
	"TOPIC":            {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
	"GROUP":            {"READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
	"CLUSTER":          {"CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"},
	"TRANSACTIONAL_ID": {"DESCRIBE", "WRITE"},
}

// rightSets is none, each right alone, all but each, and all, by name.
func rightSets() (names []string, sets map[string][]right) {
	var all []right
	for _, kind := range slices.Sorted(maps.Keys(operationsOf)) {
		for _, op := range operationsOf[kind] {
			all = append(all, right(kind+":"+op))
		}
	}
	sets = map[string][]right{"nothing": nil, "everything": all}
	names = []string{"nothing", "everything"}
	for i, one := range all {
		only, but := "+"+string(one), "-"+string(one)
		sets[only], sets[but] = []right{one}, slices.Delete(slices.Clone(all), i, i+1)
		names = append(names, only, but)
	}
	return names, sets
}

// grant makes the rights alice's, and no others, and waits until the broker knows.
func (m *rightsMatrix) grant(rights []right) {
	m.t.Helper()
	alice := kmsg.StringPtr("User:alice")
	gone := kmsg.NewPtrDeleteACLsRequest()
	gone.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Principal: alice, Operation: 1, PermissionType: 1}}
	if _, err := gone.RequestWith(testContext(m.t), m.admin); err != nil {
		m.t.Fatal(err)
	}
	made := kmsg.NewPtrCreateACLsRequest()
	for _, one := range rights {
		kind, op, _ := strings.Cut(string(one), ":")
		resource, err1 := kmsg.ParseACLResourceType(kind)
		operation, err2 := kmsg.ParseACLOperation(op)
		if err := errors.Join(err1, err2); err != nil {
			m.t.Fatal(err)
		}
		name, pattern := "mx-", kmsg.ACLResourcePatternTypePrefixed
		if kind == "CLUSTER" {
			name, pattern = "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral
		}
		made.Creations = append(made.Creations, kmsg.CreateACLsRequestCreation{ResourceType: resource, ResourceName: name, ResourcePatternType: pattern, Principal: *alice, Host: "*", Operation: operation, PermissionType: kmsg.ACLPermissionTypeAllow})
	}
	if len(made.Creations) > 0 {
		if _, err := made.RequestWith(testContext(m.t), m.admin); err != nil {
			m.t.Fatal(err)
		}
	}
	seen := kmsg.NewPtrDescribeACLsRequest()
	seen.ResourceType, seen.ResourcePatternType, seen.Principal, seen.Operation, seen.PermissionType = 1, 1, alice, 1, 1
	eventually(m.t, 20*time.Second, "the rights are known", func() (bool, string) {
		rs, err := seen.RequestWith(testContext(m.t), m.admin)
		if err != nil {
			return false, err.Error()
		}
		n := 0
		for _, resource := range rs.Resources {
			n += len(resource.ACLs)
		}
		return n == len(rights), fmt.Sprintf("%d of %d", n, len(rights))
	})
}

// logIn makes sure that there is a connection, and that it is alice's.
func (m *rightsMatrix) logIn() {
	m.t.Helper()
	if m.talk.conn != nil {
		return
	}
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "PLAIN"
	rs, err := m.talk.send(hand, 1)
	if err != nil || rs.(*kmsg.SASLHandshakeResponse).ErrorCode != 0 {
		m.t.Fatalf("log in: %+v, %v", rs, err)
	}
	proof := kmsg.NewPtrSASLAuthenticateRequest()
	proof.SASLAuthBytes = []byte("\x00alice\x00alice-secret")
	if rs, err = m.talk.send(proof, 2); err != nil || rs.(*kmsg.SASLAuthenticateResponse).ErrorCode != 0 {
		m.t.Fatalf("log in: %+v, %v", rs, err)
	}
}

// ask sends one request of the matrix and tells what came of it at every level.
func (m *rightsMatrix) ask(c authorisationCase) string {
	m.t.Helper()
	m.drawn++
	text := strings.ReplaceAll(strings.ReplaceAll(c.text, "mx-del-N", "mx-del-"+strconv.Itoa(m.drawn)), "mx-gd-N", "mx-gd-"+strconv.Itoa(m.drawn))
	if strings.Contains(text, "mx-del-") {
		CreateTopic(m.t, m.admin, "mx-del-"+strconv.Itoa(m.drawn), 1, 1, nil)
		m.learn()
	}
	if strings.Contains(text, "mx-gd-") {
		commit(m.t, m.admin, "mx-gd-"+strconv.Itoa(m.drawn), "mx-t", 1)
	}
	rq := kmsg.RequestForKey(c.key)
	if err := json.Unmarshal([]byte(text), rq); err != nil {
		m.t.Fatalf("%s: %v", c.name, err)
	}
	m.complete(reflect.ValueOf(rq).Elem())
	m.logIn()
	rs, err := m.talk.send(rq, c.version)
	if err != nil {
		m.t.Logf("%s: %v", c.name, err)
		return "no answer"
	}
	return strings.TrimSpace(m.told(reflect.ValueOf(rs).Elem()))
}

// complete fills in what JSON cannot say: records, and the ids of topics.
func (m *rightsMatrix) complete(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			m.complete(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.complete(v.Field(i))
		}
		if records := v.FieldByName("Records"); records.IsValid() {
			records.SetBytes(m.record)
		}
		if of := v.FieldByName("TransactionID"); of.IsValid() && !of.IsNil() {
			for i := range v.FieldByName("Topics").Len() {
				v.FieldByName("Topics").Index(i).FieldByName("Partitions").Index(0).FieldByName("Records").SetBytes(m.inTransaction)
			}
		}
		id := v.FieldByName("TopicID")
		if !id.IsValid() {
			return
		}
		switch name := v.FieldByName("Topic"); {
		case !name.IsValid() || name.Kind() == reflect.Pointer && name.IsNil():
		case name.Kind() == reflect.String:
			id.Set(reflect.ValueOf([16]byte(m.idOf(name.String()))))
		default:
			if asked, byID := strings.CutPrefix(name.Elem().String(), "id:"); byID {
				name.SetZero()
				id.Set(reflect.ValueOf([16]byte(m.idOf(asked))))
			}
		}
	}
}

var (
	// labels are the fields that say what an answer is about.
	labels   = []string{"Topic", "Group", "Name", "ResourceName", "TransactionalID", "Key", "CoordinatorKey"}
	numbered = regexp.MustCompile(`-[0-9]+$`)
	ours     = regexp.MustCompile(`^(mx-|hidden-)|^1?$`)
)

// told is the codes in an answer, level by level, with what each is about. Parts are sorted: their order is nobody's promise.
func (m *rightsMatrix) told(v reflect.Value) string {
	var head, below []string
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		switch {
		case slices.Contains(labels, name):
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					continue
				}
				field = field.Elem()
			}
			if field.String() == "" && v.FieldByName("TopicID").IsValid() {
				continue // its id stands in place of the name
			}
			if !ours.MatchString(field.String()) {
				return "" // the cluster's own topics and groups
			}
			head = append(head, numbered.ReplaceAllString(field.String(), "-N"))
		case name == "TopicID" && len(head) == 0:
			if topic, known := m.names[kafka.TopicID(field.Interface().([16]byte))]; known {
				head = append(head, "id:"+numbered.ReplaceAllString(topic, "-N"))
			}
		case strings.HasSuffix(name, "ErrorCode"):
			head = append(head, kafka.ErrorCode(field.Int()).String())
		case strings.HasSuffix(name, "AuthorizedOperations") && field.Int() != -2147483648:
			head = append(head, fmt.Sprintf("operations=%x", field.Int()))
		case slices.Contains([]string{"Configs", "Brokers", "Features", "ApiKeys", "SupportedFeatures", "FinalizedFeatures", "Voters"}, name):
		case field.Kind() == reflect.Struct && name != "UnknownTags":
			below = append(below, m.told(field))
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			for j := range field.Len() {
				below = append(below, m.told(field.Index(j)))
			}
		}
	}
	below = slices.DeleteFunc(below, func(s string) bool { return s == "" })
	slices.Sort(below)
	below = slices.Compact(below)
	if all := append(head, below...); len(all) > 0 {
		return "(" + strings.Join(all, " ") + ")"
	}
	return ""
}

// answers is what came of a case, by set of rights.
type answers map[string]map[string]string

func (m *rightsMatrix) run() answers {
	names, sets := rightSets()
	all := answers{}
	for _, c := range authorisationCases {
		all[fmt.Sprintf("%s (%d v%d)", c.name, c.key, c.version)] = map[string]string{}
	}
	for _, set := range names {
		m.grant(sets[set])
		for _, c := range authorisationCases {
			all[fmt.Sprintf("%s (%d v%d)", c.name, c.key, c.version)][set] = m.ask(c)
		}
	}
	return all
}

// text writes answers for people: per case each outcome, with the sets that lead to it; the one that most lead to is the others'.
func (a answers) text() string {
	var b strings.Builder
	for _, c := range authorisationCases {
		name := fmt.Sprintf("%s (%d v%d)", c.name, c.key, c.version)
		by := map[string][]string{}
		for set, outcome := range a[name] {
			by[outcome] = append(by[outcome], set)
		}
		outcomes := slices.SortedFunc(maps.Keys(by), func(x, y string) int {
			return cmpOr(len(by[y])-len(by[x]), strings.Compare(x, y))
		})
		fmt.Fprintf(&b, "\n%s\n", name)
		for i, outcome := range outcomes {
			slices.Sort(by[outcome])
			which := strings.Join(by[outcome], " ")
			if i == 0 {
				which = "others"
			}
			fmt.Fprintf(&b, "\t%s\n\t\t%s\n", outcome, which)
		}
	}
	return b.String()
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// readAnswers reads what text wrote.
func readAnswers(text string) answers {
	names, _ := rightSets()
	all := answers{}
	name, outcome, rest := "", "", ""
	finish := func() {
		for _, set := range names {
			if _, said := all[name][set]; name != "" && !said {
				all[name][set] = rest
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t\t"):
			if which := strings.TrimSpace(line); which == "others" {
				rest = outcome
			} else {
				for _, set := range strings.Fields(which) {
					all[name][set] = outcome
				}
			}
		case strings.HasPrefix(line, "\t"):
			outcome = strings.TrimSpace(line)
		default:
			finish()
			name = line
			all[name] = map[string]string{}
		}
	}
	finish()
	return all
}

const authorisationHead = `# What Apache Kafka 4.1.0 (KRaft, StandardAuthorizer) answers a user under every set of rights: none, +R is the right R alone,
# -R is every right but R, and everything. Rights on topics, groups and transactional ids are on the prefix mx-; on what
# begins with hidden- there is none. OffsetCommit and OffsetFetch by id are unstable there, so it ran with unstable.api.versions.enable.
# Written by: go test -tags e2e ./e2e -run TestAuthorisation -record-authorisation
`

func TestAuthorisation_CasesAreRequests(t *testing.T) {
	for _, c := range authorisationCases {
		if err := json.Unmarshal([]byte(c.text), kmsg.RequestForKey(c.key)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAuthorisation_RecordKafka(t *testing.T) {
	if !*recordAuthorisation {
		t.Skip("records only with -record-authorisation: what it wrote is in " + authorisationFile)
	}
	k := NewKafka(t, KafkaOptions{Brokers: 1, Guarded: []plainUser{{"alice", "alice-secret"}}, Properties: []string{"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1",
		"unstable.api.versions.enable=true", // OffsetCommit and OffsetFetch by a topic's id
	}})
	got := newRightsMatrix(t, k.Bootstrap(), k.Logins()).run()
	if err := os.WriteFile(authorisationFile, []byte(authorisationHead+got.text()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAuthorisation_AsKafka asks hawser the same, and wants the same codes at every level.
func TestAuthorisation_AsKafka(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(authorisationFile)
	if err != nil {
		t.Fatal(err)
	}
	want := readAnswers(string(text))
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	logins := fmt.Sprintf("127.0.0.1:%d", ports[1])
	file := filepath.Join(t.TempDir(), "server.properties")
	properties := fmt.Sprintf(`listeners=PLAINTEXT://127.0.0.1:%d,SASL_PLAINTEXT://%s
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
auto.create.topics.enable=false
`, ports[0], logins)
	if err := os.WriteFile(file, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	h := StartHawser(t, "--config", file)
	got := newRightsMatrix(t, h.Kafka, logins).run()
	wrong := 0
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			t.Errorf("%s is not recorded: run with -record-authorisation", name)
			continue
		}
		differ := map[[2]string][]string{}
		for set, outcome := range got[name] {
			if outcome != want[name][set] && !knownDifference(name, want[name][set], outcome) {
				differ[[2]string{want[name][set], outcome}] = append(differ[[2]string{want[name][set], outcome}], set)
			}
		}
		for pair, which := range differ {
			slices.Sort(which)
			wrong += len(which)
			t.Errorf("%s\n\tKafka:  %s\n\thawser: %s\n\tunder %s", name, pair[0], pair[1], strings.Join(which, " "))
		}
	}
	t.Logf("%d requests, %d of them answered otherwise than by Kafka", len(authorisationCases)*len(got["ApiVersions (18 v2)"]), wrong)
}

// knownDifference allows what differs on purpose: there are no share groups here, whoever asks.
func knownDifference(name, kafka, hawser string) bool {
	return strings.HasPrefix(name, "FindCoordinator, of a share group") && strings.Contains(kafka, "COORDINATOR_NOT_AVAILABLE") && strings.Contains(hawser, "INVALID_REQUEST")
}
