package meta

import (
	"errors"
	"fmt"
	"io"
	"unique"
)

// hidden is how a secret shows.
const hidden = "****"

// Secret is a sensitive value. It is stored sealed and prints as stars; Reveal
// is the only way to its text.
//
// The text is behind a pointer because fmt prints the fields of unexported
// fields without asking their methods; two secrets are equal if their texts are.
type Secret struct{ text unique.Handle[string] }

// NewSecret wraps a sensitive value.
func NewSecret(text string) Secret { return Secret{unique.Make(text)} }

// Reveal is the text, for whoever must log in with it.
func (s Secret) Reveal() string {
	if s == (Secret{}) {
		return ""
	}
	return s.text.Value()
}

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text from %#v as well.
func (s Secret) GoString() string { return hidden }

// Format hides the text from all other verbs, which would print the field.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the text from encoders, and so from answers and dumps.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText refuses: what an encoder wrote is not the text.
func (s *Secret) UnmarshalText([]byte) error {
	return errors.New("a secret cannot be read back from its shown form")
}
