package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// modules is which login module goes with a mechanism.
var modules = map[string]string{
	"PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule",
	"OAUTHBEARER": "OAuthBearerLoginModule", "AWS_MSK_IAM": "IAMLoginModule",
}

// mechanism is how to log in, nil for not at all.
func (s Security) mechanism() (sasl.Mechanism, error) {
	_, withSASL, err := s.protocol()
	if err != nil || !withSASL {
		return nil, err
	}
	name := strings.ToUpper(s.Mechanism)
	wanted, known := modules[name]
	if !known {
		return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.mechanism %q is not supported", s.Mechanism),
			Hint: "Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM."}
	}
	var login config.Login
	if s.JAAS != "" || name != "OAUTHBEARER" && name != "AWS_MSK_IAM" {
		if login, err = config.ParseJAAS(s.JAAS); err != nil {
			return nil, &Error{Class: Auth, Err: fmt.Errorf("read sasl.jaas.config: %w", err),
				Hint: `Write it as Java clients do: org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";`}
		}
		if !strings.HasSuffix(login.Module, wanted) {
			return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.mechanism %s needs %s, but sasl.jaas.config names another login module",
				name, wanted), Hint: hints[Auth]}
		}
	}
	switch name {
	case "OAUTHBEARER":
		return bearerMechanism(s.OAuth, login.Options)
	case "AWS_MSK_IAM":
		return iamMechanism(login.Options)
	}
	user, pass := login.Options["username"], login.Options["password"]
	if user == "" {
		return nil, &Error{Class: Auth, Err: errors.New("sasl.jaas.config names no username"), Hint: hints[Auth]}
	}
	token := scram.Auth{User: user, Pass: pass, IsToken: strings.EqualFold(login.Options["tokenauth"], "true")}
	switch name {
	case "SCRAM-SHA-256":
		return token.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return token.AsSha512Mechanism(), nil
	}
	return plain.Auth{User: user, Pass: pass}.AsMechanism(), nil
}
