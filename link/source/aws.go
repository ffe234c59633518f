package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
)

// iamMechanism logs in with AWS credentials, found as Amazon's own tools find them: in
// the environment, in the profile's file, from the container or the instance.
func iamMechanism(options map[string]string) (sasl.Mechanism, error) {
	for _, option := range []string{"awsRoleArn", "awsRoleSessionName", "awsStsRegion"} {
		if options[option] != "" {
			return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.jaas.config: %s is not supported", option),
				Hint: "Give the broker the role itself (AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or the instance's profile), or awsProfileName."}
		}
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: options["awsProfileName"]},
		&credentials.IAM{}}
	if options["awsProfileName"] != "" {
		providers = providers[1:2]
	}
	chain := credentials.NewChainCredentials(providers)
	return aws.ManagedStreamingIAM(func(context.Context) (aws.Auth, error) {
		found, err := chain.GetWithContext(nil)
		if err == nil && found.AccessKeyID == "" {
			err = errors.New("there are none")
		}
		if err != nil {
			return aws.Auth{}, &Error{Class: Auth, Err: fmt.Errorf("get AWS credentials: %w", err),
				Hint: "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the broker, or awsProfileName in sasl.jaas.config, or run it with a role."}
		}
		return aws.Auth{AccessKey: found.AccessKeyID, SecretKey: found.SecretAccessKey, SessionToken: found.SessionToken,
			UserAgent: "hawser"}, nil
	}), nil
}
