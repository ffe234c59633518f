package link

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// verbEvents are the orders as the lifecycle knows them.
var verbEvents = map[Verb]mirror.Event{
	Promote:            mirror.PromoteAsked,
	Failover:           mirror.FailoverAsked,
	Pause:              mirror.PauseAsked,
	Resume:             mirror.ResumeAsked,
	ReverseAndStart:    mirror.ReverseAsked,
	ReverseAndPause:    mirror.ReverseAsked,
	TruncateAndRestore: mirror.RestoreAsked,

	TruncateAndRestorePaused: mirror.RestoreAsked,
	ForceFailover:            mirror.FailoverForced,
}

// topicsMax bounds one order.
const topicsMax = 100_000

// patternMax bounds a pattern, in bytes.
const patternMax = 1000

// Order gives a verb to mirrors of a link: by names, by a regular expression that must match a whole name, or by both, which
// means those of the names that it matches. One Outcome per topic, by name. It answers when the order is stored; what it
// starts goes on by itself, also over a restart.
func (ls *Links) Order(ctx context.Context, link string, verb Verb, topics []string, pattern string, validateOnly bool) ([]Outcome, error) {
	event, is := verbEvents[verb]
	if !is {
		return nil, badRequest("Unknown order %q.", verb)
	}
	return ls.order(ctx, link, verb, topics, pattern, validateOnly, event)
}

func (ls *Links) order(ctx context.Context, link string, verb Verb, topics []string, pattern string, validateOnly bool,
	event mirror.Event) ([]Outcome, error) {
	img, rec, err := ls.named(link)
	if err != nil {
		return nil, err
	}
	names, err := chosen(img, rec, event, topics, pattern)
	if err != nil {
		return nil, err
	}
	if event == mirror.RestoreAsked || event == mirror.ReverseAsked {
		ls.awaitTurns(ctx, rec.ID, names, event)
		img = ls.awaitStops(ctx, rec.ID, names)
		img = ls.checkPledges(ctx, img, rec.ID, names)
	}
	o := &ordering{
		ls: ls, link: rec, verb: verb, event: event, dry: validateOnly, outcomes: map[string]*Outcome{},
		dead: map[kafka.TopicID]bool{}, withdrawn: map[kafka.TopicID]*WithdrawnPledge{}, restores: map[kafka.TopicID]*plannedRestore{},
		strangers: map[string]bool{}, refusal: map[kafka.TopicID]error{},
	}
	o.judge(ctx, img, names)
	if !validateOnly && len(o.ids) > 0 {
		if err := o.storeAll(ctx, ls.runningOf(rec.ID)); err != nil {
			return nil, err
		}
	}
	list := make([]Outcome, 0, len(names))
	for _, name := range names {
		if out := o.outcomes[name]; pattern == "" || !o.strangers[name] {
			list = append(list, *out)
		}
	}
	return list, nil
}

// Matching lists the topics, sorted, that Order with this verb and pattern means: for a door that must ask about each of them
// whether the caller may order it, and then gives the order to those by name and pattern.
func (ls *Links) Matching(link string, verb Verb, pattern string) ([]string, error) {
	event, is := verbEvents[verb]
	if !is {
		return nil, badRequest("Unknown order %q.", verb)
	}
	img, rec, err := ls.named(link)
	if err != nil {
		return nil, err
	}
	return chosen(img, rec, event, nil, pattern)
}

// chosen lists the topics that an order means, sorted, each once.
func chosen(img *meta.Image, link *meta.Link, event mirror.Event, topics []string, pattern string) ([]string, error) {
	switch {
	case len(topics) == 0 && pattern == "":
		return nil, badRequest("Give mirror topic names, or a pattern that matches whole names.")
	case len(topics) > topicsMax:
		return nil, badRequest("The order names %d topics, at most %d are taken at once.", len(topics), topicsMax)
	case len(pattern) > patternMax:
		return nil, badRequest("The pattern has %d characters, at most %d are taken.", len(pattern), patternMax)
	}
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	if pattern == "" {
		return topics, nil
	}
	// By itself first: what "a)|(b" closes are the brackets put around it, and then it would match beginnings.
	_, err := regexp.Compile(pattern)
	if err != nil {
		return nil, badRequest("The pattern %q is no regular expression: %v.", pattern, err)
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, badRequest("The pattern %q cannot be used: %v.", pattern, err)
	}
	names := matched(img, link, event, whole)
	if len(topics) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { _, asked := slices.BinarySearch(topics, name); return !asked })
	}
	return names, nil
}

