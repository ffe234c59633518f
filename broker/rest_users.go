package broker

import (
	"context"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// restUsers lets REST see and change SCRAM credentials. It implements rest.Users over the answers of the Kafka door.
type restUsers struct{ b *Broker }

// Users implements rest.Users.
func (u *restUsers) Users(ctx context.Context) ([]rest.User, error) {
	answer := u.b.keeper.DescribeUserSCRAMCredentials(ctx, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest())
	var list []rest.User
	for _, result := range answer.Results {
		user := rest.User{Name: result.User}
		for _, info := range result.CredentialInfos {
			mechanism, err := auth.ScramName(info.Mechanism)
			if err != nil {
				return nil, err
			}
			user.Credentials = append(user.Credentials, rest.Credential{Mechanism: mechanism, Iterations: info.Iterations})
		}
		list = append(list, user)
	}
	return list, nil
}

// SetUser implements rest.Users.
func (u *restUsers) SetUser(ctx context.Context, change rest.UserChange) error {
	mechanisms := change.Mechanisms
	if len(mechanisms) == 0 {
		mechanisms = []string{auth.ScramSHA256, auth.ScramSHA512}
	}
	rq := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, mechanism := range mechanisms {
		upsertion, err := auth.NewCredential(change.Name, mechanism, change.Password, change.Iterations)
		if err != nil {
			return err
		}
		rq.Upsertions = append(rq.Upsertions, upsertion)
	}
	return u.alter(ctx, rq)
}

// DeleteUser implements rest.Users.
func (u *restUsers) DeleteUser(ctx context.Context, name string, mechanisms []string) error {
	rq := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, mechanism := range mechanisms {
		number, err := auth.ScramNumber(mechanism)
		if err != nil {
			return err
		}
		deletion := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		deletion.Name, deletion.Mechanism = name, number
		rq.Deletions = append(rq.Deletions, deletion)
	}
	return u.alter(ctx, rq)
}

func (u *restUsers) alter(ctx context.Context, rq *kmsg.AlterUserSCRAMCredentialsRequest) error {
	for _, result := range u.b.keeper.AlterUserSCRAMCredentials(ctx, rq).Results {
		if code := kafka.ErrorCode(result.ErrorCode); code != kafka.None {
			text := code.Error()
			if result.ErrorMessage != nil {
				text = *result.ErrorMessage
			}
			return kafka.Errorf(code, "%s", text)
		}
	}
	return nil
}
