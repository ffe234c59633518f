package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

func listLinks(c *call) error {
	infos := slices.SortedFunc(slices.Values(c.Links.List()), func(a, b link.Info) int { return cmp.Compare(a.Name, b.Name) })
	var out []api.Link
	for _, info := range infos {
		out = append(out, c.linkJSON(info))
	}
	return list(c, api.KindLinkList, c.self("links"), out)
}

func createLink(c *call) error {
	name := c.r.URL.Query().Get("link_name")
	if !c.r.URL.Query().Has("link_name") {
		return badRequest("The query link_name is missing: it is the new link's name, as in POST %s?link_name=my-link.", c.r.URL.Path)
	}
	if err := checkLinkName(name); err != nil {
		return err
	}
	validate, err := c.queryBool("validate_link", true)
	if err != nil {
		return err
	}
	validateOnly, err := c.queryBool("validate_only", false)
	if err != nil {
		return err
	}
	var rq api.CreateLinkRequest
	if err := c.body(&rq, bodyOptional); err != nil {
		return err
	}
	remote, err := remoteID(rq)
	if err != nil {
		return err
	}
	configs, err := settings(rq.Configs)
	if err != nil {
		return err
	}
	info, err := c.Links.Create(c.r.Context(), link.CreateSpec{
		Name: name, RemoteClusterID: remote, LinkID: rq.ClusterLinkID,
		Configs: configs, Validate: validate, ValidateOnly: validateOnly,
	})
	if err != nil {
		return err
	}
	if validateOnly {
		return c.noContent()
	}
	return c.created(c.self("links", escape(name)), c.linkJSON(info))
}

// remoteID is the other side's cluster id. Clients write it under the name of the role
// that the other side has, or under both; what they agree on is taken.
func remoteID(rq api.CreateLinkRequest) (string, error) {
	remote := ""
	for _, id := range []string{rq.RemoteClusterID, rq.SourceClusterID, rq.DestinationClusterID} {
		if id == "" || id == remote {
			continue
		}
		if remote != "" {
			return "", badRequest("The body names two other clusters, '%s' and '%s'. Give one of source_cluster_id, "+
				"destination_cluster_id and remote_cluster_id.", remote, id)
		}
		remote = id
	}
	return remote, nil
}

func getLink(c *call) error {
	withTasks, err := c.queryBool("include_tasks", false)
	if err != nil {
		return err
	}
	info, err := c.Links.Describe(c.linkName())
	if err != nil {
		return err
	}
	out := c.linkJSON(info)
	if withTasks {
		tasks := tasksJSON(info.Tasks)
		out.Tasks = &tasks
	}
	return c.json(http.StatusOK, out)
}

func deleteLink(c *call) error {
	force, err := c.queryBool("force", false)
	if err != nil {
		return err
	}
	validateOnly, err := c.queryBool("validate_only", false)
	if err != nil {
		return err
	}
	if err := c.Links.Delete(c.r.Context(), c.linkName(), force, validateOnly); err != nil {
		return err
	}
	return c.noContent()
}

// linkName is the link of the path.
func (c *call) linkName() string { return c.r.PathValue("link_name") }

func (c *call) linkJSON(info link.Info) api.Link {
	out := api.Link{
		Kind:             api.KindLink,
		Metadata:         api.Metadata{Self: c.self("links", escape(info.Name))},
		RemoteClusterID:  orNull(info.RemoteClusterID),
		LinkName:         info.Name,
		LinkID:           uuid(info.ID),
		ClusterLinkID:    info.ID,
		TopicNames:       append([]string{}, info.Topics...),
		LinkError:        cmp.Or(info.Err, "NO_ERROR"),
		LinkErrorMessage: &info.ErrText,
		LinkState:        cmp.Or(info.State, "UNKNOWN"),
		CategoryCounts:   []api.CategoryCount{},

		RemoteLinkState: info.RemoteState, RemoteLinkMessage: info.RemoteText,
	}
	slices.Sort(out.TopicNames)
	switch info.Mode {
	case "SOURCE":
		out.DestinationClusterID = out.RemoteClusterID
	case "BIDIRECTIONAL":
	default:
		out.SourceClusterID = out.RemoteClusterID
	}
	for _, category := range []string{"ACTIVE", "IN_ERROR", "NOT_APPLICABLE", "PAUSED", "PENDING"} {
		if n := info.Categories[category]; n > 0 {
			out.CategoryCounts = append(out.CategoryCounts, api.CategoryCount{StateCategory: category, Count: n})
		}
	}
	return out
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// uuid is the older spelling of a link's id: the same 16 bytes in hexadecimal.
func uuid(id string) string {
	raw, err := kafka.ParseTopicID(id)
	if err != nil {
		return id
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[0:4], raw[4:6], raw[6:8], raw[8:10], raw[10:16])
}

func tasksJSON(tasks []link.Task) []api.Task {
	out := []api.Task{}
	for _, task := range tasks {
		out = append(out, api.Task{TaskName: task.Name, State: task.State, Errors: codedJSON(task.Errors)})
	}
	slices.SortFunc(out, func(a, b api.Task) int { return cmp.Compare(a.TaskName, b.TaskName) })
	return out
}

func codedJSON(errs []link.Coded) []api.CodedError {
	out := []api.CodedError{}
	for _, e := range errs {
		out = append(out, api.CodedError{ErrorCode: e.Code, ErrorMessage: e.Text})
	}
	return out
}
