package resttest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

// Links is links and mirrors in memory, with just enough of their rules for a door to be tested.
type Links struct {
	mu       sync.Mutex
	links    map[string]*link.Info        // guarded by mu
	configs  map[string]map[string]string // by link; guarded by mu
	mirrors  map[string]*link.MirrorInfo  // by "link/topic"; guarded by mu
	verified map[string]link.Verification // the same
	nowMs    int64

	// Fail, when set, is what the next call of any method answers.
	Fail error
	// AllowNoBootstrap lets links be made that do not dial.
	AllowNoBootstrap bool
	// Made may change a mirror that was just created.
	Made func(*link.MirrorInfo)
	// Open is what each order answers as open transactions.
	Open []link.OpenTransaction
	// Waits is what each order answers that it would wait for.
	Waits []link.Coded
	// Missing is what each order answers as missing rights.
	Missing []link.MissingACL
	// Withdrawn is what each order answers as the pledge that it takes back.
	Withdrawn *link.WithdrawnPledge
	// After is called at the end of each order.
	After func()
	// Ordinary are topics that are no mirrors, which a restore may mean as well.
	Ordinary []string
	// Ordered lists the orders that were carried out, as "promote my-link a,b".
	Ordered []string
}

// NewLinks is no links at all.
func NewLinks() *Links {
	return &Links{links: map[string]*link.Info{}, configs: map[string]map[string]string{}, mirrors: map[string]*link.MirrorInfo{},
		nowMs: 1_700_000_000_000}
}

// linkConfigs is the configs that every link here has; "" is one that is unset.
var linkConfigs = map[string]string{
	"bootstrap.servers": "", "cluster.link.paused": "false", "cluster.link.prefix": "", "consumer.offset.sync.enable": "false",
	"consumer.offset.group.filters": "", "auto.create.mirror.topics.enable": "false", "auto.create.mirror.topics.filters": "",
	"acl.sync.enable": "false", "acl.filters": "", "link.mode": "DESTINATION", "connection.mode": "OUTBOUND",
	"sasl.jaas.config": "", "sasl.mechanism": "GSSAPI", "security.protocol": "PLAINTEXT", "local.listener": "",
	"local.sasl.jaas.config": "", "local.sasl.mechanism": "GSSAPI", "local.security.protocol": "PLAINTEXT",
}

// Put places a link as the test wants it.
func (ls *Links) Put(info link.Info) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if info.ID == "" {
		info.ID = kafka.NewTopicID().String()
	}
	ls.links[info.Name] = &info
}

// PutMirror places a mirror as the test wants it.
func (ls *Links) PutMirror(m link.MirrorInfo) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.mirrors[m.Link+"/"+m.Topic] = &m
}

func (ls *Links) failing() error {
	err := ls.Fail
	ls.Fail = nil
	return err
}

func (ls *Links) find(name string) (*link.Info, error) {
	if info, ok := ls.links[name]; ok {
		return info, nil
	}
	return nil, &link.Error{Kind: link.NotFound, Code: "LINK_NOT_FOUND_ERROR", Text: fmt.Sprintf("Cluster link '%s' does not exist.", name)}
}

// Create makes a link.
func (ls *Links) Create(_ context.Context, spec link.CreateSpec) (link.Info, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return link.Info{}, err
	}
	if _, ok := ls.links[spec.Name]; ok {
		return link.Info{}, &link.Error{Kind: link.Exists, Text: fmt.Sprintf("Cluster link '%s' already exists.", spec.Name)}
	}
	if err := checkLinkConfigs(spec.Configs); err != nil {
		return link.Info{}, err
	}
	if spec.Configs["bootstrap.servers"] == "" && !ls.AllowNoBootstrap {
		return link.Info{}, &link.Error{Kind: link.BadRequest, Text: "bootstrap.servers is missing.", Hint: "Give the source's addresses."}
	}
	info := link.Info{
		Name: spec.Name, ID: kafka.NewTopicID().String(), RemoteClusterID: spec.RemoteClusterID,
		Mode: spec.Configs["link.mode"], State: "ACTIVE", Err: "NO_ERROR",
	}
	if spec.ValidateOnly {
		return info, nil
	}
	ls.links[spec.Name] = &info
	ls.configs[spec.Name] = maps.Clone(spec.Configs)
	return info, nil
}

