package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/meta"
)

// conversation is the server's side of one SCRAM login (RFC 5802). It is our own
// for one line: librdkafka before 2.6.1 puts its nonce into the final message
// twice. The message is signed as a whole, so Kafka's brokers, and we, ask only
// that it ends in our nonce; the libraries refuse it.
type conversation struct {
	mechanism string
	lookUp    func(user string) *meta.Scram // nil for an unknown user

	user        string
	kept        *meta.Scram
	nonce       string // ours
	first       string // client-first-message-bare
	serverFirst string
}

// messageMax bounds a client's message, in bytes.
const messageMax = 4 << 10

// nonceBytes is how much randomness our nonce has.
const nonceBytes = 24

// step answers a client's message; done is true with the last one.
func (c *conversation) step(token []byte) (answer []byte, done bool, err error) {
	if len(token) > messageMax {
		return nil, false, fmt.Errorf("message of %d bytes", len(token))
	}
	if c.kept == nil {
		text, err := c.begin(string(token))
		return []byte(text), false, err
	}
	text, err := c.finish(string(token))
	return []byte(text), err == nil, err
}

func (c *conversation) begin(message string) (string, error) {
	// gs2-header: no channel binding, and an authorization id that may be absent.
	binding, rest, ok1 := strings.Cut(message, ",")
	authorization, bare, ok2 := strings.Cut(rest, ",")
	if !ok1 || !ok2 || binding != "n" && binding != "y" {
		return "", fmt.Errorf("malformed first message, or channel binding asked for")
	}
	fields := strings.Split(bare, ",")
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "n=") || !strings.HasPrefix(fields[1], "r=") || len(fields[1]) == 2 {
		return "", fmt.Errorf("malformed first message")
	}
	c.user = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(fields[0][2:])
	if id, given := strings.CutPrefix(authorization, "a="); given && id != fields[0][2:] {
		return "", fmt.Errorf("authorization id differs from the user name")
	}
	kept := c.lookUp(c.user)
	if kept == nil {
		return "", errNoUser
	}
	raw := make([]byte, nonceBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("draw a nonce: %w", err)
	}
	c.kept, c.first = kept, bare
	c.nonce = base64.RawStdEncoding.EncodeToString(raw)
	c.serverFirst = fmt.Sprintf("r=%s%s,s=%s,i=%d", fields[1][2:], c.nonce,
		base64.StdEncoding.EncodeToString([]byte(kept.Salt.Reveal())), kept.Iterations)
	return c.serverFirst, nil
}

func (c *conversation) finish(message string) (string, error) {
	signed, proofText, ok := cutLast(message, ",p=")
	fields := strings.Split(signed, ",")
	if !ok || len(fields) < 2 || !strings.HasPrefix(fields[0], "c=") || !strings.HasPrefix(fields[1], "r=") {
		return "", fmt.Errorf("malformed final message")
	}
	if !strings.HasSuffix(fields[1], c.nonce) {
		return "", fmt.Errorf("the final message does not hold our nonce")
	}
	proof, err := base64.StdEncoding.DecodeString(proofText)
	size := digest(c.mechanism)().Size()
	if err != nil || len(proof) != size {
		return "", fmt.Errorf("malformed proof")
	}
	authMessage := c.first + "," + c.serverFirst + "," + signed
	signature := c.sign(c.kept.StoredKey, authMessage)
	clientKey := make([]byte, size)
	subtle.XORBytes(clientKey, proof, signature)
	stored := digest(c.mechanism)()
	stored.Write(clientKey) // a hash does not fail
	if subtle.ConstantTimeCompare(stored.Sum(nil), []byte(c.kept.StoredKey.Reveal())) != 1 {
		return "", fmt.Errorf("the proof is wrong")
	}
	return "v=" + base64.StdEncoding.EncodeToString(c.sign(c.kept.ServerKey, authMessage)), nil
}

func (c *conversation) sign(key meta.Secret, message string) []byte {
	mac := hmac.New(digest(c.mechanism), []byte(key.Reveal()))
	mac.Write([]byte(message)) // a hash does not fail
	return mac.Sum(nil)
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
