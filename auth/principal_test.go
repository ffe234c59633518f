package auth

import (
	"encoding/hex"
	"testing"
)

// The subjects were encoded and written by Java 17's X500Principal.
func TestSubjectsAreWrittenAsJavaDoes(t *testing.T) {
	for encoded, want := range map[string]string{
		"3059310b3009060355040613024445310e300c060355040813055374617465310d300b0603550407130443697479310c300a060355040a13034f7267310d300b060355040b130444657074310e300c06035504031305616c696365": "CN=alice,OU=Dept,O=Org,L=City,ST=State,C=DE",
		"304e31133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c65311e300a06035504031303612c623010060a0992268993f22c64010113027531":                       `CN=a\,b+UID=u1,DC=example,DC=org`,
		"3022310a300806035504031301713114301206092a864886f70d01090116057840792e7a":                                                                                                               "1.2.840.113549.1.9.1=#16057840792e7a,CN=q",
		"30143112301006035504030c0923613d623b3c3e225c":                                               `CN=\#a\=b\;\<\>\"\\`,
		"302b31143012060355040a130b74776f2020737061636573311330110603550403130a737061636564206f7574": "CN=spaced out,O=two  spaces",
		"3000": "",
	} {
		raw, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := distinguishedName(raw); err != nil || got != want {
			t.Errorf("%q, %v; Java writes %q", got, err, want)
		}
	}
	for _, bad := range []string{"", "30", "3005310330", "0400", "300000"} {
		raw, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := distinguishedName(raw); err == nil {
			t.Errorf("%s: %q", bad, got)
		}
	}
}

// What Kafka 4.1's SslPrincipalMapper answered; "!" is that no rule matches, or, for us too, that it is refused.
func TestMappingRulesAnswerAsKafkas(t *testing.T) {
	const service, short, lower, duke = "CN=Alice,OU=ServiceUsers,O=Org", "CN=Bob,OU=A,O=O,L=L,ST=S,C=C", "cn=low,o=x", "CN=duke"
	for rules, want := range map[string]map[string]string{
		"":        {service: service, duke: duke},
		"DEFAULT": {service: service, lower: lower},
		"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT":                                                                      {service: "Alice", short: short, duke: duke},
		"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT": {service: "alice", short: "bob@a", lower: "low", duke: "duke"},
		`RULE:^CN=(.*?),.*$/$1\/x/U`:   {service: "ALICE/X", short: "BOB/X", lower: "!", duke: "!"},
		"RULE:alice/x/":                {service: "!", duke: "!"},
		"RULE:^cn=(.*),.*/$1/,DEFAULT": {lower: "low", duke: duke},
		"RULE:^CN=(.*?),OU=A.*$/svc-$1/L, RULE:^CN=([^,]*).*$/$1x/": {short: "svc-bob", duke: "dukex", lower: "!"},
		`RULE:^CN=([^,]*).*$/\$$1/`:                                 {duke: "$duke"},
		"RULE:^CN=(.*)$//":                                          {duke: "!"},
	} {
		m, err := ParseMapping(rules)
		if err != nil {
			t.Errorf("%s: %v", rules, err)
			continue
		}
		for name, mapped := range want {
			got, err := m.Apply(name)
			if mapped == "!" && err == nil || mapped != "!" && (err != nil || got != mapped) {
				t.Errorf("%s of %s: %q, %v; want %q", rules, name, got, err, mapped)
			}
		}
	}
	for _, bad := range []string{"RULE:a", "DEFAULTx", "RULE:^(.*)$/$1/X", "RULE:(/x/", "RULE:a/b", "RULE://x/", "default", "DEFAULT DEFAULT"} {
		if _, err := ParseMapping(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