func checkLinkConfigs(set map[string]string) error {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := linkConfigs[name]; !ok {
			faults = append(faults, fmt.Sprintf("Unknown link config '%s'.", name))
		}
	}
	for enable, filters := range map[string]string{"consumer.offset.sync.enable": "consumer.offset.group.filters",
		"auto.create.mirror.topics.enable": "auto.create.mirror.topics.filters", "acl.sync.enable": "acl.filters"} {
		if set[enable] == "true" && set[filters] == "" {
			faults = append(faults, fmt.Sprintf("%s=true needs %s.", enable, filters))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return &link.Error{Kind: link.BadRequest, Text: strings.Join(faults, "\n")}
}

// Delete removes a link.
func (ls *Links) Delete(_ context.Context, name string, force, validateOnly bool) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return err
	}
	if _, err := ls.find(name); err != nil {
		return err
	}
	var live []string
	for _, m := range ls.mirrors {
		if m.Link == name && m.Status != "STOPPED" {
			live = append(live, m.Topic)
		}
	}
	slices.Sort(live)
	if len(live) > 0 && !force {
		return &link.Error{Kind: link.InUse, Text: fmt.Sprintf("Cluster link '%s' has %d mirror topics that are not stopped: %s.", name,
			len(live), strings.Join(live, ", ")),
			Hint: "Promote, fail over or delete them first."}
	}
	if validateOnly {
		return nil
	}
	delete(ls.links, name)
	delete(ls.configs, name)
	maps.DeleteFunc(ls.mirrors, func(_ string, m *link.MirrorInfo) bool { return m.Link == name })
	return nil
}

// List lists links in no order.
func (ls *Links) List() []link.Info {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var out []link.Info
	for _, info := range ls.links {
		out = append(out, ls.described(*info))
	}
	return out
}

func (ls *Links) described(info link.Info) link.Info {
	info.Topics = slices.Clone(info.Topics)
	for _, m := range ls.mirrors {
		if m.Link == info.Name && !slices.Contains(info.Topics, m.Topic) {
			info.Topics = append(info.Topics, m.Topic)
		}
	}
	return info
}

// Describe finds a link.
func (ls *Links) Describe(name string) (link.Info, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return link.Info{}, err
	}
	info, err := ls.find(name)
	if err != nil {
		return link.Info{}, err
	}
	return ls.described(*info), nil
}

// Configs lists a link's configs in no order. A secret's value comes along, so that a door that shows it is caught.
func (ls *Links) Configs(name string) ([]link.ConfigEntry, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if _, err := ls.find(name); err != nil {
		return nil, err
	}
	var out []link.ConfigEntry
	for key, otherwise := range linkConfigs {
		entry := link.ConfigEntry{Name: key, Default: true, Sensitive: strings.HasSuffix(key, "sasl.jaas.config"), ReadOnly: key == "link.mode"}
		if otherwise != "" {
			entry.Value = &otherwise
		}
		if value, ok := ls.configs[name][key]; ok {
			entry.Value, entry.Default = &value, false
		}
		out = append(out, entry)
	}
	return out, nil
}

// TryConfigs refuses a bootstrap address that is unreachable.example's.
func (ls *Links) TryConfigs(_ context.Context, _ string, changes []link.AlterConfig) error {
	for _, change := range changes {
		if change.Value != nil && strings.HasPrefix(*change.Value, "unreachable.example:") {
			return &link.Error{Kind: link.Unreachable, Text: "Cannot reach the source cluster with these configs.", Hint: "Check the address."}
		}
	}
	return nil
}

// AlterConfigs changes a link's configs.
func (ls *Links) AlterConfigs(_ context.Context, name string, changes []link.AlterConfig, validateOnly bool) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return err
	}
	info, err := ls.find(name)
	if err != nil {
		return err
	}
	set := maps.Clone(ls.configs[name])
	if set == nil {
		set = map[string]string{}
	}
	for _, change := range changes {
		if _, ok := linkConfigs[change.Name]; !ok {
			return &link.Error{Kind: link.BadRequest, Text: fmt.Sprintf("Unknown link config '%s'.", change.Name)}
		}
		if change.Name == "link.mode" {
			return &link.Error{Kind: link.BadRequest, Text: "link.mode of a link cannot be changed.", Hint: "Create a new link."}
		}
		delete(set, change.Name)
		if change.Value != nil {
			set[change.Name] = *change.Value
		}
	}
	if validateOnly {
		return nil
	}
	ls.configs[name] = set
	info.State = "ACTIVE"
	if set["cluster.link.paused"] == "true" {
		info.State = "PAUSED"
	}
	return nil
}

