package meta

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// keyFile holds the key that seals secrets: 32 bytes in hex. Every broker of a
// cluster has the same.
const keyFile = "secret.key"

const keySize = 32

// sealVersion stands in front of each sealed value.
const sealVersion = "1"

// sealer seals secrets before they are stored.
type sealer struct {
	aead        cipher.AEAD
	keyID       string // names the key without telling it
	signing     ed25519.PrivateKey
	log         *slog.Logger
	forget      bool                   // a secret sealed with another key is dropped instead of refused
	forgot      map[kafka.TopicID]bool // links that lost secrets so; only written while the store is read first
	forgotUsers map[ScramKey]bool      // and users
}

func newSealer(key []byte, log *slog.Logger) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	signing, err := signingKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("hawser key id\n"), key...))
	return &sealer{aead: aead, signing: signing, keyID: hex.EncodeToString(sum[:6]), log: log, forgot: map[kafka.TopicID]bool{},
		forgotUsers: map[ScramKey]bool{}}, nil
}

// readKey reads the key file; nil without error if there is none.
func readKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s can be read by others than its owner (mode %#o): chmod 600 it", path, info.Mode().Perm())
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("key file %s is damaged: want %d bytes in hex; put back a copy of it", path, keySize)
	}
	return key, nil
}

// makeKey draws a key and writes the key file, which must not exist. The name
// appears only with the whole key behind it, on disk.
func makeKey(dir string) ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("draw key: %w", err)
	}
	tmp, err := os.CreateTemp(dir, keyFile+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write key file: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // a left-over harms nobody: its key seals nothing
	_, err = tmp.WriteString(hex.EncodeToString(key) + "\n")
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Link(tmp.Name(), filepath.Join(dir, keyFile))
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("write key file: %w", err)
	}
	return key, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// seal encrypts text. name and link are bound to it: a sealed value moved to another key or link does not open.
func (s *sealer) seal(text, name string, link kafka.TopicID) (string, error) {
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("draw nonce: %w", err)
	}
	sealed := s.aead.Seal(nonce, nonce, []byte(text), boundTo(name, link))
	return sealVersion + ":" + s.keyID + ":" + base64.RawStdEncoding.EncodeToString(sealed), nil
}

var errOtherKey = errors.New("sealed with another key than that in secret.key: " +
	"put back the key file, or start once with --forget-secrets and set the passwords anew")

func (s *sealer) open(sealed, name string, link kafka.TopicID) (string, error) {
	version, rest, _ := strings.Cut(sealed, ":")
	keyID, body, ok := strings.Cut(rest, ":")
	if version != sealVersion || !ok {
		return "", fmt.Errorf("sealed in format %.8q, which this version does not read: run the newer hawser that wrote it", version)
	}
	if keyID != s.keyID {
		return "", errOtherKey
	}
	raw, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return "", errors.New("sealed value is damaged")
	}
	n := s.aead.NonceSize()
	text, err := s.aead.Open(nil, raw[:n], raw[n:], boundTo(name, link))
	if err != nil {
		return "", errors.New("sealed value is damaged, or was moved here from another link")
	}
	return string(text), nil
}

func boundTo(name string, link kafka.TopicID) []byte {
	return append(link[:len(link):len(link)], name...)
}

// linkRecord is a Link as it is stored.
type linkRecord struct {
	Link
	Secrets map[string]string `json:"secrets"` // sealed; hides Link's field
}

func (s *sealer) sealLink(l *Link) (linkRecord, error) {
	r := linkRecord{Link: *l, Secrets: make(map[string]string, len(l.Secrets))}
	r.Link.Secrets = nil
	for name, secret := range l.Secrets {
		sealed, err := s.seal(secret.Reveal(), name, l.ID)
		if err != nil {
			return linkRecord{}, err
		}
		r.Secrets[name] = sealed
	}
	return r, nil
}

func (s *sealer) openLink(body []byte) (*Link, error) {
	var r linkRecord
	if err := unmarshal(body, &r); err != nil {
		return nil, err
	}
	l := r.Link
	l.Secrets = make(map[string]Secret, len(r.Secrets))
	for _, name := range slices.Sorted(maps.Keys(r.Secrets)) {
		text, err := s.open(r.Secrets[name], name, l.ID)
		if errors.Is(err, errOtherKey) && s.forget {
			s.forgot[l.ID] = true
			s.log.Warn("secret of link forgotten: its key is lost; set it anew", "link", l.Name, "config", name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %s of link %s: %w", name, l.Name, err)
		}
		l.Secrets[name] = NewSecret(text)
	}
	return &l, nil
}

// SealConfig seals a sensitive value among the dynamic configs of a broker, which are stored as they stand in the image.
func (m *Meta) SealConfig(entity, name, text string) (string, error) {
	return m.sealer.seal(text, name, configOwner(entity))
}

// OpenConfig is the text of what SealConfig sealed. ErrForgotten says that its key is lost and was given up with
// Config.ForgetSecrets.
func (m *Meta) OpenConfig(entity, name, sealed string) (string, error) {
	text, err := m.sealer.open(sealed, name, configOwner(entity))
	if errors.Is(err, errOtherKey) && m.cfg.ForgetSecrets {
		return "", fmt.Errorf("%w: %s", ErrForgotten, name)
	}
	if err != nil {
		return "", fmt.Errorf("open %s of broker %s: %w", name, entity, err)
	}
	return text, nil
}

// ErrForgotten says that a secret is lost with the key that sealed it; matched with errors.Is.
var ErrForgotten = errors.New("secret forgotten with its key")

// configOwner is what a broker's sealed configs are bound to, in place of a link's id.
func configOwner(entity string) kafka.TopicID {
	sum := sha256.Sum256([]byte("configs of broker " + entity))
	return kafka.TopicID(sum[:16])
}
