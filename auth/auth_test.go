package auth_test

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

func image(acls ...*meta.ACL) *meta.Image {
	img := &meta.Image{ACLs: map[kafka.TopicID]*meta.ACL{}}
	for _, acl := range acls {
		img.ACLs[acl.Key()] = acl
	}
	return img
}

// rule reads "ALLOW User:alice READ TOPIC LITERAL orders" with an optional host.
func rule(text string) *meta.ACL {
	w := strings.Fields(text)
	host := "*"
	if len(w) > 6 {
		host = w[6]
	}
	return &meta.ACL{Permission: w[0], Principal: w[1], Operation: w[2], ResourceType: w[3], PatternType: w[4], Resource: w[5], Host: host}
}

func TestAuthorizerDecidesAsKafkaDoes(t *testing.T) {
	const topic, group = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	for _, c := range []struct {
		name      string
		rules     []string
		principal string
		op        kmsg.ACLOperation
		kind      kmsg.ACLResourceType
		resource  string
		want      bool
	}{
		{"no rule", nil, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"super user", nil, "User:admin", kmsg.ACLOperationRead, topic, "orders", true},
		{"literal", []string{"ALLOW User:alice READ TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", true},
		{"literal is no prefix", []string{"ALLOW User:alice READ TOPIC LITERAL order"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"other principal", []string{"ALLOW User:alice READ TOPIC LITERAL orders"}, "User:bob", kmsg.ACLOperationRead, topic, "orders", false},
		{"other kind", []string{"ALLOW User:alice READ TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationRead, group, "orders", false},
		{"wildcard name", []string{"ALLOW User:alice READ TOPIC LITERAL *"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", true},
		{"wildcard principal", []string{"ALLOW User:* READ TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", true},
		{"prefix", []string{"ALLOW User:alice READ TOPIC PREFIXED ord"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", true},
		{"prefix of another", []string{"ALLOW User:alice READ TOPIC PREFIXED ords"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"read implies describe", []string{"ALLOW User:alice READ TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationDescribe, topic, "orders", true},
		{"describe implies no read", []string{"ALLOW User:alice DESCRIBE TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"alter configs implies describe configs", []string{"ALLOW User:alice ALTER_CONFIGS TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationDescribeConfigs, topic, "orders", true},
		{"all", []string{"ALLOW User:alice ALL TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationDelete, topic, "orders", true},
		{"deny wins", []string{"ALLOW User:alice ALL TOPIC LITERAL orders", "DENY User:* READ TOPIC PREFIXED or"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"deny of read leaves describe", []string{"ALLOW User:alice ALL TOPIC LITERAL orders", "DENY User:alice READ TOPIC LITERAL orders"}, "User:alice", kmsg.ACLOperationDescribe, topic, "orders", true},
		{"deny all", []string{"ALLOW User:alice ALL TOPIC LITERAL orders", "DENY User:alice ALL TOPIC LITERAL *"}, "User:alice", kmsg.ACLOperationDescribe, topic, "orders", false},
		{"other host", []string{"ALLOW User:alice READ TOPIC LITERAL orders 10.0.0.9"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", false},
		{"own host", []string{"ALLOW User:alice READ TOPIC LITERAL orders 10.0.0.1"}, "User:alice", kmsg.ACLOperationRead, topic, "orders", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var acls []*meta.ACL
			for _, text := range c.rules {
				acls = append(acls, rule(text))
			}
			img := image(acls...)
			a := auth.NewAuthorizer(func() *meta.Image { return img }, auth.Rules{SuperUsers: auth.ParseSuperUsers("User:admin; User:root")})
			if got := a.Allowed(c.principal, "10.0.0.1", c.op, c.kind, c.resource); got != c.want {
				t.Errorf("allowed is %t, want %t", got, c.want)
			}
		})
	}
}

func TestUnlistedResourcesAreOpenOnlyWhereConfigured(t *testing.T) {
	img := image(rule("ALLOW User:bob READ TOPIC LITERAL kept"))
	open := auth.NewAuthorizer(func() *meta.Image { return img }, auth.Rules{AllowUnlisted: true})
	if !open.Allowed("User:alice", "h", kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "free") {
		t.Error("a topic without any ACL is closed")
	}
	if open.Allowed("User:alice", "h", kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "kept") {
		t.Error("a topic with an ACL of another is open")
	}
}

func TestAuthorizerSeesANewImageAtOnce(t *testing.T) {
	img := image()
	a := auth.NewAuthorizer(func() *meta.Image { return img }, auth.Rules{})
	ask := func() bool {
		return a.Allowed("User:alice", "h", kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "orders")
	}
	if ask() {
		t.Fatal("allowed without a rule")
	}
	next := image(rule("ALLOW User:alice READ TOPIC LITERAL orders"))
	maps.Copy(next.ACLs, img.ACLs)
	if img = next; !ask() {
		t.Error("a rule of the new image is not seen")
	}
	if img = image(rule("DENY User:alice READ TOPIC LITERAL orders"), rule("ALLOW User:alice READ TOPIC LITERAL orders")); ask() {
		t.Error("a denial of the new image is not seen")
	}
}

func TestC43_ACLsThatCannotBe(t *testing.T) {
	good := rule("ALLOW User:alice READ TOPIC LITERAL orders")
	if err := auth.CheckACL(*good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*meta.ACL){
		"principal without a colon": func(a *meta.ACL) { a.Principal = "alice" },
		"empty principal name":      func(a *meta.ACL) { a.Principal = "User:" },
		"pattern MATCH":             func(a *meta.ACL) { a.PatternType = "MATCH" },
		"pattern ANY":               func(a *meta.ACL) { a.PatternType = "ANY" },
		"type ANY":                  func(a *meta.ACL) { a.ResourceType = "ANY" },
		"no resource":               func(a *meta.ACL) { a.Resource = "" },
		"operation ANY":             func(a *meta.ACL) { a.Operation = "ANY" },
		"permission ANY":            func(a *meta.ACL) { a.Permission = "ANY" },
		"cluster of another name":   func(a *meta.ACL) { a.ResourceType, a.Operation, a.Resource = "CLUSTER", "ALTER", "orders" },
		"no host":                   func(a *meta.ACL) { a.Host = "" },
	} {
		bad := *good
		if spoil(&bad); !errors.Is(auth.CheckACL(bad), kafka.InvalidRequest) {
			t.Errorf("%s: %v, want INVALID_REQUEST", name, auth.CheckACL(bad))
		}
	}
	odd := *good
	if odd.Operation = "CLUSTER_ACTION"; auth.CheckACL(odd) != nil || !errors.Is(auth.CheckOperation(odd), kafka.InvalidRequest) || auth.CheckOperation(*good) != nil {
		t.Errorf("an operation of another type: %v, %v", auth.CheckACL(odd), auth.CheckOperation(odd))
	}
}

func TestFilterCovers(t *testing.T) {
	all := image(rule("ALLOW User:a READ TOPIC LITERAL orders"), rule("ALLOW User:a READ TOPIC PREFIXED ord"), rule("ALLOW User:a READ TOPIC LITERAL *"),
		rule("ALLOW User:b WRITE TOPIC LITERAL other"), rule("DENY User:a READ GROUP LITERAL orders"))
	for _, c := range []struct {
		filter auth.Filter
		want   int
	}{
		{auth.Filter{}, 5},
		{auth.Filter{ResourceType: "TOPIC"}, 4},
		{auth.Filter{ResourceType: "TOPIC", Resource: "orders", PatternType: "MATCH"}, 3},
		{auth.Filter{ResourceType: "TOPIC", Resource: "orders", PatternType: "LITERAL"}, 1},
		{auth.Filter{Resource: "orders", PatternType: "ANY"}, 2},
		{auth.Filter{PatternType: "PREFIXED"}, 1},
		{auth.Filter{Principal: "User:b"}, 1},
		{auth.Filter{Permission: "DENY"}, 1},
	} {
		if got := len(auth.List(all, c.filter)); got != c.want {
			t.Errorf("%+v finds %d, want %d", c.filter, got, c.want)
		}
	}
}

// keeper stores over a real metadata store.
func keeper(t *testing.T) (*auth.Keeper, *meta.Meta) {
	t.Helper()
	m := metatest.New(t)
	return auth.NewKeeper(m), m
}

func TestSCRAMLoginByAStrangersClient(t *testing.T) {
	k, m := keeper(t)
	salt := []byte("0123456789abcdef")
	salted, err := pbkdf2.Key(sha256.New, "pencil", salt, 4096, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	rq := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	rq.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "alice", Mechanism: 1, Iterations: 4096, Salt: salt, SaltedPassword: salted}}
	for _, r := range k.AlterUserSCRAMCredentials(context.Background(), rq).Results {
		if r.ErrorCode != 0 {
			t.Fatal(*r.ErrorMessage)
		}
	}
	logins, err := auth.NewSASL(auth.SASLConfig{Mechanisms: []string{"PLAIN", "SCRAM-SHA-256"}, JAAS: `x.PlainLoginModule required user_bob="b,o=b";`, Image: m.Image})
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"pencil": true, "pen": false} {
		client, err := scram.SHA256.NewClient("alice", password, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := logIn(t, logins, client.NewConversation()); got != want {
			t.Errorf("login with %q: %t, want %t", password, got, want)
		}
		if logins.CheckPassword("alice", password) != want {
			t.Errorf("CheckPassword(%q) is not %t", password, want)
		}
	}
	stranger, _ := scram.SHA256.NewClient("nobody", "x", "")
	if logIn(t, logins, stranger.NewConversation()) {
		t.Error("an unknown user is logged in")
	}
}

// As from Apache Kafka 4.1, but that two mechanisms of one user are two credentials.
func TestCredentialsAlteredTwiceAreRefused(t *testing.T) {
	k, m := keeper(t)
	made := func(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: user, Mechanism: mechanism, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: []byte("salted")}
	}
	rq := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	rq.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{made("alice", 1), made("alice", 1), made("bob", 1), made("bob", 2), made("carol", 1)}
	rq.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "carol", Mechanism: 1}}
	want := map[string]kafka.ErrorCode{"alice": kafka.DuplicateResource, "bob": kafka.None, "carol": kafka.DuplicateResource}
	for _, r := range k.AlterUserSCRAMCredentials(context.Background(), rq).Results {
		if kafka.ErrorCode(r.ErrorCode) != want[r.User] {
			t.Errorf("%s: %v, want %v", r.User, kafka.ErrorCode(r.ErrorCode), want[r.User])
		}
		delete(want, r.User)
	}
	if len(want) > 0 || len(m.Image().Scrams) != 2 {
		t.Errorf("without an answer: %v; %d credentials are stored", want, len(m.Image().Scrams))
	}
}

// Clients that salt otherwise are stored as they are: only they log in with it.
func TestSaltedPasswordsOfAnyLengthAreStored(t *testing.T) {
	k, m := keeper(t)
	rq := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	rq.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "alice", Mechanism: 2, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: []byte("my-salted-password")}}
	for _, r := range k.AlterUserSCRAMCredentials(context.Background(), rq).Results {
		if r.ErrorCode != 0 {
			t.Error(*r.ErrorMessage)
		}
	}
	if m.Image().Scrams[meta.ScramKey{User: "alice", Mechanism: "SCRAM-SHA-512"}] == nil {
		t.Error("nothing is stored")
	}
}

func logIn(t *testing.T, logins *auth.SASL, client *scram.ClientConversation) bool {
	t.Helper()
	exchange, err := logins.Begin("SCRAM-SHA-256")
	if err != nil {
		t.Fatal(err)
	}
	challenge := ""
	for range 3 {
		response, err := client.Step(challenge)
		if err != nil {
			return false
		}
		if client.Done() {
			name, _, ok := exchange.Principal()
			return client.Valid() && ok && name == "User:alice"
		}
		answer, err := exchange.Step([]byte(response))
		if err != nil {
			if !errors.Is(err, kafka.SaslAuthenticationFailed) {
				t.Errorf("refused with %v", err)
			}
			return false
		}
		challenge = string(answer)
	}
	return false
}

func TestPlainLogin(t *testing.T) {
	logins, err := auth.NewSASL(auth.SASLConfig{Mechanisms: []string{"PLAIN"}, JAAS: `x.PlainLoginModule required user_bob="b,o=b";`, Image: func() *meta.Image { return image() }})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{
		"\x00bob\x00b,o=b": true, "bob\x00bob\x00b,o=b": true, "al\x00bob\x00b,o=b": false, "\x00bob\x00": false, "\x00bob\x00x": false,
		"\x00al\x00": false, "": false, "bob": false, "\x00\x00": false, "\x00bob\x00b,o=b\x00": false,
	} {
		exchange, err := logins.Begin("PLAIN")
		if err != nil {
			t.Fatal(err)
		}
		_, err = exchange.Step([]byte(token))
		if (err == nil) != want {
			t.Errorf("token %q: %v, want success %t", token, err, want)
		}
		if _, _, ok := exchange.Principal(); ok != want {
			t.Errorf("token %q: logged in %t, want %t", token, ok, want)
		}
	}
	if _, err := logins.Begin("SCRAM-SHA-256"); !errors.Is(err, kafka.UnsupportedSaslMechanism) {
		t.Errorf("a mechanism that is off: %v", err)
	}
}

func TestQuotasRoundTrip(t *testing.T) {
	k, _ := keeper(t)
	alter := kmsg.NewPtrAlterClientQuotasRequest()
	entity := func(kind string, name *string) kmsg.AlterClientQuotasRequestEntryEntity {
		return kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: name}
	}
	alter.Entries = []kmsg.AlterClientQuotasRequestEntry{
		{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("user", kmsg.StringPtr("alice"))}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1000}}},
		{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("user", nil)}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "consumer_byte_rate", Value: 5}}},
		{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("user", kmsg.StringPtr("x"))}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "no_such", Value: 5}}},
		{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{entity("ip", kmsg.StringPtr("::1")), entity("user", nil)}},
	}
	answer := k.AlterClientQuotas(context.Background(), alter)
	for i, want := range []kafka.ErrorCode{kafka.None, kafka.None, kafka.InvalidRequest, kafka.InvalidRequest} {
		if got := kafka.ErrorCode(answer.Entries[i].ErrorCode); got != want {
			t.Errorf("entry %d: %v, want %v", i, got, want)
		}
	}
	describe := kmsg.NewPtrDescribeClientQuotasRequest()
	if got := len(k.DescribeClientQuotas(context.Background(), describe).Entries); got != 2 {
		t.Errorf("%d entities have quotas, want 2", got)
	}
	describe.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: kmsg.QuotasMatchTypeDefault}}
	found := k.DescribeClientQuotas(context.Background(), describe).Entries
	if len(found) != 1 || found[0].Entity[0].Name != nil || found[0].Values[0].Value != 5 {
		t.Errorf("the default user's quota is %+v", found)
	}
}