// CreateMirror makes a mirror with two partitions.
func (ls *Links) CreateMirror(_ context.Context, name string, spec link.MirrorSpec) (link.MirrorInfo, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return link.MirrorInfo{}, err
	}
	if _, err := ls.find(name); err != nil {
		return link.MirrorInfo{}, err
	}
	prefix := ls.configs[name]["cluster.link.prefix"]
	topic := spec.MirrorTopic
	if topic == "" && prefix != "" {
		return link.MirrorInfo{}, &link.Error{Kind: link.BadRequest, Text: fmt.Sprintf("The link has the prefix '%s': give both names.", prefix)}
	}
	if topic == "" {
		topic = spec.SourceTopic
	}
	if topic != prefix+spec.SourceTopic {
		return link.MirrorInfo{}, &link.Error{Kind: link.BadRequest, Text: "Topic renaming for mirroring not yet supported."}
	}
	for _, m := range ls.mirrors {
		if m.Topic == topic {
			return link.MirrorInfo{}, &link.Error{Kind: link.Exists, Text: fmt.Sprintf("Topic '%s' already exists.", topic)}
		}
	}
	if spec.ValidateOnly {
		return link.MirrorInfo{Link: name, Topic: topic, SourceTopic: spec.SourceTopic, Partitions: 2}, nil
	}
	m := &link.MirrorInfo{Link: name, Topic: topic, SourceTopic: spec.SourceTopic, Partitions: 2, Status: "ACTIVE", StateMs: ls.nowMs,
		Lags: []link.Lag{{Partition: 1, LastSourceFetch: -1}, {Partition: 0, LastSourceFetch: -1}}}
	if ls.Made != nil {
		ls.Made(m)
	}
	ls.mirrors[name+"/"+topic] = m
	return *m, nil
}

// Mirrors lists mirrors in no order.
func (ls *Links) Mirrors(name, status string) ([]link.MirrorInfo, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return nil, err
	}
	if name != "" {
		if _, err := ls.find(name); err != nil {
			return nil, err
		}
	}
	var out []link.MirrorInfo
	for _, m := range ls.mirrors {
		if (name == "" || m.Link == name) && (status == "" || m.Status == status) {
			out = append(out, *m)
		}
	}
	return out, nil
}

// Mirror finds a mirror.
func (ls *Links) Mirror(name, topic string) (link.MirrorInfo, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return link.MirrorInfo{}, err
	}
	if _, err := ls.find(name); err != nil {
		return link.MirrorInfo{}, err
	}
	m, ok := ls.mirrors[name+"/"+topic]
	if !ok {
		return link.MirrorInfo{}, &link.Error{Kind: link.NotFound, Code: "UNKNOWN_TOPIC_OR_PARTITION_ERROR",
			Text: fmt.Sprintf("Topic '%s' is not a mirror topic of cluster link '%s'.", topic, name)}
	}
	return *m, nil
}

