package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// reachMax bounds reaching a source while somebody waits for the answer.
const reachMax = 12 * time.Second

// Create makes a link. All that is wrong with the order is said in one error; then, unless it was not
// wanted, the source is asked who it is and every broker that it advertises is tried.
func (ls *Links) Create(ctx context.Context, spec CreateSpec) (Info, error) {
	set, err := checkSpec(spec)
	if err != nil {
		return Info{}, err
	}
	if err := free(ls.env.Metadata.Image(), spec.Name, kafka.TopicID{}, prefixOf(set)); err != nil {
		return Info{}, err
	}
	deal, err := ls.agree(ctx, spec, set)
	if err != nil {
		return Info{}, err
	}
	img := ls.env.Metadata.Image()
	if err := free(img, spec.Name, deal.id, prefixOf(set)); err != nil {
		return Info{}, err
	}
	rec := &meta.Link{ID: deal.id, Name: spec.Name, RemoteClusterID: deal.remote, CreatedMs: ls.env.Now().UnixMilli()}
	rec.Configs, rec.Secrets = split(set)
	if spec.ValidateOnly {
		return ls.info(img, rec), nil
	}
	err = ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if err := free(img, spec.Name, deal.id, prefixOf(set)); err != nil {
			return nil, err
		}
		return []meta.Change{meta.PutLink(rec)}, nil
	})
	if err != nil {
		return Info{}, internal("store the link", err)
	}
	ls.env.Events.Emit(event.LinkCreated{Link: rec.Name, ID: rec.ID.String(), Mode: orDefault(set, keyMode, peer.Destination),
		RemoteClusterID: deal.remote})
	ls.follow(ls.env.Metadata.Image())
	return ls.info(ls.env.Metadata.Image(), rec), nil
}

// checkSpec gathers every fault of the order, a line each, and answers the configs to store.
func checkSpec(spec CreateSpec) (map[string]string, error) {
	set := maps.Clone(spec.Configs)
	if set == nil {
		set = map[string]string{}
	}
	var faults []error
	add := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	add(plan.CheckLinkName(spec.Name))
	checked := config.Link.Check(set)
	add(checked)
	if a, b := set[keyPrefix], set[keyPrefixAlias]; a != "" && b != "" && a != b {
		add(fmt.Errorf("%s and %s are two names of one config, but have two values", keyPrefix, keyPrefixAlias))
	}
	if a := set[keyPrefixAlias]; a != "" && known(keyPrefix) {
		delete(set, keyPrefixAlias)
		set[keyPrefix] = a
	}
	add(checkMode(set))
	add(checkFeatures(set))
	if len(spec.RemoteClusterID) > 200 {
		add(errors.New("the remote cluster id is longer than 200 characters"))
	}
	if checked == nil {
		_, err := readSettings(spec.Name, set)
		add(err)
	}
	if len(faults) > 0 {
		return nil, &Error{Kind: BadRequest, Code: string(mirror.InvalidRequest), Text: errors.Join(faults...).Error()}
	}
	return set, nil
}

func orDefault(set map[string]string, name, fallback string) string {
	if v := strings.ToUpper(strings.TrimSpace(set[name])); v != "" {
		return v
	}
	return fallback
}

// features are switches that do nothing without their filters.
var features = []struct{ enable, filters string }{
	{keyAutoCreate, keyTopicFilters},
	{keyOffsetSync, keyGroupFilters},
	{keyACLSync, keyACLFilters},
}

// checkFeatures names every switch without filters (case C64), at once.
func checkFeatures(set map[string]string) error {
	var faults []error
	for _, f := range features {
		if isTrue(set[f.enable]) && strings.TrimSpace(set[f.filters]) == "" {
			faults = append(faults, fmt.Errorf("%s is true, but %s is empty, so that nothing would match. Set both", f.enable, f.filters))
		}
	}
	return errors.Join(faults...)
}

// free says that a link's name, id or prefix is taken.
func free(img *meta.Image, name string, id kafka.TopicID, prefix string) error {
	if _, is := img.LinkIDs[name]; is {
		return &Error{Kind: Exists, Text: fmt.Sprintf("Cluster link '%s' already exists.", name),
			Hint: "Choose another name, or change that link's configs."}
	}
	if old := img.Links[id]; old != nil {
		return &Error{Kind: Exists, Text: fmt.Sprintf("Cluster link '%s' already has the id %s.", old.Name, id)}
	}
	if prefix == "" {
		return nil
	}
	for _, other := range img.Links {
		if prefixOf(other.Configs) == prefix {
			return badRequest("The prefix '%s' already exists on cluster link '%s'. Choose another, so that two links do not want the "+
				"same topic.", prefix, other.Name)
		}
	}
	return nil
}

// split parts configs into plain and sensitive ones.
func split(set map[string]string) (plain map[string]string, secrets map[string]meta.Secret) {
	plain, secrets = map[string]string{}, map[string]meta.Secret{}
	for name, value := range set {
		if key, is := config.Link.Key(name); is && key.Sensitive {
			secrets[name] = meta.NewSecret(value)
			continue
		}
		plain[name] = value
	}
	return plain, secrets
}

