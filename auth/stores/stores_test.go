package stores_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/auth/stores"
)

// The stores of testdata were made by Java 17's keytool. The key of key.jks has a password of its own.
const storePassword, keyPassword = "store-secret", "key-secret"

func TestStoresOfJava(t *testing.T) {
	file := func(name string) string { return filepath.Join("testdata", name) }
	for name, c := range map[string]struct {
		store stores.Store
		fault string // "" for a good key pair
	}{
		"JKS":                       {stores.Store{Location: file("key.jks"), Password: storePassword, KeyPassword: keyPassword}, ""},
		"PKCS12":                    {stores.Store{Location: file("key.p12"), Password: storePassword}, ""},
		"JKS, wrong password":       {stores.Store{Location: file("key.jks"), Password: "x", KeyPassword: keyPassword}, "password"},
		"JKS, no password":          {stores.Store{Location: file("key.jks")}, "password"},
		"JKS, key's password unset": {stores.Store{Location: file("key.jks"), Password: storePassword}, "ssl.key.password"},
		"PKCS12, wrong password":    {stores.Store{Location: file("key.p12"), Password: "x"}, "password"},
		"a trust store":             {stores.Store{Location: file("trust.jks"), Password: storePassword}, "no private key"},
		"a PEM file without a key":  {stores.Store{Location: file("cert.pem")}, "no private key"},
		"no file":                   {stores.Store{Location: file("none")}, "no such file"},
		"a directory":               {stores.Store{Location: "testdata"}, "directory"},
		"something else":            {stores.Store{Location: "stores_test.go"}, "neither PEM"},
	} {
		pair, err := c.store.KeyPair()
		switch {
		case c.fault == "" && (err != nil || len(pair.Certificate) != 1):
			t.Errorf("%s: %v, %d certificates", name, err, len(pair.Certificate))
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want words of %q", name, err, c.fault)
		case err != nil && (strings.Contains(err.Error(), storePassword) || strings.Contains(err.Error(), keyPassword)):
			t.Errorf("%s: the error shows a password: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		store stores.Store
		want  int // trusted certificates; 0 for an error
	}{
		"JKS":                 {stores.Store{Location: file("trust.jks"), Password: storePassword}, 2},
		"PKCS12":              {stores.Store{Location: file("trust.p12"), Password: storePassword}, 1},
		"PEM":                 {stores.Store{Location: file("cert.pem")}, 1},
		"JKS, wrong password": {stores.Store{Location: file("trust.jks"), Password: "x"}, 0},
		"JKS of keys":         {stores.Store{Location: file("key.jks"), Password: storePassword}, 0},
	} {
		pool, err := c.store.Roots()
		if err != nil && c.want > 0 || err == nil && c.want == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && len(pool.Subjects()) != c.want { //nolint:staticcheck // no system pool is among them
			t.Errorf("%s: %d authorities, want %d", name, len(pool.Subjects()), c.want) //nolint:staticcheck // the same
		}
	}
}

func TestDamagedStores(t *testing.T) {
	for _, name := range []string{"key.jks", "trust.jks", "key.p12", "trust.p12"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		for cut := 5; cut < len(raw); cut += len(raw)/37 + 1 {
			if err := os.WriteFile(path, raw[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			store := stores.Store{Location: path, Password: storePassword, KeyPassword: keyPassword}
			if _, err := store.KeyPair(); err == nil {
				t.Errorf("%s cut at %d: a key pair", name, cut)
			}
			if _, err := store.Roots(); err == nil {
				t.Errorf("%s cut at %d: authorities", name, cut)
			}
		}
	}
	// Lengths that promise more than there is must not take memory.
	path := filepath.Join(t.TempDir(), "huge.jks")
	huge := append([]byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a12345678\x00\x00\x00\x01k"), bytes.Repeat([]byte{0xff}, 40)...)
	if err := os.WriteFile(path, huge, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (stores.Store{Location: path}).KeyPair(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}

func TestLiveStoresFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	put := func(from string, at time.Time) {
		t.Helper()
		raw := []byte("broken")
		if from != "" {
			var err error
			if raw, err = os.ReadFile(filepath.Join("testdata", from)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	put("key.jks", now.Add(-time.Hour))
	live, err := stores.Store{Location: path, Password: storePassword, KeyPassword: keyPassword}.LiveKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	at := func(later time.Duration) []byte {
		t.Helper()
		pair, err := live.Current(now.Add(later))
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate[0]
	}
	first := at(0)
	put("key.p12", now)
	if !bytes.Equal(at(time.Second), first) {
		t.Error("the file was looked at again within its pause")
	}
	// PKCS12 has one password; the key's own is not asked.
	second := at(time.Minute)
	if bytes.Equal(second, first) {
		t.Error("the new certificate is not used")
	}
	put("", now.Add(time.Hour))
	if !bytes.Equal(at(2*time.Minute), second) {
		t.Error("a broken file took the certificate away")
	}
}