// Verify begins a verification, which is over at the next look.
func (ls *Links) Verify(name, topic string) (link.Verification, error) {
	m, err := ls.Mirror(name, topic)
	if err != nil {
		return link.Verification{}, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v := link.Verification{Link: name, Topic: topic, SourceTopic: m.SourceTopic, Started: time.UnixMilli(1_000_000), Verdict: link.Identical,
		Partitions: []link.VerifiedPart{{From: 0, To: 10, At: 10, Verdict: link.Identical, Batches: 2, Bytes: 200, SHA256: "00"}}}
	if ls.verified == nil {
		ls.verified = map[string]link.Verification{}
	}
	done := v
	done.Finished = time.UnixMilli(2_000_000)
	if done.Signed, err = api.SignReport(reportKey, []byte(`{"mirror_topic":"`+topic+`"}`)); err != nil {
		return v, err
	}
	ls.verified[name+"/"+topic] = done
	return v, nil
}

// Verification is the last one.
func (ls *Links) Verification(name, topic string) (link.Verification, error) {
	if _, err := ls.Mirror(name, topic); err != nil {
		return link.Verification{}, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v, is := ls.verified[name+"/"+topic]
	if !is {
		return v, &link.Error{Kind: link.NotFound, Text: fmt.Sprintf("Mirror topic '%s' was not verified since the broker started.", topic)}
	}
	return v, nil
}

// after is the status that a verb leads to.
var after = map[link.Verb]string{link.Promote: "STOPPED", link.Failover: "STOPPED", link.Pause: "PAUSED", link.Resume: "ACTIVE",
	link.ReverseAndStart: "PENDING_SYNCHRONIZE", link.ReverseAndPause: "PENDING_SYNCHRONIZE",
	link.TruncateAndRestore: "PENDING_SETUP_FOR_RESTORE"}

// Order carries out a verb.
func (ls *Links) Order(_ context.Context, name string, verb link.Verb, topics []string, pattern string,
	validateOnly bool) ([]link.Outcome, error) {
	if ls.After != nil {
		defer ls.After() // with ls.mu free again
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err := ls.failing(); err != nil {
		return nil, err
	}
	if _, err := ls.find(name); err != nil {
		return nil, err
	}
	if pattern != "" {
		asked := topics
		topics = slices.DeleteFunc(ls.matching(name, verb, pattern), func(topic string) bool {
			return len(asked) > 0 &&
				!slices.Contains(asked, topic)
		})
	}
	var out []link.Outcome
	for _, topic := range topics {
		out = append(out, ls.orderOne(name, verb, topic, validateOnly))
	}
	if !validateOnly {
		ls.Ordered = append(ls.Ordered, fmt.Sprintf("%s %s %s", verb, name, strings.Join(topics, ",")))
	}
	return out, nil
}

// Matching lists what a pattern means: mirrors, and in a restore the ordinary topics as well.
func (ls *Links) Matching(name string, verb link.Verb, pattern string) ([]string, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, err := ls.find(name)
	return ls.matching(name, verb, pattern), err
}

func (ls *Links) matching(name string, verb link.Verb, pattern string) []string {
	whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	var topics []string
	for _, m := range ls.mirrors {
		if m.Link == name && whole.MatchString(m.Topic) {
			topics = append(topics, m.Topic)
		}
	}
	if verb == link.TruncateAndRestore || verb == link.TruncateAndRestorePaused {
		topics = append(topics, slices.DeleteFunc(slices.Clone(ls.Ordinary), func(topic string) bool { return !whole.MatchString(topic) })...)
	}
	slices.Sort(topics)
	return topics
}

func (ls *Links) orderOne(name string, verb link.Verb, topic string, validateOnly bool) link.Outcome {
	m, ok := ls.mirrors[name+"/"+topic]
	if !ok && slices.Contains(ls.Ordinary, topic) && verb == link.TruncateAndRestore {
		return link.Outcome{Topic: topic}
	}
	if !ok {
		return link.Outcome{Topic: topic, Code: 404, Text: fmt.Sprintf("Topic '%s' is not a mirror topic of cluster link '%s'.", topic, name)}
	}
	if m.Status == "STOPPED" && verb != link.TruncateAndRestore {
		already := verb == link.Promote || verb == link.Failover
		return link.Outcome{Topic: topic, Code: 400, Text: fmt.Sprintf("Topic '%s' has already stopped its mirror from '%s'", topic,
			name), Lags: m.Lags, Already: already}
	}
	out := link.Outcome{Topic: topic, Lags: m.Lags, Waits: ls.Waits, Open: ls.Open, Missing: ls.Missing, Withdrawn: ls.Withdrawn}
	if verb == link.TruncateAndRestore {
		total := int64(7)
		out.Truncated = &total
		out.Parts = []link.Truncation{{Partition: 1, TruncatedTo: 90, Records: 4}, {Partition: 0, TruncatedTo: 100, Records: 3}}
		out.Groups = []link.GroupCut{{Group: "billing", Partition: 0, From: 103, To: 100}}
	}
	if !validateOnly {
		m.Status = after[verb]
		m.StateMs = ls.nowMs + 1
	}
	return out
}
