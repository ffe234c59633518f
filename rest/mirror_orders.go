package rest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

// order is the handler of one verb. Topics that fail have their error beside them, and
// the answer is 200 all the same.
func order(verb link.Verb) func(*call) error {
	return func(c *call) error { return orderMirrorTopics(c, verb) }
}

func orderMirrorTopics(c *call, verb link.Verb) error {
	validateOnly, err := c.queryBool("validate_only", false)
	if err != nil {
		return err
	}
	withPartitions, err := c.queryBool("include_partition_level_truncation_data", false)
	if err != nil {
		return err
	}
	if verb, err = c.varied(verb); err != nil {
		return err
	}
	var rq api.AlterMirrorsRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	if err := checkSelection(rq); err != nil {
		return err
	}
	topics, denied, err := c.orderable(verb, rq)
	if err != nil {
		return err
	}
	outcomes := denied
	if len(topics) > 0 || c.Access == nil {
		done, err := c.Links.Order(c.r.Context(), c.linkName(), verb, topics, rq.MirrorTopicNamePattern, validateOnly)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, done...)
	}
	slices.SortStableFunc(outcomes, func(a, b link.Outcome) int { return cmp.Compare(a.Topic, b.Topic) })
	var out []api.AlteredMirror
	for _, outcome := range outcomes {
		if !withPartitions {
			outcome.Parts = nil
		}
		out = append(out, c.outcomeJSON(outcome))
	}
	c.ordered.noteFailures(out)
	return list(c, api.KindAlterMirrorsList, c.self("links", escape(c.linkName()), "mirrors"), out)
}

// varied is the verb with what its own query says: failover?force=true, truncate-and-restore?paused=true.
func (c *call) varied(verb link.Verb) (link.Verb, error) {
	for _, v := range []struct {
		query  string
		of, to link.Verb
	}{
		{"force", link.Failover, link.ForceFailover},
		{"paused", link.TruncateAndRestore, link.TruncateAndRestorePaused},
	} {
		is, err := c.queryBool(v.query, false)
		switch {
		case err != nil:
			return verb, err
		case is && verb == v.of:
			return v.to, nil
		}
	}
	return verb, nil
}

// checkSelection wants names or a pattern, and not both: which of the two would win is nothing to guess in a failover.
func checkSelection(rq api.AlterMirrorsRequest) error {
	switch {
	case len(rq.MirrorTopicNames) == 0 && rq.MirrorTopicNamePattern == "":
		return badRequest("No mirror topics are named. Give mirror_topic_names, or mirror_topic_name_pattern with a regular " +
			"expression such as \".*\" for all.")
	case len(rq.MirrorTopicNames) > 0 && rq.MirrorTopicNamePattern != "":
		return badRequest("Both mirror_topic_names and mirror_topic_name_pattern are given. Give one.")
	case slices.Contains(rq.MirrorTopicNames, ""):
		return badRequest("The field 'mirror_topic_names' has an empty name. Leave it out.")
	}
	if _, err := regexp.Compile(rq.MirrorTopicNamePattern); err != nil {
		return badPattern(err)
	}
	return nil
}

func badPattern(err error) error {
	return badRequest("The field 'mirror_topic_name_pattern' is no regular expression: %v. Put a \\ before characters that stand "+
		"for themselves, or name the topics.", err)
}

