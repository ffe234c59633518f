package cli

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/config"
)

// flow is one direction of MirrorMaker's.
type flow struct{ source, target string }

func (f flow) arrow() string { return f.source + "->" + f.target }

// importMM2 makes a link of each direction that is enabled; with a target, of those that lead to it.
func importMM2(set map[string]string, target string) ([]imported, error) {
	aliases := splitList(set["clusters"])
	flows := enabledFlows(set, aliases)
	if len(flows) == 0 {
		return nil, fmt.Errorf("no direction is enabled. MirrorMaker wants a line such as '%s->%s.enabled = true'", aliases[0],
			aliases[len(aliases)-1])
	}
	targets := map[string]bool{}
	for _, f := range flows {
		targets[f.target] = true
	}
	names := strings.Join(slices.Sorted(maps.Keys(targets)), ", ")
	switch {
	case target == "" && len(targets) > 1:
		return nil, fmt.Errorf("the file copies to several clusters: %s. Links are created on the cluster that is copied to: say "+
			"which of them this is with --target", names)
	case target != "" && !targets[target]:
		return nil, fmt.Errorf("the file copies nothing to %q, only to %s", target, names)
	}
	var links []imported
	for _, f := range flows {
		if target == "" || f.target == target {
			links = append(links, importFlow(set, f))
		}
	}
	return links, nil
}

// enabledFlows is the directions, in the order of the clusters.
func enabledFlows(set map[string]string, aliases []string) []flow {
	var flows []flow
	for _, source := range aliases {
		for _, target := range aliases {
			f := flow{source, target}
			if source != target && strings.EqualFold(strings.TrimSpace(set[f.arrow()+".enabled"]), "true") {
				flows = append(flows, f)
			}
		}
	}
	return flows
}

// importConnector is importMM2 for the configuration of one MirrorSourceConnector in Kafka Connect.
func importConnector(set map[string]string, target string) ([]imported, error) {
	f := flow{orElse(set["source.cluster.alias"], "source"), orElse(set["target.cluster.alias"], "target")}
	if target != "" && target != f.target {
		return nil, fmt.Errorf("the file copies nothing to %q, only to %s", target, f.target)
	}
	flat := map[string]string{"clusters": f.source + "," + f.target}
	for key, value := range set {
		switch {
		case strings.HasPrefix(key, "source.cluster.") && key != "source.cluster.alias":
			flat[f.source+"."+strings.TrimPrefix(key, "source.cluster.")] = value
		case strings.HasPrefix(key, "target.cluster.") || key == "source.cluster.alias":
			flat[f.target+"."+strings.TrimPrefix(key, "target.cluster.")] = value
		default:
			flat[key] = value
		}
	}
	return []imported{importFlow(flat, f)}, nil
}

// mm2 reads the keys of one direction, the nearest spelling first, and remembers which it has read.
type mm2 struct {
	set  map[string]string
	flow flow
	read map[string]bool
	link *imported
}