// matched lists the topics that a pattern means, sorted.
func matched(img *meta.Image, link *meta.Link, event mirror.Event, whole *regexp.Regexp) []string {
	if event == mirror.RestoreAsked {
		return restorable(img, link.ID, whole)
	}
	var names []string
	for _, m := range mirrorsOf(img, link.ID) {
		if whole.MatchString(m.topic.Name) {
			names = append(names, m.topic.Name)
		}
	}
	return names
}

// ordering is one order under way.
type ordering struct {
	ls       *Links
	link     *meta.Link
	verb     Verb
	event    mirror.Event
	dry      bool // validate_only
	outcomes map[string]*Outcome
	ids      []kafka.TopicID // of topics that it can be given to
	proven   map[kafka.TopicID]bool
	dead     map[kafka.TopicID]bool // handed over, but the mirror has ended the reversal for this failover
	restores map[kafka.TopicID]*plannedRestore
	// strangers are topics that the other side never mirrored: a pattern does not mean them.
	strangers map[string]bool
	refusal   map[kafka.TopicID]error // what the other cluster, or the state it is in, has against the order
	withdrawn map[kafka.TopicID]*WithdrawnPledge
}

// judge decides about each topic without changing anything: validate_only ends here (case C56).
func (o *ordering) judge(ctx context.Context, img *meta.Image, names []string) {
	o.prove(ctx, img, names)
	open := o.openTransactions(img, names)
	o.askPeer(ctx, img, names, open)
	o.askPledged(ctx, img, names)
	o.planRestores(ctx, img, names)
	missing := o.listMissing(ctx, img, names)
	waits := o.heldUp()
	for _, name := range names {
		out := &Outcome{Topic: name}
		o.outcomes[name] = out
		m, err := o.find(img, name)
		if err != nil {
			out.Code, out.Text = 404, err.Error()
			continue
		}
		if img.Mirrors[m.topic.ID] != nil {
			out.Lags = o.ls.mirrorInfo(img, o.link, m).Lags
		}
		out.Open, out.Withdrawn = open[m.topic.ID], o.withdrawn[m.topic.ID]
		out.Missing = missing[m.topic.ID]
		out.Waits = waits
		o.showRestore(m.topic.ID, out)
		if err := o.allowed(m); err != nil {
			out.Code, out.Text, out.Already = 400, err.Error(), o.already(m)
			continue
		}
		o.ids = append(o.ids, m.topic.ID)
	}
}

// heldUp is what keeps the link from asking its source anything now, for a dry run of promote: without the source no promotion ends.
func (o *ordering) heldUp() []Coded {
	r := o.ls.runningOf(o.link.ID)
	if !o.dry || o.event != mirror.PromoteAsked || r == nil {
		return nil
	}
	problem, is := r.linkProblem()
	if !is {
		return nil
	}
	return coded([]plan.Problem{problem})
}

// already reports that a mirror is what promote or failover make of it. One that is pledged to a restore is not meant: who fails
// that over may want the pledge back, which takes more than to say it again.
func (o *ordering) already(m topicMirror) bool {
	stops := o.event == mirror.PromoteAsked || o.event == mirror.FailoverAsked || o.event == mirror.FailoverForced
	return stops && m.state == mirror.Stopped && m.rec.Pledge == nil
}

