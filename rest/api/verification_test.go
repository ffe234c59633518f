package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
)

func TestReportsAreSigned(t *testing.T) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	signed, err := SignReport(key, []byte(`{"verdict":"IDENTICAL"}`))
	if err != nil {
		t.Fatal(err)
	}
	text, id, err := CheckReport(signed + "\n")
	if err != nil || string(text) != `{"verdict":"IDENTICAL"}` || id != KeyID(key.Public().(ed25519.PublicKey)) {
		t.Fatalf("check: %q by %s, %v", text, id, err)
	}
	parts := strings.Split(signed, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	for name, bad := range map[string]string{
		"empty":             "",
		"two parts":         parts[0] + "." + parts[1],
		"another text":      parts[0] + "." + b64([]byte(`{"verdict":"EQUIVALENT"}`)) + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"no algorithm":      b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"header not JSON":   b64([]byte(`x`)) + "." + parts[1] + "." + parts[2],
		"not base64":        "*." + parts[1] + "." + parts[2],
		"key without bytes": b64([]byte(`{"alg":"EdDSA","typ":"hawser-verification+json","jwk":{"crv":"Ed25519","kty":"OKP","x":""}}`)) + "." + parts[1] + "." + parts[2],
		"another key's id":  strings.Replace(signed, parts[0], b64([]byte(strings.Replace(string(mustRaw(t, parts[0])), id, "x"+id[1:], 1))), 1),
	} {
		if _, _, err := CheckReport(bad); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}

// TestKeyID is the example of RFC 8037, appendix A.3.
func TestKeyID(t *testing.T) {
	if got := KeyID(mustRaw(t, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("the thumbprint is %s", got)
	}
}

func mustRaw(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
