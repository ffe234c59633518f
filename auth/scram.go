package auth

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mechanism names.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// iterationsMin and iterationsMax are Kafka's bounds (ScramMechanism).
const (
	iterationsMin = 4096
	iterationsMax = 16384
)

// scramNumber is the protocol's number of a mechanism (KIP-554).
var scramNumber = map[string]int8{ScramSHA256: 1, ScramSHA512: 2}

// ScramName is the mechanism that the protocol gives this number.
func ScramName(number int8) (string, error) {
	for name, n := range scramNumber {
		if n == number {
			return name, nil
		}
	}
	return "", kafka.Errorf(kafka.UnsupportedSaslMechanism, "Unknown SCRAM mechanism %d; 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.", number)
}

// ScramNumber is the protocol's number of a mechanism.
func ScramNumber(mechanism string) (int8, error) {
	number, known := scramNumber[mechanism]
	if !known {
		return 0, kafka.Errorf(kafka.UnsupportedSaslMechanism,
			"Mechanism %.50q keeps no credentials; use SCRAM-SHA-256 or SCRAM-SHA-512.", mechanism)
	}
	return number, nil
}

// saltBytes is how long a salt is that we draw.
const saltBytes = 24

// NewCredential turns a password into what AlterUserScramCredentials carries, with a
// new salt. A password with characters beyond ASCII is taken as its UTF-8 bytes, as Kafka does.
func NewCredential(user, mechanism, password string, iterations int32) (kmsg.AlterUserSCRAMCredentialsRequestUpsertion, error) {
	made := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	number, err := ScramNumber(mechanism)
	if err != nil {
		return made, err
	}
	if iterations < iterationsMin || iterations > iterationsMax {
		return made, kafka.Errorf(kafka.UnacceptableCredential, "Iterations must be %d to %d, not %d.", iterationsMin, iterationsMax, iterations)
	}
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return made, fmt.Errorf("draw a salt: %w", err)
	}
	salted, err := pbkdf2.Key(digest(mechanism), password, salt, int(iterations), digest(mechanism)().Size())
	if err != nil {
		return made, fmt.Errorf("salt the password: %w", err)
	}
	made.Name, made.Mechanism, made.Iterations, made.Salt, made.SaltedPassword = user, number, iterations, salt, salted
	return made, nil
}

func digest(mechanism string) func() hash.Hash {
	if mechanism == ScramSHA512 {
		return sha512.New
	}
	return sha256.New
}

// credentials turns a salted password into what a server keeps (RFC 5802, section 3).
func credentials(user, mechanism string, salt, salted []byte, iterations int32) *meta.Scram {
	sum := func(key []byte, word string) []byte {
		mac := hmac.New(digest(mechanism), key)
		mac.Write([]byte(word)) // a hash does not fail
		return mac.Sum(nil)
	}
	stored := digest(mechanism)()
	stored.Write(sum(salted, "Client Key"))
	return &meta.Scram{
		User: user, Mechanism: mechanism, Iterations: iterations, Salt: meta.NewSecret(string(salt)),
		StoredKey: meta.NewSecret(string(stored.Sum(nil))), ServerKey: meta.NewSecret(string(sum(salted, "Server Key"))),
	}
}

// AlterUserSCRAMCredentials implements handler.Security (KIP-554). Users are changed
// one by one; what is wrong with one does not keep the others. Other than in Kafka, a user's two mechanisms may be changed by one request.
func (k *Keeper) AlterUserSCRAMCredentials(ctx context.Context,
	rq *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	resp := rq.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	changes := map[string][]func(*meta.Image) (meta.Change, error){}
	var users []string
	type credential struct {
		user      string
		mechanism int8
	}
	seen := map[credential]bool{}
	twice := map[string]error{}
	add := func(user string, mechanism int8, change func(*meta.Image) (meta.Change, error)) {
		if seen[credential{user, mechanism}] {
			twice[user] = kafka.Errorf(kafka.DuplicateResource, "A user credential cannot be altered twice in the same request: %s", user)
		}
		seen[credential{user, mechanism}] = true
		if changes[user] == nil {
			users = append(users, user)
		}
		changes[user] = append(changes[user], change)
	}
	for _, in := range rq.Deletions {
		add(in.Name, in.Mechanism, func(img *meta.Image) (meta.Change, error) { return deletion(img, in.Name, in.Mechanism) })
	}
	for _, in := range rq.Upsertions {
		add(in.Name, in.Mechanism, func(*meta.Image) (meta.Change, error) { return upsertion(in) })
	}
	for _, user := range users {
		err := twice[user]
		if err == nil {
			err = k.alterUser(ctx, changes[user])
		}
		result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		result.User, result.ErrorCode, result.ErrorMessage = user, int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		resp.Results = append(resp.Results, result)
	}
	return resp
}