// eventFor is what the order means to one mirror: resume of a FAILED one counts only if its source is proven.
func (o *ordering) eventFor(rec *meta.Mirror) mirror.Event {
	switch {
	case o.event == mirror.ResumeAsked && rec.State == mirror.Failed.String() && o.proven[rec.Topic]:
		return mirror.ResumeProven
	case o.event == mirror.FailoverAsked && rec.State == mirror.HandedOver.String() && o.dead[rec.Topic]:
		return mirror.PeerDead
	}
	return o.event
}

// allowed says why an order is not obeyed.
func (o *ordering) allowed(m topicMirror) error {
	bidirectional := orDefault(o.link.Configs, keyMode, modeDestination) == modeBidirectional
	switch o.event {
	case mirror.ReverseAsked, mirror.RestoreAsked:
		if !bidirectional {
			return fmt.Errorf("The order %s needs a BIDIRECTIONAL link; cluster link '%s' is not one, and a link's mode never changes: "+
				"create a new link.", o.verb, o.link.Name)
		}
	}
	if !m.state.Live() && o.event != mirror.RestoreAsked && !o.withdraws(m) {
		already := fmt.Sprintf("Topic '%s' has already stopped its mirror from '%s'.", m.topic.Name, o.link.Name)
		if o.event == mirror.FailoverAsked && m.rec.Pledge != nil {
			return errors.New(already + " " + sideFacts(m).Bound())
		}
		return errors.New(already + " It is an ordinary topic now: delete it and create the mirror again, or order " +
			"truncate-and-restore over a BIDIRECTIONAL link.")
	}
	if err := o.refusal[m.topic.ID]; err != nil {
		return err
	}
	if _, _, err := mirror.Step(m.state, o.eventFor(m.rec)); err != nil {
		return fmt.Errorf("Topic '%s': %w.", m.topic.Name, err)
	}
	turns := o.event == mirror.ReverseAsked || o.event == mirror.RestoreAsked
	if turn := m.rec.Turn; turns && turn != nil && (m.state == mirror.Active || m.state == mirror.Stopped) {
		if err := plan.MayTurn(m.topic.Name, o.event, frozenFor(o.ls.env.Metadata.Image(), m.rec), turn.Release); err != nil {
			return err
		}
	}
	if m.rec.Pledge != nil && (o.event == mirror.ReverseAsked || o.event == mirror.RestoreAsked) {
		return errors.New(sideFacts(m).Bound())
	}
	return nil
}

// prove finds out which FAILED mirrors may be resumed: those whose source topic has the id that
// was copied and at least as many partitions. The fetcher's splice check proves the rest before a byte is appended.
func (o *ordering) prove(ctx context.Context, img *meta.Image, names []string) {
	if o.event != mirror.ResumeAsked {
		return
	}
	o.proven = map[kafka.TopicID]bool{}
	var failed []topicMirror
	var sources []string
	for _, name := range names {
		m, err := mirrorNamed(img, o.link, name)
		if err == nil && m.state == mirror.Failed {
			failed = append(failed, m)
			sources = append(sources, m.rec.SourceTopic)
		}
	}
	r := o.ls.runningOf(o.link.ID)
	if len(failed) == 0 || r == nil {
		return
	}
	src, err := r.source()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	topics, err := src.Topics(ctx, sources)
	if err != nil {
		return
	}
	for _, m := range failed {
		for _, t := range topics {
			if t.Name == m.rec.SourceTopic && t.Err == nil {
				o.proven[m.topic.ID] = plan.MayResume(m.rec.SourceTopicID, t.ID, m.topic.Partitions, t.Partitions)
			}
		}
	}
}

// storeAll stores the order while the link begins no stop, and wakes it. r is nil for a link that does not run.
func (o *ordering) storeAll(ctx context.Context, r *running) error {
	if r == nil {
		return o.store(ctx)
	}
	r.storing.Add(1)
	defer func() {
		r.storing.Add(-1)
		r.hurry()
		poke(r.checks)
		poke(r.turns)
	}()
	return o.store(ctx)
}

