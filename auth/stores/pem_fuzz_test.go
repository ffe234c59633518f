package stores

import "testing"

func FuzzPEM(f *testing.F) {
	f.Add("-----BEGIN X-----\nAAAA\n-----END X-----")
	f.Add("-----BEGIN ")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = readPEM(text)
	})
}

func FuzzJKS(f *testing.F) {
	f.Add([]byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01a12345678\x00\x05X.509\x00\x00\x00\x01012345678901234567890"))
	f.Add([]byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a12345678\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if formatOf(raw) == jks && checkJKS(raw) == nil {
			_, _ = Store{Password: "secret"}.loadJKS(raw)
		}
	})
}
