package config

import (
	"errors"
	"strings"
)

// Login is one entry of a JAAS config.
type Login struct {
	Module  string
	Options map[string]string
}

// ParseJAAS reads sasl.jaas.config as Java's clients do: a login module's class, a control flag,
// key=value options whose values may be quoted with " or ' and hold \ escapes, and a semicolon. Comments are skipped.
// The errors repeat nothing of the text: any part of it may be the password.
func ParseJAAS(text string) (Login, error) {
	tokens, err := jaasTokens(text)
	if err != nil {
		return Login{}, err
	}
	next := func() (token string) {
		if len(tokens) > 0 {
			token, tokens = tokens[0].text, tokens[1:]
		}
		return token
	}
	l := Login{Module: next(), Options: make(map[string]string)}
	if l.Module == "" {
		return l, errors.New("it is empty")
	}
	switch strings.ToLower(next()) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return l, errors.New("after the login module's name a flag such as required is expected")
	}
	for {
		if len(tokens) == 0 {
			return l, errors.New("it does not end in a semicolon")
		}
		if tokens[0].bare(";") {
			if next(); len(tokens) > 0 {
				return l, errors.New("it names more than one login module")
			}
			return l, nil
		}
		key := next()
		if len(tokens) < 2 || !tokens[0].bare("=") || tokens[1].bare(";") {
			return l, errors.New("an option has no value: write key=\"value\"")
		}
		next()
		l.Options[key] = next()
	}
}

type jaasToken struct {
	text   string
	quoted bool
}

func (t jaasToken) bare(text string) bool { return !t.quoted && t.text == text }

func jaasTokens(text string) ([]jaasToken, error) {
	var tokens []jaasToken
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c <= ' ':
			i++
		case c == ';' || c == '=':
			tokens = append(tokens, jaasToken{text: string(c)})
			i++
		case c == '"' || c == '\'':
			value, end, err := jaasQuoted(text, i)
			if err != nil {
				return nil, err
			}
			tokens, i = append(tokens, jaasToken{text: value, quoted: true}), end
		case strings.HasPrefix(text[i:], "//"):
			line, _, _ := strings.Cut(text[i:], "\n")
			i += len(line)
		case strings.HasPrefix(text[i:], "/*"):
			_, rest, ok := strings.Cut(text[i+2:], "*/")
			if !ok {
				return nil, errors.New("a comment does not end")
			}
			i = len(text) - len(rest)
		default:
			end := len(text)
			if n := strings.IndexAny(text[i:], " \t\r\n;=\"'"); n >= 0 {
				end = i + n
			}
			tokens, i = append(tokens, jaasToken{text: text[i:end]}), end
		}
	}
	return tokens, nil
}

// jaasQuoted reads the quoted text that begins at start, with the escapes of Java's StreamTokenizer.
func jaasQuoted(text string, start int) (value string, end int, err error) {
	escapes := map[byte]byte{'a': 7, 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': 11}
	var b strings.Builder
	for i := start + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[start]:
			return b.String(), i + 1, nil
		case c == '\n':
			return "", 0, errors.New("a quoted value does not end on its line")
		case c == '\\' && i+1 < len(text):
			i++
			if octal, width := jaasOctal(text[i:]); width > 0 {
				b.WriteByte(octal)
				i += width - 1
			} else if escaped, ok := escapes[text[i]]; ok {
				b.WriteByte(escaped)
			} else {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errors.New("a quoted value does not end")
}

func jaasOctal(text string) (value byte, width int) {
	n := 0
	for width < len(text) && width < 3 && text[width] >= '0' && text[width] <= '7' && n*8+int(text[width]-'0') < 256 {
		n = n*8 + int(text[width]-'0')
		width++
	}
	return byte(n), width
}
