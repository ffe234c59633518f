package auth

import (
	"crypto/tls"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Mapping is how the name in a client's certificate becomes a principal
// (ssl.principal.mapping.rules, KIP-371).
type Mapping struct{ rules []mappingRule }

// mappingRule maps names that match; one without a pattern, DEFAULT, takes the name as it is.
type mappingRule struct {
	pattern     *regexp.Regexp
	replacement string
	letters     string // L, U or ""
}

// ParseMapping reads rules, separated by commas: DEFAULT, or RULE:pattern/replacement/[LU].
// The first that matches counts. Patterns are Go's (RE2), which know no look-ahead and no back-references.
func ParseMapping(text string) (*Mapping, error) {
	m := &Mapping{}
	for rest := strings.TrimSpace(text); rest != ""; {
		var one mappingRule
		if after, is := strings.CutPrefix(rest, "DEFAULT"); is {
			rest = after
		} else {
			var err error
			if one, rest, err = parseRule(rest); err != nil {
				return nil, err
			}
		}
		m.rules = append(m.rules, one)
		rest = strings.TrimSpace(rest)
		if rest == "" {
			break
		}
		next, is := strings.CutPrefix(rest, ",")
		if !is {
			return nil, fmt.Errorf("ssl.principal.mapping.rules: %.60q stands where a comma or the end should", rest)
		}
		rest = strings.TrimSpace(next)
	}
	if len(m.rules) == 0 {
		m.rules = []mappingRule{{}}
	}
	return m, nil
}

func parseRule(text string) (one mappingRule, rest string, err error) {
	body, is := strings.CutPrefix(text, "RULE:")
	if !is {
		return one, "", fmt.Errorf("ssl.principal.mapping.rules: %.60q is neither DEFAULT nor RULE:pattern/replacement/[LU]", text)
	}
	pattern, body, ok1 := cutSlash(body)
	replacement, body, ok2 := cutSlash(body)
	if !ok1 || !ok2 || pattern == "" {
		return one, "", fmt.Errorf("ssl.principal.mapping.rules: %.60q is not RULE:pattern/replacement/[LU]", text)
	}
	if one.pattern, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err != nil {
		return one, "", fmt.Errorf("ssl.principal.mapping.rules: %w", err)
	}
	one.replacement = expandable(replacement)
	if body != "" && (body[0] == 'L' || body[0] == 'U') {
		one.letters, body = body[:1], body[1:]
	}
	return one, body, nil
}

// cutSlash cuts at the first slash that no backslash stands before; pairs with a backslash stay as they are.
func cutSlash(text string) (before, after string, found bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '/':
			return strings.ReplaceAll(text[:i], `\/`, "/"), text[i+1:], true
		}
	}
	return "", "", false
}

// expandable turns Java's replacement, $1, into Go's, ${1}: in Go's, $1x is a group named 1x.
func expandable(java string) string {
	var b strings.Builder
	for i := 0; i < len(java); i++ {
		switch c := java[i]; {
		case c == '\\' && i+1 < len(java):
			i++
			if java[i] == '$' {
				b.WriteString("$$")
			} else {
				b.WriteByte(java[i])
			}
		case c == '$' && i+1 < len(java) && java[i+1] >= '0' && java[i+1] <= '9':
			i++
			b.WriteString("${" + java[i:i+1] + "}")
		case c == '$':
			b.WriteString("$$")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Apply maps a distinguished name. That no rule matches is an error: who could be anybody is let in as nobody.
func (m *Mapping) Apply(name string) (string, error) {
	for _, one := range m.rules {
		if one.pattern == nil {
			return name, nil
		}
		if !one.pattern.MatchString(name) {
			continue
		}
		mapped := strings.TrimSpace(one.pattern.ReplaceAllString(name, one.replacement))
		switch one.letters {
		case "L":
			mapped = strings.ToLower(mapped)
		case "U":
			mapped = strings.ToUpper(mapped)
		}
		if mapped == "" {
			return "", errors.New("the rule maps it to nothing")
		}
		return mapped, nil
	}
	return "", errors.New("no rule matches it")
}

// PrincipalOf names who showed a client certificate: User: and the mapped name of its
// subject. "" is for a connection without one.
func (m *Mapping) PrincipalOf(state *tls.ConnectionState) (string, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", nil
	}
	name, err := distinguishedName(state.VerifiedChains[0][0].RawSubject)
	if err != nil {
		return "", fmt.Errorf("read the certificate's subject: %w", err)
	}
	mapped, err := m.Apply(name)
	if err != nil {
		return "", fmt.Errorf("map the certificate's subject %.200q by ssl.principal.mapping.rules: %w", name, err)
	}
	return "User:" + mapped, nil
}

// keywords are the attributes that Java writes by name (RFC 2253, section 2.3); others are numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.6": "C", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is one part of a name, as it stands in the certificate.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeSET is a SET of attributes: encoding/asn1 knows it by this suffix.
type attributeSET []attribute

// distinguishedName writes a subject as Java's X500Principal.getName does: RFC 2253, the last part first.
func distinguishedName(raw []byte) (string, error) {
	var parts []attributeSET
	if rest, err := asn1.Unmarshal(raw, &parts); err != nil {
		return "", err
	} else if len(rest) > 0 {
		return "", errors.New("bytes after it")
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		for n, one := range parts[i] {
			switch {
			case n > 0:
				b.WriteByte('+')
			case b.Len() > 0:
				b.WriteByte(',')
			}
			b.WriteString(one.String())
		}
	}
	return b.String(), nil
}

// String is TYPE=value, or 1.2.3=#hex where type or value have no text of their own.
func (a attribute) String() string {
	name, known := keywords[a.Type.String()]
	text, isText := textOf(a.Value)
	if !known || !isText {
		if !known {
			name = a.Type.String()
		}
		return name + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return name + "=" + escaped(text)
}

func textOf(value asn1.RawValue) (string, bool) {
	switch value.Tag {
	case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagUTF8String, asn1.TagNumericString:
		return string(value.Bytes), utf8.Valid(value.Bytes)
	case asn1.TagT61String:
		runes := make([]rune, len(value.Bytes)) // as Java: Latin-1
		for i, c := range value.Bytes {
			runes[i] = rune(c)
		}
		return string(runes), true
	case asn1.TagBMPString:
		var text string
		_, err := asn1.Unmarshal(value.FullBytes, &text)
		return text, err == nil
	}
	return "", false
}

// escaped is RFC 2253's: separators and quotes anywhere, # in front, blanks at both ends.
func escaped(text string) string {
	var b strings.Builder
	for i, c := range text {
		atEnd := i == 0 || i == len(text)-1 // a blank is one byte long
		if strings.ContainsRune(`,=+<>;"\`, c) || c == '#' && i == 0 || c == ' ' && atEnd {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
