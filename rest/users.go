package rest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/hawserio/hawser/rest/api"
)

// defaultIterations is how often a password is hashed where the request does not say.
const defaultIterations = 8192

func listUsers(c *call) error {
	users, err := c.Users.Users(c.r.Context())
	if err != nil {
		return err
	}
	slices.SortFunc(users, func(a, b User) int { return cmp.Compare(a.Name, b.Name) })
	var out []api.User
	for _, u := range users {
		out = append(out, c.userJSON(u))
	}
	return list(c, api.KindUserList, c.self("users"), out)
}

func getUser(c *call) error {
	u, err := c.user(c.r.PathValue("user_name"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.userJSON(u))
}

func (c *call) user(name string) (User, error) {
	users, err := c.Users.Users(c.r.Context())
	if err != nil {
		return User{}, err
	}
	for _, u := range users {
		if u.Name == name {
			return u, nil
		}
	}
	return User{}, notFound("User '%s' has no SCRAM credentials. GET …/users lists who has; users of sasl.jaas.config are not "+
		"among them.", name)
}

// setUser makes a user, or gives one another password.
func setUser(c *call) error {
	var rq api.SetUserRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	switch {
	case rq.UserName == "":
		return badRequest("The field 'user_name' is missing; it is whom the password is for.")
	case rq.Password == "":
		return badRequest("The field 'password' is missing; to take a user's credentials away use DELETE.")
	}
	change := UserChange{Name: rq.UserName, Password: rq.Password, Iterations: defaultIterations}
	if rq.Iterations != nil {
		change.Iterations = *rq.Iterations
	}
	for _, mechanism := range rq.Mechanisms {
		change.Mechanisms = append(change.Mechanisms, strings.ToUpper(mechanism))
	}
	if err := c.Users.SetUser(c.r.Context(), change); err != nil {
		return err
	}
	u, err := c.user(rq.UserName)
	if err != nil {
		return err
	}
	return c.created(c.self("users", escape(u.Name)), c.userJSON(u))
}

func deleteUser(c *call) error {
	u, err := c.user(c.r.PathValue("user_name"))
	if err != nil {
		return err
	}
	var mechanisms []string
	wanted := strings.ToUpper(c.r.URL.Query().Get("mechanism"))
	for _, credential := range u.Credentials {
		if wanted == "" || credential.Mechanism == wanted {
			mechanisms = append(mechanisms, credential.Mechanism)
		}
	}
	if len(mechanisms) == 0 {
		return notFound("User '%s' has no credentials for %s. GET …/users/%s lists those there are.", u.Name, wanted, escape(u.Name))
	}
	if err := c.Users.DeleteUser(c.r.Context(), u.Name, mechanisms); err != nil {
		return err
	}
	return c.noContent()
}

func (c *call) userJSON(u User) api.User {
	out := api.User{Kind: api.KindUser, Metadata: c.metadata(c.self("users", escape(u.Name)), "/user="+u.Name),
		ClusterID: c.Cluster.ID(), UserName: u.Name, Credentials: []api.Credential{}}
	for _, credential := range u.Credentials {
		out.Credentials = append(out.Credentials, api.Credential{Mechanism: credential.Mechanism, Iterations: credential.Iterations})
	}
	return out
}
