package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// Configs lists all of a link's configs, by name. Sensitive values never come out.
func (ls *Links) Configs(name string) ([]ConfigEntry, error) {
	_, rec, err := ls.named(name)
	if err != nil {
		return nil, err
	}
	var list []ConfigEntry
	for _, key := range config.Link.Keys() {
		e := ConfigEntry{Name: key.Name, Default: true, ReadOnly: key.Fixed, Sensitive: key.Sensitive}
		value, set := rec.Configs[key.Name]
		_, secret := rec.Secrets[key.Name]
		e.Default = !set && !secret
		switch {
		case key.Sensitive:
		case set:
			e.Value = &value
		case !key.Unset:
			fallback := key.Default
			e.Value = &fallback
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b ConfigEntry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// AlterConfigs changes a live link's configs: all or none. The running link takes them over at once.
func (ls *Links) AlterConfigs(ctx context.Context, name string, changes []AlterConfig, validateOnly bool) error {
	_, rec, err := ls.named(name)
	if err != nil {
		return err
	}
	if _, err := altered(rec, changes); err != nil {
		return err
	}
	if validateOnly || len(changes) == 0 {
		return nil
	}
	err = ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		now := img.Links[rec.ID]
		if now == nil {
			return nil, noLink(name)
		}
		next, err := altered(now, changes)
		if err != nil {
			return nil, err
		}
		return []meta.Change{meta.PutLink(next)}, nil
	})
	if err != nil {
		return internal("store the link's configs", err)
	}
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Name
	}
	ls.env.Events.Emit(event.LinkConfigsChanged{Link: name, Names: names})
	if r := ls.runningOf(rec.ID); r != nil {
		r.hurry()
	}
	return nil
}

// TryConfigs reaches the other cluster as the link would with changes to its configs, and changes nothing: an address or a password
// with a slip in it stops a link that works. Only changes of how it is reached are tried, of a half that dials.
func (ls *Links) TryConfigs(ctx context.Context, name string, changes []AlterConfig) error {
	_, rec, err := ls.named(name)
	if err != nil {
		return err
	}
	next, err := altered(rec, changes)
	if err != nil {
		return err
	}
	before, after := all(rec), all(next)
	if orDefault(after, keyConnection, peer.Outbound) == peer.Inbound || sameWay(before, after) {
		return nil
	}
	set, err := readSettings(name, after)
	if err != nil {
		return badRequest("%v.", err)
	}
	set.source.Logger = ls.env.Logger
	src, err := ls.env.Dial(set.source)
	if err != nil {
		return unreachable("use the link's configs", err)
	}
	defer src.Close()
	ctx, cancel := context.WithTimeout(ctx, reachMax)
	defer cancel()
	answer, err := src.Probe(ctx)
	switch {
	case err != nil:
		return unreachable("reach the source cluster with these configs", err)
	case answer.ClusterID == ls.env.Metadata.Image().Cluster.ID:
		return unreachable("change the link", selfLink(answer.ClusterID))
	case rec.RemoteClusterID != "" && answer.ClusterID != rec.RemoteClusterID:
		return unreachable("change the link", wrongCluster(rec.RemoteClusterID, answer.ClusterID))
	}
	return eachBroker(ctx, src, answer)
}

// sameWay reports that two sets of configs lead to the other cluster in the same way.
func sameWay(a, b map[string]string) bool {
	leads := func(name string) bool {
		return name == keyBootstrap || name == keyAddressMap || strings.HasPrefix(name, "security.") ||
			strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "ssl.")
	}
	differs := func(a, b map[string]string) bool {
		for name, value := range a {
			if other, is := b[name]; leads(name) && (!is || other != value) {
				return true
			}
		}
		return false
	}
	return !differs(a, b) && !differs(b, a)
}

// altered is the record with changes, or every fault of them in one error.
func altered(rec *meta.Link, changes []AlterConfig) (*meta.Link, error) {
	set := all(rec)
	var faults []error
	for _, c := range changes {
		name := c.Name
		if name == keyPrefixAlias {
			name = keyPrefix
		}
		key, is := config.Link.Key(name)
		if is && key.Fixed && !sameValue(set[name], c.Value, key) {
			faults = append(faults, fmt.Errorf("%s cannot be changed on a link: create a new link", c.Name))
			continue
		}
		if c.Value == nil {
			if !is {
				faults = append(faults, config.Link.Check(map[string]string{c.Name: ""}))
			}
			delete(set, name)
			continue
		}
		set[name] = *c.Value
	}
	clearFilters(set, changes)
	checked := config.Link.Check(set)
	faults = append(faults, checked, checkMode(set))
	if checked == nil {
		_, err := readSettings(rec.Name, set)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &Error{Kind: BadRequest, Code: string(mirror.InvalidRequest), Text: err.Error()}
	}
	next := *rec
	next.Configs, next.Secrets = split(set)
	return &next, nil
}

// sameValue reports whether a change of a fixed config changes nothing: clients send whole files.
func sameValue(now string, want *string, key config.Key) bool {
	if now == "" {
		now = key.Default
	}
	return want != nil && *want == now || want == nil && now == key.Default
}

// clearFilters drops the filters of features that a change turns off.
func clearFilters(set map[string]string, changes []AlterConfig) {
	for _, f := range features {
		for _, c := range changes {
			if c.Name == f.enable && (c.Value == nil || !isTrue(*c.Value)) {
				delete(set, f.filters)
			}
		}
	}
}

// CheckConfigChange refuses a change of synced configs of a live mirror, naming them.
func (ls *Links) CheckConfigChange(topic string, names []string) error {
	img := ls.env.Metadata.Image()
	rec := img.Mirrors[img.TopicIDs[topic]]
	if rec == nil || img.TopicIDs[topic] != rec.Topic || !newTopicMirror(rec, nil).state.Live() {
		return nil
	}
	link := img.Links[rec.Link]
	if link == nil {
		return nil
	}
	var include []string
	if set, err := readSettings(link.Name, all(link)); err == nil {
		include = set.include
	}
	hit := plan.SyncedAmong(names, include)
	if len(hit) == 0 {
		return nil
	}
	return &Error{
		Kind: BadRequest, Code: string(mirror.InvalidRequest),
		Text: fmt.Sprintf("Cannot modify mirror topic %s because '%s' are set to always sync.", topic, strings.Join(hit, ",")),
		Hint: "They follow the source topic: change them there, or leave those that may be out of " + keyConfigInclude + " on the link.",
	}
}
