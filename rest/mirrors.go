package rest

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/rest/api"
)

func listMirrors(c *call) error {
	name := c.linkName()
	if name == anyLink {
		name = ""
	}
	status, err := c.mirrorStatus()
	if err != nil {
		return err
	}
	mirrors, err := c.Links.Mirrors(name, status)
	if err != nil {
		return err
	}
	mirrors = slices.SortedFunc(slices.Values(mirrors), func(a, b link.MirrorInfo) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.Topic, b.Topic))
	})
	var out []api.Mirror
	for _, m := range mirrors {
		out = append(out, c.mirrorJSON(m))
	}
	return list(c, api.KindMirrorList, c.self("links", escape(c.linkName()), "mirrors"), out)
}

// mirrorStatus reads the filter of a listing; "" is all.
func (c *call) mirrorStatus() (string, error) {
	text := c.r.URL.Query().Get("mirror_status")
	if text == "" {
		return "", nil
	}
	status, err := mirror.ParseStatus(text)
	if err != nil {
		return "", badRequest("The query mirror_status is '%s'; it must be one of %s.", text, strings.Join(api.MirrorStatuses, ", "))
	}
	return status, nil
}

func createMirror(c *call) error {
	validateOnly, err := c.queryBool("validate_only", false)
	if err != nil {
		return err
	}
	var rq api.CreateMirrorRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	spec, err := mirrorSpec(rq)
	if err != nil {
		return err
	}
	if err := c.allow(Create, topicResource(cmp.Or(rq.MirrorTopicName, rq.SourceTopicName))); err != nil {
		return err
	}
	spec.ValidateOnly = validateOnly
	info, err := c.Links.CreateMirror(c.r.Context(), c.linkName(), spec)
	if err != nil {
		return err
	}
	if validateOnly {
		return c.noContent()
	}
	return c.created(c.mirrorSelf(info), c.mirrorJSON(info))
}

func mirrorSpec(rq api.CreateMirrorRequest) (link.MirrorSpec, error) {
	spec := link.MirrorSpec{SourceTopic: rq.SourceTopicName, MirrorTopic: rq.MirrorTopicName}
	if rq.SourceTopicName == "" {
		return spec, badRequest("The field 'source_topic_name' is missing; it is the topic's name on the source cluster.")
	}
	for _, name := range []string{rq.SourceTopicName, rq.MirrorTopicName} {
		if err := kafka.CheckTopicName(name); name != "" && err != nil {
			return spec, err
		}
	}
	if n := rq.ReplicationFactor; n != nil {
		if *n > math.MaxInt16 || *n < 1 && *n != -1 {
			return spec, badRequest("The field 'replication_factor' is %d; it must be 1 to %d, or -1 for the default.", *n, math.MaxInt16)
		}
		spec.ReplicationFactor = int16(max(*n, 0))
	}
	var err error
	spec.Configs, err = settings(rq.Configs)
	return spec, err
}

func getMirror(c *call) error {
	withErrors, err := c.queryBool("include_state_transition_errors", false)
	if err != nil {
		return err
	}
	info, err := c.Links.Mirror(c.linkName(), c.r.PathValue("mirror_topic_name"))
	if err != nil {
		return err
	}
	out := c.mirrorJSON(info)
	if withErrors {
		errs := codedJSON(info.TransitionErrors)
		out.MirrorStateTransitionErrors = &errs
	}
	return c.json(http.StatusOK, out)
}

func (c *call) mirrorSelf(info link.MirrorInfo) string {
	return c.self("links", escape(info.Link), "mirrors", escape(info.Topic))
}

func (c *call) mirrorJSON(info link.MirrorInfo) api.Mirror {
	return api.Mirror{
		Kind:                    api.KindMirror,
		Metadata:                api.Metadata{Self: c.mirrorSelf(info)},
		LinkName:                info.Link,
		MirrorTopicName:         info.Topic,
		SourceTopicName:         info.SourceTopic,
		NumPartitions:           info.Partitions,
		MirrorLags:              lagsJSON(info.Lags),
		MirrorStatus:            info.Status,
		MirrorTopicError:        cmp.Or(info.Err, "NO_ERROR"),
		MirrorTopicErrorMessage: info.ErrText,
		StateTimeMs:             info.StateMs,
	}
}

func lagsJSON(lags []link.Lag) []api.MirrorLag {
	out := []api.MirrorLag{}
	for _, lag := range lags {
		one := api.MirrorLag{
			Partition: lag.Partition, Lag: lag.Records, LastSourceFetchOffset: int64(lag.LastSourceFetch),
			PartitionState: lag.State, ErrorMessage: lag.Err, RecordsLost: lag.Lost,
		}
		if end := int64(lag.SourceEnd); !lag.LastContact.IsZero() {
			one.SourceEndOffset = &end
		}
		if at := lag.CaughtUp.UnixMilli(); !lag.CaughtUp.IsZero() {
			one.CaughtUpMs = &at
		}
		if again := lag.Recopy; again != nil {
			one.Recopy = &api.Recopy{State: string(again.State), CopiedOffset: int64(again.Offset), EndOffset: int64(again.End)}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b api.MirrorLag) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}
