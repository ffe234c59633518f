package meta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
)

const password = "correct-horse-battery-staple"

func linkWithSecret() *meta.Link {
	return &meta.Link{
		ID: kafka.NewTopicID(), Name: "dr", Configs: map[string]string{"a": "plain-value"},
		Secrets: map[string]meta.Secret{"sasl.jaas.config": meta.NewSecret(password)},
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	l := linkWithSecret()
	hidden := struct{ secret meta.Secret }{meta.NewSecret(password)} // fmt does not ask methods of unexported fields
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%o", "%10.3s", "%T"} {
		fmt.Fprintf(&out, verb+"\n", l.Secrets["sasl.jaas.config"])
		fmt.Fprintf(&out, verb+"\n", l)
		fmt.Fprintf(&out, verb+"\n", *l)
		fmt.Fprintf(&out, verb+"\n", hidden)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "link", l, "secret", l.Secrets["sasl.jaas.config"], "hidden", hidden)
	}
	if err := json.NewEncoder(&out).Encode(l); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, leak := range []string{password, fmt.Sprintf("%x", password), fmt.Sprintf("%X", password), "horse"} {
		if strings.Contains(text, leak) {
			t.Errorf("%q shows in\n%s", leak, text)
		}
	}
	if !strings.Contains(text, "****") || !strings.Contains(text, "plain-value") {
		t.Error("the test prints nothing")
	}
	one, same := meta.NewSecret("a"), meta.NewSecret("a")
	if one != same || one == meta.NewSecret("b") || (meta.Secret{}).Reveal() != "" {
		t.Error("secrets do not compare by their texts")
	}
}

func TestSecretsAreSealedOnDisk(t *testing.T) {
	dir := t.TempDir()
	l := linkWithSecret()
	m := metatest.Open(t, meta.Config{Dir: dir})
	scram := &meta.Scram{User: "u", Mechanism: "SCRAM-SHA-256", StoredKey: meta.NewSecret(password)}
	update(t, m, meta.PutLink(l), meta.PutScram(scram))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	sawPlain := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		sawPlain = sawPlain || bytes.Contains(data, []byte("plain-value"))
		if bytes.Contains(data, []byte(password)) {
			t.Errorf("%s holds the password in clear", path)
		}
		return err
	})
	if err != nil || !sawPlain {
		t.Fatalf("%v; saw other values: %v", err, sawPlain)
	}
	info, err := os.Stat(filepath.Join(dir, "secret.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info.Mode(), err)
	}
	m = metatest.Open(t, meta.Config{Dir: dir})
	if got := m.Image().Links[l.ID].Secrets["sasl.jaas.config"].Reveal(); got != password {
		t.Fatalf("opened as %q", got)
	}
}

func TestLostKeyIsRefusedUnlessForgotten(t *testing.T) {
	dir := t.TempDir()
	l := linkWithSecret()
	m := metatest.Open(t, meta.Config{Dir: dir})
	update(t, m, meta.PutLink(l), meta.PutScram(&meta.Scram{User: "u", Mechanism: "SCRAM-SHA-256"}))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "secret.key")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"is missing":            func() error { return os.Remove(key) },
		"is not the key":        func() error { return os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600) },
		"is damaged":            func() error { return os.WriteFile(key, text[:20], 0o600) },
		"can be read by others": func() error { return os.Chmod(key, 0o640) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if m, err := meta.Open(t.Context(), meta.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("key file %s: opened %v, %v", name, m, err)
		}
		if err := os.WriteFile(key, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	for _, forget := range []bool{true, false} {
		m := metatest.Open(t, meta.Config{Dir: dir, ForgetSecrets: forget})
		got := m.Image().Links[l.ID]
		if got == nil || got.Configs["a"] != "plain-value" || len(got.Secrets) != 0 || len(m.Image().Scrams) != 0 {
			t.Fatalf("forget %v: link = %+v", forget, got)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// update makes changes that cannot conflict.
func update(t *testing.T, m *meta.Meta, changes ...meta.Change) {
	t.Helper()
	if err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return changes, nil }); err != nil {
		t.Fatal(err)
	}
}
