package meta

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// signingKey makes the key for reports of the one that seals secrets: every broker of a cluster signs alike, and
// nothing more is to be kept or lost.
func signingKey(sealing []byte) (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, sealing, nil, "hawser: reports of verifications", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key that signs reports: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// SigningKey signs the cluster's reports. It changes with the key file.
func (m *Meta) SigningKey() ed25519.PrivateKey { return m.sealer.signing }
