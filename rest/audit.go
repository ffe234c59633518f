package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/rest/api"
)

// orders is what each route that changes something is called in the audit log.
var orders = map[string]string{
	"POST " + atLinks:                    "create-link",
	"DELETE " + atLink:                   "delete-link",
	"PUT " + atLinkConfig:                "alter-link-configs",
	"DELETE " + atLinkConfig:             "alter-link-configs",
	"PUT " + atLink + "/configs:alter":   "alter-link-configs",
	"POST " + atLink + "/configs:alter":  "alter-link-configs",
	"POST " + atMirrors:                  "create-mirror",
	"POST " + atMirror + "/verification": "verify",
	"POST " + atTopics:                   "create-topic",
	"PATCH " + atTopic:                   "add-partitions",
	"DELETE " + atTopic:                  "delete-topic",
	"PUT " + atConfig:                    "alter-topic-configs",
	"DELETE " + atConfig:                 "alter-topic-configs",
	"PUT " + atTopic + "/configs:alter":  "alter-topic-configs", "POST " + atTopic + "/configs:alter": "alter-topic-configs",
	"PUT " + atBroker + "/configs/{config_name}":            "alter-broker-configs",
	"DELETE " + atBroker + "/configs/{config_name}":         "alter-broker-configs",
	"POST " + atBroker + "/configs:alter":                   "alter-broker-configs",
	"PUT " + atCluster + "/broker-configs/{config_name}":    "alter-broker-configs",
	"DELETE " + atCluster + "/broker-configs/{config_name}": "alter-broker-configs",
	"POST " + atCluster + "/broker-configs:alter":           "alter-broker-configs",
	"POST " + atUsers: "set-user", "DELETE " + atUsers + "/{user_name}": "delete-user",
	"POST " + atACLs: "create-acls", "POST " + atACLs + ":batch": "create-acls", "DELETE " + atACLs: "delete-acls",
}

// orderName is the name of a route in the audit log.
func orderName(method, path string) string {
	if name := orders[method+" "+path]; name != "" {
		return name
	}
	if _, verb, ok := strings.Cut(path, "/mirrors:"); ok {
		return verb
	}
	return strings.ToLower(method) + " " + strings.TrimPrefix(path, atCluster)
}

// audit records an order with what came of it. A question is no order.
func (c *call) audit(rt route, failed error) {
	if c.Audit == nil || rt.method == http.MethodGet {
		return
	}
	principal := c.principal
	if c.Access == nil {
		principal = "User:ANONYMOUS" // Kafka's name for who did not log in
	}
	o := event.Order{
		At: time.Now(), Principal: principal, Client: c.r.RemoteAddr, Door: "rest", Verb: orderName(rt.method, rt.path),
		Link: c.r.PathValue("link_name"), Topics: c.ordered.topics, Configs: c.ordered.configs, DryRun: c.ordered.dryRun, Err: c.ordered.failed,
	}
	if c.r.Header.Get(consoleHeader) != "" {
		o.Door = "console"
	}
	if o.Link == "" {
		o.Link = c.r.URL.Query().Get("link_name")
	}
	for _, key := range []string{"topic_name", "mirror_topic_name"} {
		if name := c.r.PathValue(key); name != "" {
			o.Topics = append(o.Topics, name)
		}
	}
	if name := c.r.PathValue("config_name"); name != "" {
		o.Configs = append(o.Configs, name)
	}
	if failed != nil {
		f := failureOf(failed, rt.about)
		o.Err = fmt.Sprintf("%d: %s", f.status, f.text)
	}
	c.Audit(o)
}

// consoleHeader is how the console says of its requests that they are its own.
const consoleHeader = "X-Hawser-Console"

// ordered is what the audit log tells of an order beside who, where and when.
type ordered struct {
	topics, configs []string
	dryRun          bool
	failed          string
}

// orderedMax bounds the names of one entry: an order may name a hundred thousand topics.
const orderedMax = 1000

// note takes from a request's body the names that the audit log tells; values of configs are not for it.
func (o *ordered) note(raw []byte) {
	var body struct {
		Topics  []string         `json:"mirror_topic_names"`
		Pattern string           `json:"mirror_topic_name_pattern"`
		Source  string           `json:"source_topic_name"`
		Mirror  string           `json:"mirror_topic_name"`
		Topic   string           `json:"topic_name"`
		Configs []api.ConfigData `json:"configs"`
		DryRun  bool             `json:"validate_only"`
		Data    []struct {
			Name string `json:"name"`
		} `json:"data"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return // a body that is none is refused, and its error says so
	}
	o.topics = body.Topics
	for _, name := range []string{body.Pattern, body.Topic, body.Mirror, body.Source} {
		if name != "" && !slices.Contains(o.topics, name) {
			o.topics = append(o.topics, name)
		}
	}
	for _, cfg := range body.Configs {
		o.configs = append(o.configs, cfg.Name)
	}
	for _, d := range body.Data {
		if d.Name != "" {
			o.configs = append(o.configs, d.Name)
		}
	}
	o.topics, o.configs = o.topics[:min(len(o.topics), orderedMax)], o.configs[:min(len(o.configs), orderedMax)]
	o.dryRun = o.dryRun || body.DryRun
}

// noteFailures sums up what became of an order to many topics.
func (o *ordered) noteFailures(answers []api.AlteredMirror) {
	bad, first := 0, ""
	for _, answer := range answers {
		if answer.ErrorCode == nil || *answer.ErrorCode == 0 {
			continue
		}
		if bad == 0 && answer.ErrorMessage != nil {
			first = *answer.ErrorMessage
		}
		bad++
	}
	if bad > 0 {
		o.failed = fmt.Sprintf("%d of %d topics refused: %s", bad, len(answers), first)
	}
}
