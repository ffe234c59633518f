package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// KindVerification is the kind of a verification.
const KindVerification = "KafkaMirrorVerification"

// Verification compares a mirror with its source: a kind of hawser's own.
type Verification struct {
	Kind       string                  `json:"kind"`
	Metadata   Metadata                `json:"metadata"`
	LinkName   string                  `json:"link_name"`
	MirrorName string                  `json:"mirror_topic_name"`
	SourceName string                  `json:"source_topic_name"`
	Started    string                  `json:"started"`  // RFC 3339
	Finished   *string                 `json:"finished"` // null while it runs
	Verdict    string                  `json:"verdict"`  // INCOMPLETE while it runs
	Partitions []VerificationPartition `json:"partitions"`
	// SignedReport is the result as a JSON Web Signature in compact form (RFC 7515, EdDSA), which CheckReport reads; "" while it runs.
	SignedReport string `json:"signed_report"`
}

// KindReportKey is the kind of a report key.
const KindReportKey = "KafkaReportKey"

// ReportKey is the public key that checks the signatures of a cluster's reports.
type ReportKey struct {
	Kind      string   `json:"kind"`
	Metadata  Metadata `json:"metadata"`
	KeyID     string   `json:"key_id"` // thumbprint, RFC 7638
	Algorithm string   `json:"algorithm"`
	PublicKey string   `json:"public_key"` // base64url, RFC 8037
}

// VerificationPartition is one partition's part of a verification.
type VerificationPartition struct {
	PartitionID      int32                    `json:"partition_id"`
	From             int64                    `json:"from_offset"` // the first compared
	To               int64                    `json:"to_offset"`   // exclusive
	At               int64                    `json:"at_offset"`   // how far it has come, exclusive
	Verdict          string                   `json:"verdict"`
	IdenticalBatches int64                    `json:"identical_batches"`
	IdenticalBytes   int64                    `json:"identical_bytes"`
	SHA256           string                   `json:"sha256"` // of the identical batches, in order
	RecordsCompared  int64                    `json:"records_compared"`
	RecordsExplained int64                    `json:"records_explained"`
	Differences      int64                    `json:"differences"`
	FirstDifferences []VerificationDifference `json:"first_differences"`
	ErrorMessage     string                   `json:"error_message"`
}

// VerificationDifference is a place where mirror and source part.
type VerificationDifference struct {
	Offset int64  `json:"offset"`
	Why    string `json:"why"`
}

// Verdicts is the closed list of verdicts, best first.
var Verdicts = []string{"IDENTICAL", "EQUIVALENT", "INCOMPLETE", "DIFFERENT"}

type reportHeader struct {
	Algorithm string    `json:"alg"`
	Type      string    `json:"typ"`
	KeyID     string    `json:"kid"`
	Key       reportKey `json:"jwk"`
}

// reportKey is a public key as RFC 8037 writes it. The order of its fields is that of RFC 7638.
type reportKey struct {
	Curve string `json:"crv"`
	Type  string `json:"kty"`
	X     string `json:"x"`
}

const (
	reportAlgorithm = "EdDSA"
	reportType      = "hawser-verification+json"
	// reportMax bounds a report that is read, in bytes.
	reportMax = 64 << 20
)

var raw64 = base64.RawURLEncoding

func keyOf(public ed25519.PublicKey) (reportKey, string) {
	key := reportKey{"Ed25519", "OKP", raw64.EncodeToString(public)}
	return key, KeyID(public)
}

// KeyID names a public key: its thumbprint as in RFC 7638.
func KeyID(public ed25519.PublicKey) string {
	text, err := json.Marshal(reportKey{"Ed25519", "OKP", raw64.EncodeToString(public)})
	if err != nil {
		panic("BUG: three strings cannot fail to marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return raw64.EncodeToString(sum[:])
}

// SignReport signs a text as a JWS in compact form, with the public key in its header.
func SignReport(key ed25519.PrivateKey, text []byte) (string, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("the key for reports is no Ed25519 key")
	}
	jwk, id := keyOf(public)
	header, err := json.Marshal(reportHeader{reportAlgorithm, reportType, id, jwk})
	if err != nil {
		return "", fmt.Errorf("sign a report: %w", err)
	}
	signed := raw64.EncodeToString(header) + "." + raw64.EncodeToString(text)
	return signed + "." + raw64.EncodeToString(ed25519.Sign(key, []byte(signed))), nil
}

// CheckReport gives the text of a signed report and the id of the key that signed it. It trusts the key in the report: whoever
// reads it compares the id with the cluster's.
func CheckReport(report string) (text []byte, keyID string, err error) {
	if len(report) > reportMax {
		return nil, "", fmt.Errorf("the report has %d bytes, more than %d", len(report), reportMax)
	}
	parts := strings.Split(strings.TrimSpace(report), ".")
	if len(parts) != 3 {
		return nil, "", errors.New("this is no signed report: it is to be three parts with dots between")
	}
	var decoded [3][]byte
	for i, part := range parts {
		if decoded[i], err = raw64.DecodeString(part); err != nil {
			return nil, "", fmt.Errorf("this is no signed report: part %d is not in base64url: %w", i+1, err)
		}
	}
	var header reportHeader
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return nil, "", fmt.Errorf("this is no signed report: its header is not JSON: %w", err)
	}
	if header.Algorithm != reportAlgorithm || header.Type != reportType || header.Key.Curve != "Ed25519" || header.Key.Type != "OKP" {
		return nil, "", fmt.Errorf("this is no report of hawser's: it says alg %q, typ %q, kty %q", header.Algorithm, header.Type,
			header.Key.Type)
	}
	public, err := raw64.DecodeString(header.Key.X)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return nil, "", errors.New("the report's public key is not one")
	}
	if id := KeyID(public); id != header.KeyID {
		return nil, "", fmt.Errorf("the report says that key %q signed it, but holds key %q", header.KeyID, id)
	}
	if !ed25519.Verify(public, []byte(parts[0]+"."+parts[1]), decoded[2]) {
		return nil, "", errors.New("the signature does not fit: the report was changed after it was signed")
	}
	return decoded[1], header.KeyID, nil
}