// Delete removes a link. It is refused while the link has mirrors that are not STOPPED; force fails them over first.
// The topics stay, and with them what they mirrored, so that it may be restored from them over a later link.
func (ls *Links) Delete(ctx context.Context, name string, force, validateOnly bool) error {
	img, rec, err := ls.named(name)
	if err != nil {
		return err
	}
	if live := liveNames(img, rec.ID); len(live) > 0 && !force {
		return inUse(name, live)
	}
	if pledged := pledgedNames(img, rec.ID); len(pledged) > 0 && !force {
		if pledged = pledgedNames(ls.checkPledges(ctx, img, rec.ID, pledged), rec.ID); len(pledged) > 0 {
			return bound(name, pledged)
		}
	}
	if validateOnly {
		return nil
	}
	if force {
		if err := ls.stopAll(ctx, rec); err != nil {
			return err
		}
		if err := ls.withdrawAll(ctx, rec); err != nil {
			return err
		}
	}
	for {
		more, err := ls.deleteSome(ctx, name)
		if err != nil {
			return internal("delete the link", err)
		}
		if !more {
			break
		}
	}
	ls.env.Events.Emit(event.LinkDeleted{Link: name, Forced: force})
	ls.follow(ls.env.Metadata.Image())
	return nil
}

// deleteSome removes records of stopped mirrors, as many as one transaction takes, and
// with the last of them the link.
func (ls *Links) deleteSome(ctx context.Context, name string) (more bool, err error) {
	err = ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		more = false
		rec := img.Links[img.LinkIDs[name]]
		if rec == nil {
			return nil, nil
		}
		if live := liveNames(img, rec.ID); len(live) > 0 {
			return nil, inUse(name, live)
		}
		if pledged := pledgedNames(img, rec.ID); len(pledged) > 0 {
			return nil, bound(name, pledged)
		}
		var changes []meta.Change
		gone := 0
		for id, m := range img.Mirrors {
			if m.Link != rec.ID {
				continue
			}
			if gone++; gone > mirrorsAtOnce {
				more = true
				return append(changes, meta.KeepLink(rec.ID)), nil
			}
			changes = append(changes, meta.DeleteMirror(id))
			if topic := img.Topics[id]; topic != nil {
				changes = append(changes, meta.PutTopic(withOrigin(topic, m, rec.RemoteClusterID)))
			}
		}
		return append(changes, meta.DeleteLink(rec.ID, rec.Name)), nil
	})
	return more, err
}

// mirrorsAtOnce is how many mirrors' records one transaction removes: each takes two changes of the 60 that an update may
// have, which the link's own is one of.
const mirrorsAtOnce = 25

// withOrigin is a topic that keeps what its mirror's record says of where its log came from (rule T4). A source that
// has no topic ids cannot be told from another one of its name.
func withOrigin(topic *meta.Topic, m *meta.Mirror, cluster string) *meta.Topic {
	kept := *topic
	kept.Origin = nil
	if !m.SourceTopicID.IsZero() && cluster != "" {
		kept.Origin = &meta.Origin{Cluster: cluster, Topic: m.SourceTopicID, Name: m.SourceTopic, StoppedMs: m.StateMs,
			Withdrawn: m.Withdrawn, Kin: m.Kin}
	}
	return &kept
}

func liveNames(img *meta.Image, id kafka.TopicID) []string {
	var names []string
	for _, m := range mirrorsOf(img, id) {
		if m.state.Live() {
			names = append(names, m.topic.Name)
		}
	}
	return names
}

// namesShown bounds how many names one message lists.
const namesShown = 20

// some lists names, as many as are shown.
func some(names []string) string {
	list := strings.Join(names[:min(len(names), namesShown)], ", ")
	if len(names) > namesShown {
		list += fmt.Sprintf(" and %d more", len(names)-namesShown)
	}
	return list
}

func inUse(link string, live []string) error {
	return &Error{
		Kind: InUse,
		Text: fmt.Sprintf("Cluster link '%s' cannot be deleted: it has mirror topics that are not STOPPED: %s.", link, some(live)),
		Hint: "Promote, fail over or delete them first, or delete with force, which fails them over.",
	}
}

// stopAll fails over every live mirror of a link and waits until they are stopped.
func (ls *Links) stopAll(ctx context.Context, rec *meta.Link) error {
	live := liveNames(ls.env.Metadata.Image(), rec.ID)
	if len(live) == 0 {
		return nil
	}
	if _, err := ls.order(ctx, rec.Name, Failover, live, "", false, mirror.FailoverForced); err != nil {
		return err
	}
	watch, cancel := context.WithTimeout(ctx, stopMax)
	defer cancel()
	ls.env.Metadata.Watch(watch, func(_, img *meta.Image) {
		if len(liveNames(img, rec.ID)) == 0 {
			cancel()
		}
	})
	if left := liveNames(ls.env.Metadata.Image(), rec.ID); len(left) > 0 {
		return &Error{Kind: InUse, Text: fmt.Sprintf("Cluster link '%s' is not deleted: mirrors are still being failed over: %s.",
			rec.Name, some(left)), Hint: "Delete it again when they are STOPPED."}
	}
	return nil
}

// stopMax bounds the wait of a forced deletion.
const stopMax = 30 * time.Second

// sortedNames lists the keys of a map, sorted.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
