// Package config is one table of keys for each kind of thing that is configured:
// broker, topic, link. The table gives parser, validation, DescribeConfigs,
// REST, CLI help and docs. It knows no files and no services.
package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Type is how a value is written.
type Type int8

// The types, with the numbers of DescribeConfigs (KIP-569).
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String is Kafka's name of the type.
func (t Type) String() string {
	names := [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if t < 0 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// Key is one row.
type Key struct {
	Name      string
	Type      Type
	Default   string                   // as written; meaningless where Unset
	Unset     bool                     // has no default: null
	Fixed     bool                     // cannot be changed after creation (a link's mode, a broker's listener)
	Sensitive bool                     // never shown: Type Password and the like
	Idle      bool                     // accepted, stored and shown as Kafka's, and without effect here: Doc says why
	Check     func(value string) error // beyond the type; nil for none. Its error says what is allowed
	Allowed   string                   // what Check allows, in words for help and docs; "" for anything of the type
	Doc       string                   // a sentence or two of our own, with the unit
	BrokerKey string                   // for a topic key: the broker key that is its default (synonym), as log.retention.ms; "" for none
}

// Table is the keys of one kind, sorted by name.
type Table struct {
	kind  string // as it stands in messages: topic, broker, link
	keys  []Key
	index map[string]int
	rules []rule
	// base finds the key that a compound name stands for, as a listener's own
	// ssl.keystore.key; nil where the table has no such names.
	base func(name string) string
}

// rule looks at several values together; it is asked only if each by itself is
// well. It returns the key to blame and what is wrong, or "".
type rule func(v Values) (key, fault string)

func newTable(kind string, rows []Key, rules ...rule) *Table {
	t := &Table{kind: kind, keys: rows, index: make(map[string]int, len(rows)), rules: rules}
	slices.SortFunc(t.keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	for i := range t.keys {
		k := &t.keys[i]
		k.Sensitive = k.Sensitive || k.Type == Password
		if _, twice := t.index[k.Name]; twice {
			panic("BUG: config key " + k.Name + " is in the table twice")
		}
		t.index[k.Name] = i
	}
	return t
}

// Tables. Names, types, defaults and allowed values are Kafka's, and
// the vendor's for links. All are ready before main begins and never change.
var (
	Broker = withListeners(newTable("broker", brokerKeys(), brokerRules()...))
	Topic  = newTable("topic", topicKeys(), topicRules()...)
	Link   = newTable("link", linkKeys(), linkRules()...)
	// Group is the configs of a consumer group, ClientMetrics those of a subscription to clients' metrics.
	Group         = newTable("group", groupKeys(), groupRules()...)
	ClientMetrics = newTable("client metrics", clientMetricsKeys())
)

// Kind is what the table is of: broker, topic or link.
func (t *Table) Kind() string { return t.kind }

// Key finds a row.
func (t *Table) Key(name string) (Key, bool) {
	i, ok := t.index[name]
	if !ok && t.base != nil {
		i, ok = t.index[t.base(name)]
	}
	if !ok {
		return Key{}, false
	}
	return t.keys[i], true
}

// KeysOf is all rows, and those that were set for one listener alone under their compound names, by name.
func (t *Table) KeysOf(layers ...map[string]string) []Key {
	all := t.Keys()
	seen := map[string]bool{}
	for _, layer := range layers {
		for name := range layer {
			_, plain := t.index[name]
			if k, ok := t.Key(name); ok && !plain && !seen[name] {
				seen[name], k.Name = true, name
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Keys is all rows, by name.
func (t *Table) Keys() []Key { return slices.Clone(t.keys) }

// CheckOne says what is wrong with one value by itself; nil if nothing is.
func (t *Table) CheckOne(name, value string) error {
	if f := t.checkOne(name, value); f != nil {
		return Faults{*f}
	}
	return nil
}

func (t *Table) checkOne(name, value string) *Fault {
	k, ok := t.Key(name)
	if !ok {
		return &Fault{Key: name, Unknown: true, Text: t.unknown(name)}
	}
	err := k.Type.check(value)
	if err == nil && k.Check != nil {
		err = k.Check(strings.TrimSpace(value))
	}
	if err == nil {
		return nil
	}
	shown := fmt.Sprintf("%.200q", value)
	if k.Sensitive {
		shown = "(hidden)"
	}
	return &Fault{Key: name, Text: fmt.Sprintf("Invalid value %s for configuration %s: %s", shown, name,
		strings.TrimPrefix(err.Error(), name+": "))}
}

func (t *Table) unknown(name string) string {
	if t.kind == "broker" && KafkaOnly(name) {
		return "Config " + name + " of Apache Kafka means nothing here and cannot be set"
	}
	text := fmt.Sprintf("Unknown %s config name: %.200s", t.kind, name)
	if near := t.nearest(name); near != "" {
		return text + " (did you mean " + near + "?)"
	}
	return text + "; docs/config.md lists those there are"
}

// Check says everything that is wrong with the values that were set: unknown
// names (with the nearest known one), wrong types, values not allowed. One error
// lists all faults, a line each; nil if there are none. The error is Faults.
func (t *Table) Check(set map[string]string) error {
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if f := t.checkOne(name, set[name]); f != nil {
			faults = append(faults, *f)
		}
	}
	if len(faults) == 0 {
		v := t.Values(set)
		for _, r := range t.rules {
			if key, text := r(v); text != "" {
				faults = append(faults, Fault{Key: key, Text: text})
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// CheckFixed says which keys differ between what was set before and after
// although they cannot be changed.
func (t *Table) CheckFixed(before, after map[string]string) error {
	old, now := t.Values(before), t.Values(after)
	var faults Faults
	for _, k := range t.keys {
		if !k.Fixed || old.Text(k.Name) == now.Text(k.Name) {
			continue
		}
		faults = append(faults, Fault{Key: k.Name, Text: fmt.Sprintf("Configuration %s cannot be changed after creation: create a new %s",
			k.Name, t.kind)})
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// Fault is one thing that is wrong.
type Fault struct {
	Key     string
	Unknown bool // there is no key of that name
	Text    string
}

// Faults is all that is wrong with a set of values.
type Faults []Fault

// Error is the faults, a line each.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Text
	}
	return strings.Join(lines, "\n")
}