func TestQuotasThatCannotBeAreRefused(t *testing.T) {
	k, _ := keeper(t)
	for name, c := range map[string]struct {
		kind, of, key string
		value         float64
		want          kafka.ErrorCode
	}{
		"half a byte":               {"user", "u", "producer_byte_rate", 1000.5, kafka.InvalidRequest},
		"more bytes than there are": {"user", "u", "consumer_byte_rate", 1e19, kafka.InvalidRequest},
		"half a connection":         {"ip", "10.0.0.1", "connection_creation_rate", 0.5, kafka.InvalidRequest},
		"too many connections":      {"ip", "10.0.0.1", "connection_creation_rate", 1 << 31, kafka.InvalidRequest},
		"a name for an address":     {"ip", "host.example", "connection_creation_rate", 5, kafka.InvalidRequest},
		"an address":                {"ip", "fe80::1", "connection_creation_rate", 5, kafka.None},
		"half a percent":            {"user", "u", "request_percentage", 0.5, kafka.None},
		"half a mutation":           {"user", "u", "controller_mutation_rate", 0.5, kafka.None},
	} {
		rq := kmsg.NewPtrAlterClientQuotasRequest()
		rq.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: c.kind, Name: &c.of}}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: c.key, Value: c.value}}}}
		if got := kafka.ErrorCode(k.AlterClientQuotas(context.Background(), rq).Entries[0].ErrorCode); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rq := kmsg.NewPtrDescribeClientQuotasRequest()
	rq.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "ip", MatchType: kmsg.QuotasMatchTypeAny}, {EntityType: "user", MatchType: kmsg.QuotasMatchTypeAny}}
	if got := kafka.ErrorCode(k.DescribeClientQuotas(context.Background(), rq).ErrorCode); got != kafka.InvalidRequest {
		t.Errorf("addresses and users in one filter: %v", got)
	}
}

