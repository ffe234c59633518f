package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hawserio/hawser/rest/api"
)

// EveryBroker stands for the defaults of all brokers in place of one broker's id.
const EveryBroker = int32(-1)

func brokerConfigsPath(broker int32, end string) []string {
	if broker == EveryBroker {
		return []string{"broker-configs" + end}
	}
	return []string{"brokers", strconv.Itoa(int(broker)), "configs" + end}
}

// BrokerConfigs lists all configs of a broker, or those that were set for EveryBroker; BrokerID is then that number.
func (c *Client) BrokerConfigs(ctx context.Context, broker int32) ([]api.BrokerConfig, error) {
	var out api.List[api.BrokerConfig]
	err := c.do(ctx, request{method: http.MethodGet, path: brokerConfigsPath(broker, "")}, &out)
	if broker == EveryBroker {
		for i := range out.Data {
			out.Data[i].BrokerID = EveryBroker
		}
	}
	return out.Data, err
}

// AlterBrokerConfigs changes configs of a broker, or of EveryBroker, all or none.
func (c *Client) AlterBrokerConfigs(ctx context.Context, broker int32, changes []api.AlterConfig, mode Mode) error {
	return c.do(ctx, request{method: http.MethodPost, path: brokerConfigsPath(broker, ":alter"), query: mode.query(),
		body: api.AlterConfigsRequest{Data: changes}}, nil)
}

// Users lists the users with SCRAM credentials.
func (c *Client) Users(ctx context.Context) ([]api.User, error) {
	var out api.List[api.User]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"users"}}, &out)
	return out.Data, err
}

// SetUser makes a user, or gives one another password.
func (c *Client) SetUser(ctx context.Context, body api.SetUserRequest) (api.User, error) {
	var out api.User
	err := c.do(ctx, request{method: http.MethodPost, path: []string{"users"}, body: body}, &out)
	return out, err
}

// DeleteUser takes a user's credentials away, all of them where mechanism is empty.
func (c *Client) DeleteUser(ctx context.Context, name, mechanism string) error {
	query := url.Values{}
	if mechanism != "" {
		query.Set("mechanism", mechanism)
	}
	return c.do(ctx, request{method: http.MethodDelete, path: []string{"users", url.PathEscape(name)}, query: query}, nil)
}

// Assignments lists the partitions that a member of a group owns.
func (c *Client) Assignments(ctx context.Context, group, member string) ([]api.Assignment, error) {
	var out api.List[api.Assignment]
	err := c.do(ctx, request{method: http.MethodGet, path: groupPath(group, "consumers", url.PathEscape(member), "assignments")}, &out)
	return out.Data, err
}