// orderable parts the topics that the caller may order from those denied. Without ACLs the selection goes on as it came; with
// them a pattern is resolved first, as the order itself resolves it, and only what it names goes on. No topic at all means that
// nothing is ordered then.
func (c *call) orderable(verb link.Verb, rq api.AlterMirrorsRequest) (topics []string, denied []link.Outcome, err error) {
	names := slices.Compact(slices.Sorted(slices.Values(rq.MirrorTopicNames)))
	if c.Access == nil {
		return names, nil, nil
	}
	told := func(string) bool { return true }
	if rq.MirrorTopicNamePattern != "" {
		if names, err = c.Links.Matching(c.linkName(), verb, rq.MirrorTopicNamePattern); err != nil {
			return nil, nil, err
		}
		if told, err = c.ofLink(); err != nil {
			return nil, nil, err
		}
	}
	op := Describe
	switch verb {
	case link.ReverseAndStart, link.ReverseAndPause, link.TruncateAndRestore, link.TruncateAndRestorePaused:
		op = Alter
	}
	for _, name := range names {
		switch {
		case c.allowed(op, topicResource(name)):
			topics = append(topics, name)
		case told(name):
			denied = append(denied, link.Outcome{Topic: name, Code: 403, Text: forbidden(c.principal, op, topicResource(name)).Error()})
		}
	}
	return topics, denied, nil
}

// ofLink reports which topics are or were mirrors of the link: whoever may list those is told about them. A pattern of a restore
// means ordinary topics as well, and their names are not for everybody.
func (c *call) ofLink() (func(topic string) bool, error) {
	mirrors, err := c.Links.Mirrors(c.linkName(), "")
	if err != nil {
		return nil, fmt.Errorf("list mirrors for a pattern: %w", err)
	}
	listed := make(map[string]bool, len(mirrors))
	for _, m := range mirrors {
		listed[m.Topic] = true
	}
	return func(topic string) bool { return listed[topic] }, nil
}

func (c *call) outcomeJSON(outcome link.Outcome) api.AlteredMirror {
	out := api.AlteredMirror{
		Kind:                         api.KindAlterMirrors,
		Metadata:                     api.Metadata{Self: c.self("links", escape(c.linkName()), "mirrors", escape(outcome.Topic))},
		MirrorTopicName:              outcome.Topic,
		MirrorLags:                   lagsJSON(outcome.Lags),
		MessagesTruncated:            outcome.Truncated,
		PartitionLevelTruncationData: []api.Truncation{},
		AlreadyStopped:               outcome.Already,
	}
	if outcome.Code != 0 {
		// Clients take any text here for a failure, so a success has none.
		text := cmp.Or(outcome.Text, "The order was refused.")
		out.ErrorCode, out.ErrorMessage = &outcome.Code, &text
	}
	for _, part := range outcome.Parts {
		out.PartitionLevelTruncationData = append(out.PartitionLevelTruncationData, api.Truncation{
			PartitionID: part.Partition, OffsetTruncatedTo: int64(part.TruncatedTo), MessagesTruncated: part.Records,
			FullCopy: part.FullCopy, FullCopyReason: part.Why,
		})
	}
	for _, g := range outcome.Groups {
		out.GroupOffsets = append(out.GroupOffsets, api.GroupOffset{GroupID: g.Group, PartitionID: g.Partition, Offset: int64(g.From),
			LoweredTo: int64(g.To)})
	}
	for _, open := range outcome.Open {
		out.OpenTransactions = append(out.OpenTransactions, api.OpenTransaction{
			PartitionID: open.Partition, ProducerID: int64(open.Producer), FirstOffset: int64(open.From), OpenElsewhere: open.Split,
			TransactionalID: open.ID,
		})
	}
	for _, w := range outcome.Waits {
		out.WouldWaitFor = append(out.WouldWaitFor, api.CodedError{ErrorCode: w.Code, ErrorMessage: w.Text})
	}
	for _, m := range outcome.Missing {
		out.MissingACLs = append(out.MissingACLs, api.MissingACL{Operation: m.Operation, SourceTopicName: m.Topic, Need: m.Need})
	}
	if w := outcome.Withdrawn; w != nil {
		out.PledgeWithdrawn = &api.WithdrawnPledge{RestoreID: w.Restore, ClusterID: w.Cluster, TopicName: w.Topic, SinceMs: w.SinceMs,
			ClusterSays: w.Says, Consequence: w.Text}
	}
	slices.SortFunc(out.PartitionLevelTruncationData, func(a, b api.Truncation) int { return cmp.Compare(a.PartitionID, b.PartitionID) })
	return out
}
