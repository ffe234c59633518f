package config

import (
	"maps"
	"strings"
	"testing"
)

func TestJAASIsReadAsJavaReadsIt(t *testing.T) {
	const plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
	for _, c := range []struct {
		text    string
		options map[string]string
		fault   string
	}{
		{plain + ` required username="u" password="p";`, map[string]string{"username": "u", "password": "p"}, ""},
		{plain + " required\n  username='u'\n  password='a \"b\"; c=d' ;", map[string]string{"username": "u", "password": `a "b"; c=d`}, ""},
		{plain + ` required username="u\"\\\n" password="\101\060x" ;`, map[string]string{"username": "u\"\\\n", "password": "A0x"}, ""},
		{"// who\n" + plain + " /* how */ REQUIRED username=u password=\"\";", map[string]string{"username": "u", "password": ""}, ""},
		{plain + ` required password=";";`, map[string]string{"password": ";"}, ""},
		{"", nil, "empty"},
		{plain + ` username="u";`, nil, "flag"},
		{plain + ` required username="u"`, nil, "semicolon"},
		{plain + ` required username;`, nil, "no value"},
		{plain + ` required username=;`, nil, "no value"},
		{plain + ` required username="u;`, nil, "does not end"},
		{plain + ` required username="u"; ` + plain + ` required;`, nil, "more than one"},
		{plain + ` /* required`, nil, "comment"},
	} {
		l, err := ParseJAAS(c.text)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%q: %v, want a fault about %q", c.text, err, c.fault)
			}
		case err != nil || l.Module != plain || !maps.Equal(l.Options, c.options):
			t.Errorf("%q: %+v %v", c.text, l, err)
		}
	}
}

func FuzzJAAS(f *testing.F) {
	f.Add(`a required b="c\"" d='e';`)
	f.Add(`a/*`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseJAAS(text)
		if err == nil && l.Module == "" {
			t.Error("read a login without a module")
		}
	})
}