func FuzzSASL(f *testing.F) {
	f.Add([]byte("n,,n=alice,r=abc"), []byte("c=biws,r=abcdef,p=AAAA"))
	f.Add([]byte("\x00bob\x00pw"), []byte(""))
	img := image()
	img.Scrams = map[meta.ScramKey]*meta.Scram{{User: "alice", Mechanism: "SCRAM-SHA-256"}: {User: "alice", Mechanism: "SCRAM-SHA-256", Iterations: 4096,
		Salt: meta.NewSecret("salt"), StoredKey: meta.NewSecret(strings.Repeat("k", 32)), ServerKey: meta.NewSecret(strings.Repeat("s", 32))}}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		logins, err := auth.NewSASL(auth.SASLConfig{Mechanisms: []string{"PLAIN", "SCRAM-SHA-256"}, JAAS: "", Image: func() *meta.Image { return img }})
		if err != nil {
			t.Fatal(err)
		}
		for _, mechanism := range logins.Mechanisms() {
			exchange, err := logins.Begin(mechanism)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := exchange.Step(first); err == nil {
				_, _ = exchange.Step(second)
			}
			if _, _, ok := exchange.Principal(); ok {
				t.Errorf("logged in by %s with %q, %q", mechanism, first, second)
			}
		}
	})
}
