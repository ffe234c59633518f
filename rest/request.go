package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest/api"
)

// linkNameMax is the longest link name, in characters.
const linkNameMax = 200

// anyLink stands for all links in GET …/links/-/mirrors.
const anyLink = "-"

func escape(name string) string { return url.PathEscape(name) }

// checkPath refuses names in the path that cannot be of anything, before the domain is asked.
func (c *call) checkPath() error {
	if id := c.r.PathValue("cluster_id"); id != "" && id != c.Cluster.ID() {
		return notFound("Cluster %s cannot be found. This cluster is %s: use that id, or the address of the other cluster.", id, c.Cluster.ID())
	}
	if name, ok := c.pathHas("link_name"); ok && !(name == anyLink && c.listsMirrors()) {
		if err := checkLinkName(name); err != nil {
			return err
		}
	}
	for _, key := range []string{"topic_name", "mirror_topic_name"} {
		if name, ok := c.pathHas(key); ok {
			if err := kafka.CheckTopicName(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathHas finds a name in the path, present or empty.
func (c *call) pathHas(key string) (string, bool) {
	return c.r.PathValue(key), strings.Contains(c.r.Pattern, "{"+key+"}")
}

// listsMirrors is the one request in which "-" stands for all links.
func (c *call) listsMirrors() bool {
	return c.r.Pattern == c.prefix+atMirrors && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead)
}

// checkLinkName is the rule for link names: it keeps them apart from all else in a path.
func checkLinkName(name string) error {
	var why string
	switch {
	case name == "":
		why = "it is empty"
	case name == "." || name == ".." || name == anyLink:
		why = fmt.Sprintf("'%s' has a meaning of its own in paths", name)
	case len(name) > linkNameMax:
		why = fmt.Sprintf("it is longer than %d characters", linkNameMax)
	case strings.ContainsFunc(name, notInName):
		why = fmt.Sprintf("'%s' has characters other than ASCII letters, digits, '.', '_' and '-'", name)
	default:
		return nil
	}
	return badRequest("Invalid Cluster Link Name: %s. A link's name is 1 to %d ASCII letters, digits, '.', '_' and '-'.", why, linkNameMax)
}

func notInName(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
}

// queryBool reads a flag of the query; absent is otherwise.
func (c *call) queryBool(name string, otherwise bool) (bool, error) {
	values, ok := c.r.URL.Query()[name]
	if !ok {
		return otherwise, nil
	}
	switch strings.ToLower(values[0]) {
	case "true":
		c.ordered.dryRun = c.ordered.dryRun || name == "validate_only"
		return true, nil
	case "false":
		return false, nil
	}
	return false, badRequest("The query %s is true or false, not '%s'.", name, values[0])
}

// emptyBody says what a request without a body means.
type emptyBody int

const (
	bodyRequired emptyBody = iota
	bodyOptional
)

// body reads the request's JSON into out. Unknown fields are passed over, so that
// newer clients work; a wrong type is refused with the field's name.
func (c *call) body(out any, empty emptyBody) error {
	if err := checkContentType(c.r); err != nil {
		return err
	}
	raw, err := c.readBody()
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return err
		}
		return badRequest("The request body broke off: %v. Send all of it within %v.", err, bodyTime)
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		if empty == bodyOptional {
			return nil
		}
		return badRequest("The request has no body; it takes a JSON object, as /openapi.yaml describes it.")
	}
	c.ordered.note(raw)
	if err := json.Unmarshal(raw, out); err != nil {
		return badJSON(err)
	}
	return nil
}

// bodyTime bounds how long a body may take to arrive; a variable for tests.
var bodyTime = 30 * time.Second

// readBody reads all of the body within bodyTime. Once it is here the deadline is lifted, for the
// server watches the same connection for the caller's hanging up; else it stays, so that the
// server does not wait for the rest either.
func (c *call) readBody() ([]byte, error) {
	connection := http.NewResponseController(c.w)
	timed := connection.SetReadDeadline(time.Now().Add(bodyTime))
	raw, err := io.ReadAll(c.r.Body)
	if err == nil && timed == nil {
		err = connection.SetReadDeadline(time.Time{})
	}
	return raw, err
}

// checkContentType refuses what says of itself that it is not JSON. A browser may send forms and
// plain text across sites without asking, never JSON.
func checkContentType(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(text)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json") && strings.HasPrefix(media, "application/")) {
		return nil
	}
	return &failure{status: 415, code: 415,
		text: fmt.Sprintf("HTTP 415 Unsupported Media Type: the body is '%s'. Send JSON with the header Content-Type: application/json.", text)}
}

func badJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		field := wrong.Field
		if field == "" {
			return badRequest("The request body is a JSON %s; it must be an object.", wrong.Value)
		}
		return badRequest("The field '%s' is a JSON %s; it must be %s.", field, wrong.Value, jsonName(wrong.Type.String()))
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return badRequest("The request body is not JSON: %v at byte %d. Send one JSON object.", syntax, syntax.Offset)
	}
	return badRequest("The request body is not JSON: %v. Send one JSON object.", err)
}

// jsonName says in JSON's words what a Go type is read from.
func jsonName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "an array"
	case goType == "string" || goType == "*string":
		return "a string"
	case goType == "bool":
		return "true or false"
	case goType == "int32" || goType == "*int32":
		return "a whole number of 32 bits"
	case goType == "int64":
		return "a whole number of 64 bits"
	}
	return "an object"
}

// settings makes a map of configs in a request: order means nothing, a null is "not set",
// naming one twice is refused.
func settings(configs []api.ConfigData) (map[string]string, error) {
	set := map[string]string{}
	seen := map[string]bool{}
	for i, cfg := range configs {
		if cfg.Name == "" {
			return nil, badRequest("The field 'configs[%d].name' is missing; it is the name of a config, as \"retention.ms\".", i)
		}
		if seen[cfg.Name] {
			return nil, badRequest("The config '%s' is given twice. Give it once.", cfg.Name)
		}
		seen[cfg.Name] = true
		if cfg.Value != nil {
			set[cfg.Name] = *cfg.Value
		}
	}
	return set, nil
}

// changes reads a batch of changes.
func changes(batch []api.AlterConfig) ([]ConfigChange, error) {
	if batch == nil {
		return nil, badRequest("The field 'data' is missing; it is an array of {\"name\", \"value\", \"operation\"}.")
	}
	var out []ConfigChange
	for i, change := range batch {
		if change.Name == "" {
			return nil, badRequest("The field 'data[%d].name' is missing; it is the name of a config, as \"retention.ms\".", i)
		}
		if slices.ContainsFunc(out, func(c ConfigChange) bool { return c.Name == change.Name }) {
			return nil, badRequest("The config '%s' is given twice. Give it once.", change.Name)
		}
		value, err := changeValue(i, change)
		if err != nil {
			return nil, err
		}
		out = append(out, ConfigChange{Name: change.Name, Value: value})
	}
	return out, nil
}

func changeValue(i int, change api.AlterConfig) (*string, error) {
	operation := api.OperationSet
	if change.Operation != nil {
		operation = *change.Operation
	}
	switch {
	case operation == api.OperationDelete:
		return nil, nil
	case operation != api.OperationSet:
		return nil, badRequest("The field 'data[%d].operation' is '%s'; it must be SET or DELETE.", i, operation)
	case change.Value == nil:
		return nil, badRequest("The field 'data[%d].value' is missing; to put '%s' back to its default use the operation DELETE.", i, change.Name)
	}
	return change.Value, nil
}

// alterRequest reads the body and query of …/configs:alter.
func (c *call) alterRequest() (list []ConfigChange, validateOnly bool, err error) {
	var rq api.AlterConfigsRequest
	if validateOnly, err = c.queryBool("validate_only", false); err != nil {
		return nil, false, err
	}
	if err = c.body(&rq, bodyRequired); err != nil {
		return nil, false, err
	}
	list, err = changes(rq.Data)
	return list, validateOnly || rq.ValidateOnly, err
}

// list wraps resources in the envelope; a nil slice becomes an empty array.
func list[T any](c *call, kind, self string, data []T) error {
	if data == nil {
		data = []T{}
	}
	return c.json(http.StatusOK, api.List[T]{Kind: kind, Metadata: api.ListMetadata{Self: self}, Data: data})
}