// alterUser makes all of a user's changes, or none.
func (k *Keeper) alterUser(ctx context.Context, changes []func(*meta.Image) (meta.Change, error)) error {
	return k.records.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		var list []meta.Change
		for _, change := range changes {
			c, err := change(img)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
		return list, nil
	})
}

func deletion(img *meta.Image, user string, number int8) (meta.Change, error) {
	mechanism, err := ScramName(number)
	if err != nil {
		return meta.Change{}, err
	}
	key := meta.ScramKey{User: user, Mechanism: mechanism}
	if img.Scrams[key] == nil {
		return meta.Change{}, kafka.Errorf(kafka.ResourceNotFound,
			"Attempt to delete a user credential that does not exist: %s has none for %s.", user, mechanism)
	}
	return meta.DeleteScram(key), nil
}

func upsertion(in kmsg.AlterUserSCRAMCredentialsRequestUpsertion) (meta.Change, error) {
	mechanism, err := ScramName(in.Mechanism)
	switch {
	case err != nil:
		return meta.Change{}, err
	case in.Name == "":
		return meta.Change{}, kafka.Errorf(kafka.UnacceptableCredential, "Username must not be empty.")
	case in.Iterations < iterationsMin:
		return meta.Change{}, kafka.Errorf(kafka.UnacceptableCredential, "Too few iterations: %d, at least %d are needed.", in.Iterations,
			iterationsMin)
	case in.Iterations > iterationsMax:
		return meta.Change{}, kafka.Errorf(kafka.UnacceptableCredential, "Too many iterations: %d, at most %d are allowed.",
			in.Iterations, iterationsMax)
	case len(in.Salt) == 0:
		return meta.Change{}, kafka.Errorf(kafka.UnacceptableCredential, "The salt must not be empty.")
	}
	return meta.PutScram(credentials(in.Name, mechanism, in.Salt, in.SaltedPassword, in.Iterations)), nil
}

// DescribeUserSCRAMCredentials implements handler.Security. Only mechanism and
// iterations are ever shown.
func (k *Keeper) DescribeUserSCRAMCredentials(_ context.Context,
	rq *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	resp := rq.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	known := map[string][]*meta.Scram{}
	for key, scram := range k.records.Image().Scrams {
		known[key.User] = append(known[key.User], scram)
	}
	var users []string
	for _, u := range rq.Users {
		users = append(users, u.Name)
	}
	if len(users) == 0 {
		for user := range known {
			users = append(users, user)
		}
		slices.Sort(users)
	}
	asked := map[string]int{}
	for _, user := range users {
		asked[user]++
	}
	done := map[string]bool{}
	for _, user := range users {
		if done[user] {
			continue
		}
		done[user] = true
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.User = user
		var err error
		switch {
		case asked[user] > 1:
			err = kafka.Errorf(kafka.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", user)
		case known[user] == nil:
			err = kafka.Errorf(kafka.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", user)
		}
		result.ErrorCode, result.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		if err == nil {
			slices.SortFunc(known[user], func(a, b *meta.Scram) int { return strings.Compare(a.Mechanism, b.Mechanism) })
			for _, scram := range known[user] {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = scramNumber[scram.Mechanism], scram.Iterations
				result.CredentialInfos = append(result.CredentialInfos, info)
			}
		}
		resp.Results = append(resp.Results, result)
	}
	return resp
}

var errNoUser = errors.New("unknown user")