// store stores the order, and only then lets it be acted on. A topic that has changed meanwhile is judged again.
func (o *ordering) store(ctx context.Context) error {
	now := o.ls.env.Now().UnixMilli()
	if planted(plantActBeforeStore) {
		o.actFirst(ctx)
	}
	if o.event == mirror.RestoreAsked {
		return o.storeRestores(ctx, now)
	}
	err := o.ls.updateMirrors(ctx, o.ids, func(img *meta.Image, rec *meta.Mirror) bool {
		topic := img.Topics[rec.Topic]
		if topic == nil {
			return false
		}
		out := o.outcomes[topic.Name]
		m := newTopicMirror(rec, topic)
		if err := o.allowed(m); err != nil {
			out.Code, out.Text, out.Already = 400, err.Error(), o.already(m)
			return false
		}
		return o.apply(rec, m.state, now)
	})
	if err != nil {
		var given *Error
		if errors.As(err, &given) {
			return given
		}
		return internal("store the order", err)
	}
	o.ls.env.Logger.Info("order stored", "link", o.link.Name, "order", string(o.verb), "topics", len(o.ids),
		"first", strings.Join(o.firstNames(), ","))
	return nil
}

// apply changes one record as the order says. Pause and resume of a reversal are a flag beside its state.
func (o *ordering) apply(rec *meta.Mirror, state mirror.State, nowMs int64) bool {
	event := o.eventFor(rec)
	if !stepRecord(rec, state, event, nowMs) {
		return false
	}
	if event == mirror.FailoverForced && state == mirror.Stopped {
		takeBack(rec, nowMs)
		return true
	}
	switch {
	case rec.State != state.String():
		// What a copy under way is to put right is not put right by resuming.
		begun := rec.Recopy != nil && rec.Error == string(mirror.DeletionsMissed)
		if (rec.State == mirror.Active.String() || event == mirror.ReverseAsked) && !begun {
			rec.Error, rec.ErrorText = "", ""
		}
	case event == mirror.PauseAsked || event == mirror.ResumeAsked:
		rec.Paused = event == mirror.PauseAsked
	}
	if event == mirror.ReverseAsked {
		rec.Turn = newTurn(rec, nowMs)
		rec.Turn.Paused = o.verb == ReverseAndPause
	}
	return true
}

func (o *ordering) firstNames() []string {
	names := sortedNames(o.outcomes)
	return names[:min(len(names), 3)]
}

// openShown bounds the open transactions that an order lists for one topic.
const openShown = 100

// openTransactions lists what a failover aborts, by topic, and marks what it splits: a transaction that is open in another
// live mirror of the link as well.
func (o *ordering) openTransactions(img *meta.Image, names []string) map[kafka.TopicID][]OpenTransaction {
	stopped := make(map[kafka.TopicID][]OpenTransaction)
	if o.event != mirror.FailoverAsked && o.event != mirror.FailoverForced {
		return stopped
	}
	goesOn := map[kafka.ProducerID]bool{}
	for _, m := range mirrorsOf(img, o.link.ID) {
		if !m.state.Live() {
			continue
		}
		_, asked := slices.BinarySearch(names, m.topic.Name)
		for p := range m.topic.Partitions {
			part := o.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
			if part == nil {
				continue
			}
			for _, producer := range part.Producers() {
				switch {
				case producer.TxnStart == kafka.NoOffset:
				case !asked:
					goesOn[producer.ID] = true
				case len(stopped[m.topic.ID]) < openShown:
					stopped[m.topic.ID] = append(stopped[m.topic.ID], OpenTransaction{Partition: p, Producer: producer.ID, From: producer.TxnStart})
				}
			}
		}
	}
	for _, list := range stopped {
		for i := range list {
			list[i].Split = goesOn[list[i].Producer]
		}
	}
	return stopped
}

// actFirst is a planted fault: the effect before the state is stored.
func (o *ordering) actFirst(ctx context.Context) {
	if o.event == mirror.FailoverAsked {
		// Its error is what a crash would have hidden.
		_ = o.ls.env.Partitions.StopMirrors(ctx, o.ids, o.link.ID.String())
	}
}