// get reads a key of the direction: "A->B.topics" before "topics".
func (m *mm2) get(name, otherwise string) string {
	for _, key := range []string{m.flow.arrow() + "." + name, name} {
		m.read[key] = true
	}
	for _, key := range []string{m.flow.arrow() + "." + name, name} {
		if value, is := m.set[key]; is {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

// key is the spelling of a key that the file has.
func (m *mm2) key(name string) string {
	if _, is := m.set[m.flow.arrow()+"."+name]; is {
		return m.flow.arrow() + "." + name
	}
	return name
}

func (m *mm2) is(name string, otherwise bool) bool {
	return strings.EqualFold(m.get(name, strconv.FormatBool(otherwise)), "true")
}

func importFlow(set map[string]string, f flow) imported {
	l := imported{Name: linkNameOf(f.source), Target: f.target, Configs: map[string]string{}, Notes: []importNote{}}
	m := &mm2{set: set, flow: f, read: map[string]bool{"clusters": true, f.arrow() + ".enabled": true}, link: &l}
	m.connection()
	m.naming()
	m.topics()
	m.groups()
	m.rights()
	m.start()
	m.rest()
	slices.SortStableFunc(l.Notes, func(a, b importNote) int { return strings.Compare(a.Key, b.Key) })
	return l
}

// connection takes over how the source is reached: A.bootstrap.servers, A.security.protocol …, and those for all clusters.
func (m *mm2) connection() {
	for key, value := range m.set {
		name, ofSource := strings.CutPrefix(key, m.flow.source+".")
		if !ofSource {
			name = key
			if _, nearer := m.set[m.flow.source+"."+key]; nearer || !strings.HasPrefix(key, "security.") &&
				!strings.HasPrefix(key, "sasl.") && !strings.HasPrefix(key, "ssl.") {
				continue
			}
		}
		for _, role := range []string{"admin.", "consumer."} { // how MirrorMaker's clients of the source are set apart
			if inner, is := strings.CutPrefix(name, role); is && (strings.HasPrefix(inner, "sasl.") || strings.HasPrefix(inner, "ssl.") ||
				strings.HasPrefix(inner, "security.")) {
				name = inner
			}
		}
		if strings.HasPrefix(name, "consumer.") || strings.HasPrefix(name, "producer.") || strings.HasPrefix(name, "admin.") {
			continue // rest says so
		}
		if _, known := config.Link.Key(name); known {
			m.read[key] = true
			m.link.Configs[name] = strings.TrimSpace(value)
		}
	}
	if m.link.Configs["bootstrap.servers"] == "" {
		m.link.note(m.flow.source+".bootstrap.servers", "", "missing: give it with --config bootstrap.servers=HOST:PORT")
	}
}

// naming is what topics are called at the target.
func (m *mm2) naming() {
	class := m.get("replication.policy.class", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy")
	separator := m.get("replication.policy.separator", ".")
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "DefaultReplicationPolicy":
		m.link.Configs["cluster.link.prefix"] = m.flow.source + separator
	case "IdentityReplicationPolicy":
	default:
		m.link.note(m.key("replication.policy.class"), class,
			"this class's names cannot be made here; mirror topics keep their source's names unless --config cluster.link.prefix=… is given")
	}
}

func (m *mm2) topics() {
	m.link.note("topics", "", "a topic that MirrorMaker has made already is an ordinary topic here: a mirror of the same name is "+
		"refused until that is deleted")
	filters, bad := filtersOf(splitList(m.get("topics", ".*")), includes)
	for _, expression := range bad {
		m.link.note(m.key("topics"), expression, "no filter says what this regular expression does: name the topics, or what their "+
			"names begin with, in auto.create.mirror.topics.filters")
	}
	for _, name := range []string{"topics.exclude", "topics.blacklist"} {
		excluded, bad := filtersOf(splitList(m.get(name, "")), excludes)
		filters = append(filters, excluded...)
		for _, expression := range bad {
			m.notExcluded(name, expression, "topic")
		}
	}
	if len(filters) > 0 {
		m.link.Configs["auto.create.mirror.topics.enable"] = "true"
		m.link.Configs["auto.create.mirror.topics.filters"] = filterJSON("topicFilters", filters)
	}
	if seconds := m.get("refresh.topics.interval.seconds", ""); seconds != "" {
		m.link.Configs["auto.create.mirror.topics.interval.ms"] = seconds + "000"
	}
	if !m.is("refresh.topics.enabled", true) {
		m.link.note(m.key("refresh.topics.enabled"), "false", "new topics are looked for; turn auto.create.mirror.topics.enable off "+
			"once the mirrors are there")
	}
	if !m.is("sync.topic.configs.enabled", true) {
		m.link.Configs["topic.config.sync.include"] = "max.message.bytes,cleanup.policy,message.timestamp.type," +
			"message.timestamp.before.max.ms,message.timestamp.after.max.ms"
		m.link.note(m.key("sync.topic.configs.enabled"), "false", "those configs that a byte-for-byte copy needs are synced all the "+
			"same; the others are left to the mirror")
	}
}

// notExcluded says that an exclusion is not carried over, unless it only names what is never mirrored here.
func (m *mm2) notExcluded(name, expression, what string) {
	switch expression {
	case `.*[\-\.]internal`, `.*\.internal`, `.*\.replica`, `__.*`, `_.*`, `mm2-.*`:
		m.link.note(m.key(name), expression, "internal topics are never mirrored by themselves, so this needs no filter")
	default:
		m.link.note(m.key(name), expression, "no EXCLUDE filter says what this regular expression does: name each %s, or what the "+
			"names begin with", what)
	}
}

func (m *mm2) groups() {
	if !m.is("sync.group.offsets.enabled", false) {
		m.get("groups", "")
		m.link.note("sync.group.offsets.enabled", "false", "group offsets are not copied, as the file says or MirrorMaker's default "+
			"does. Offsets are the same on both sides here: --config consumer.offset.sync.enable=true and filters copy them as they are, "+
			"with no translation")
		return
	}
	filters, bad := filtersOf(splitList(m.get("groups", ".*")), includes)
	for _, expression := range bad {
		m.link.note(m.key("groups"), expression, "no filter says what this regular expression does: name the groups, or what their "+
			"names begin with, in consumer.offset.group.filters")
	}
	for _, name := range []string{"groups.exclude", "groups.blacklist"} {
		excluded, bad := filtersOf(splitList(m.get(name, "")), excludes)
		filters = append(filters, excluded...)
		for _, expression := range bad {
			m.notExcluded(name, expression, "group")
		}
	}
	if len(filters) == 0 {
		return
	}
	m.link.Configs["consumer.offset.sync.enable"] = "true"
	m.link.Configs["consumer.offset.group.filters"] = filterJSON("groupFilters", filters)
	if seconds := m.get("sync.group.offsets.interval.seconds", ""); seconds != "" {
		m.link.Configs["consumer.offset.sync.ms"] = seconds + "000"
	}
}

// topicReaders is the ACLs that MirrorMaker copies: those on topics, and of them never the right to write.
const topicReaders = `{"aclFilters":[{"resourceFilter":{"resourceType":"topic","patternType":"any"},` +
	`"accessFilter":{"operation":"read","permissionType":"any"}},` +
	`{"resourceFilter":{"resourceType":"topic","patternType":"any"},"accessFilter":{"operation":"describe","permissionType":"any"}}]}`

func (m *mm2) rights() {
	_, given := m.set[m.key("sync.topic.acls.enabled")]
	switch {
	case m.is("sync.topic.acls.enabled", true) && given:
		m.link.Configs["acl.sync.enable"], m.link.Configs["acl.filters"] = "true", topicReaders
		if seconds := m.get("sync.topic.acls.interval.seconds", ""); seconds != "" {
			m.link.Configs["acl.sync.ms"] = seconds + "000"
		}
		m.link.note(m.key("sync.topic.acls.enabled"), "true", "ACLs that allow or deny to read and describe topics are copied; one "+
			"with the operation ALL is not")
	case !given:
		m.link.note("sync.topic.acls.enabled", "", "MirrorMaker copies ACLs on topics unless it is told not to; here they are not "+
			"copied unless acl.sync.enable and acl.filters say so")
	}
}

func (m *mm2) start() {
	for _, key := range []string{m.flow.source + ".consumer.auto.offset.reset", "consumer.auto.offset.reset",
		m.flow.arrow() + ".consumer.auto.offset.reset"} {
		if m.set[key] == "latest" {
			m.read[key] = true
			m.link.Configs["mirror.start.offset.spec"] = "latest"
		}
	}
}

// whyNot is what MirrorMaker's other keys come to here, by their names or what those begin with.
var whyNot = []struct{ begins, why string }{
	{"tasks.max", "there are no tasks and no Connect workers: a link fetches in its brokers; num.cluster.link.fetchers sets how " +
		"many connections it has to each source broker"},
	{"replication.factor", "a mirror has the replication factor that this cluster gives new topics"},
	{"checkpoints.topic.", "there is no checkpoints topic: offsets are the same on both sides"},
	{"emit.checkpoints.", "there are no checkpoints: offsets are the same on both sides"},
	{"offset-syncs.topic.", "there is no offset-syncs topic: offsets are the same on both sides"},
	{"offset.lag.max", "offsets are the same on both sides: nothing is translated"},
	{"heartbeats.topic.", "there are no heartbeats: a link's state and its lag tell whether it works"},
	{"emit.heartbeats.", "there are no heartbeats: a link's state and its lag tell whether it works"},
	{"emit.offset-syncs.", "offsets are the same on both sides"},
	{"refresh.groups.", "groups are looked for at each sync of offsets"},
	{"config.properties.", "topic.config.sync.include names the topic configs that are synced"},
	{"topic.filter.class", "filters are those of the link"},
	{"group.filter.class", "filters are those of the link"},
	{"config.property.filter.class", "topic.config.sync.include names the topic configs that are synced"},
	{"key.converter", "records are copied as bytes"},
	{"value.converter", "records are copied as bytes"},
	{"header.converter", "records are copied as bytes"},
	{"transforms", "records are copied as bytes: nothing is transformed"},
	{"exactly.once.", "a byte-for-byte copy is exactly once, transactions included"},
	{"forwarding.admin.class", "the link orders in its own cluster"},
	{"dedicated.mode.", "there are no workers"},
	{"connector.class", "there are no connectors"},
	{"name", "there are no connectors"},
	{"status.storage.", "there are no workers"},
	{"config.storage.", "there are no workers"},
	{"offset.storage.", "there are no workers"},
	{"listeners", "there are no workers"},
	{"rest.advertised", "there are no workers"},
	{"consumer.poll.timeout.ms", "links fetch as replicas do, not as consumers"},
	{"consumer.", "links fetch as replicas do, not as consumers: replica.fetch.max.bytes, replica.fetch.wait.max.ms and " +
		"num.cluster.link.fetchers set how"},
	{"producer.", "nothing is produced: batches are appended as they are, with their compression"},
	{"admin.", "this setting of the admin client has no counterpart"},
}

// rest speaks of every line that nothing was made of.
func (m *mm2) rest() {
	for _, key := range slices.Sorted(maps.Keys(m.set)) {
		if m.read[key] || m.elsewhere(key) {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(key, m.flow.arrow()+"."), m.flow.source+".")
		why := "unknown to links"
		for _, row := range whyNot {
			if strings.HasPrefix(name, row.begins) {
				why = row.why
				break
			}
		}
		m.link.note(key, strings.TrimSpace(m.set[key]), "%s", why)
	}
}

// elsewhere reports whether a line is about other clusters than the source, or about another direction.
func (m *mm2) elsewhere(key string) bool {
	if before, _, is := strings.Cut(key, "->"); is {
		return before != m.flow.source || !strings.HasPrefix(key, m.flow.arrow()+".")
	}
	for _, alias := range splitList(m.set["clusters"]) {
		if alias != m.flow.source && strings.HasPrefix(key, alias+".") {
			return true
		}
	}
	return false
}

func splitList(text string) []string {
	var list []string
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ',' && depth <= 0:
			if item := strings.TrimSpace((text + ",")[from:i]); item != "" {
				list = append(list, item)
			}
			from = i + 1
		}
	}
	return list
}

// nameFilter is one filter on names, as links take them.
type nameFilter struct{ name, pattern, kind string }

const (
	includes = "INCLUDE"
	excludes = "EXCLUDE"
)

var (
	plainName  = regexp.MustCompile(`^(?:[A-Za-z0-9_-]|\\?\.)+$`)
	alternates = regexp.MustCompile(`^([^()|]*)\(([^()]*)\)([^()|]*)$`)
)

// filtersOf makes filters of regular expressions; bad is those that no filters can stand for.
func filtersOf(expressions []string, kind string) (filters []nameFilter, bad []string) {
	for _, expression := range expressions {
		made, ok := expand(expression, kind)
		if !ok {
			bad = append(bad, expression)
			continue
		}
		filters = append(filters, made...)
	}
	return filters, bad
}

// expand reads the expressions that people write: .*, a name, a beginning with .* behind it, and a choice of such.
func expand(expression, kind string) ([]nameFilter, bool) {
	expression = strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$")
	var choices []string
	if found := alternates.FindStringSubmatch(expression); found != nil {
		for _, middle := range strings.Split(found[2], "|") {
			choices = append(choices, found[1]+middle+found[3])
		}
	} else {
		choices = strings.Split(expression, "|")
	}
	var filters []nameFilter
	for _, choice := range choices {
		begin, open := strings.CutSuffix(choice, ".*")
		if !open {
			begin, open = strings.CutSuffix(choice, ".+")
		}
		switch {
		case open && begin == "":
			filters = append(filters, nameFilter{"*", "LITERAL", kind})
		case !plainName.MatchString(begin):
			return nil, false
		case open:
			filters = append(filters, nameFilter{strings.ReplaceAll(begin, `\.`, "."), "PREFIXED", kind})
		default:
			filters = append(filters, nameFilter{strings.ReplaceAll(begin, `\.`, "."), "LITERAL", kind})
		}
	}
	return filters, true
}

func filterJSON(list string, filters []nameFilter) string {
	var rows []string
	for _, f := range filters {
		rows = append(rows, fmt.Sprintf(`{"name":%q,"patternType":%q,"filterType":%q}`, f.name, f.pattern, f.kind))
	}
	return fmt.Sprintf(`{"%s":[%s]}`, list, strings.Join(rows, ","))
}
