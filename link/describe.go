package link

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// List describes all links, by name.
func (ls *Links) List() []Info {
	img := ls.env.Metadata.Image()
	list := make([]Info, 0, len(img.Links))
	for _, rec := range img.Links {
		list = append(list, ls.info(img, rec))
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Describe describes one link.
func (ls *Links) Describe(name string) (Info, error) {
	img, rec, err := ls.named(name)
	if err != nil {
		return Info{}, err
	}
	return ls.info(img, rec), nil
}

func (ls *Links) info(img *meta.Image, rec *meta.Link) Info {
	info := Info{
		Name: rec.Name, ID: rec.ID.String(), RemoteClusterID: rec.RemoteClusterID,
		Mode: orDefault(rec.Configs, keyMode, peer.Destination), Topics: []string{},
		Connection: orDefault(rec.Configs, keyConnection, peer.Outbound),
		State:      mirror.LinkUnknown.String(), Err: string(mirror.NoError), Categories: map[string]int32{},
	}
	mirrors := mirrorsOf(img, rec.ID)
	for _, m := range mirrors {
		info.Topics = append(info.Topics, m.topic.Name)
	}
	r := ls.runningOf(rec.ID)
	if r == nil {
		return info
	}
	r.mu.Lock()
	health, problem, other := r.healthNow(), r.contact.Problem, r.other
	if lending := r.lendProblem(); other.problem.Code == "" && lending.Code != "" {
		other.problem = lending
	}
	r.mu.Unlock()
	if other.half != nil {
		info.RemoteState, info.RemoteConnection = other.half.State, other.half.Connection
	}
	if other.problem.Code != "" {
		info.RemoteState, info.RemoteText = other.problem.Code, other.problem.Text
	}
	info.State = health.String()
	if problem.Code != "" && health != mirror.LinkActive {
		info.Err, info.ErrText = problem.Code, problem.Text
	}
	info.Waiting, info.Lent = r.lending()
	info.Tasks = r.taskInfos()
	info.Fetches = r.fetchTimes()
	for _, m := range mirrors {
		for _, p := range r.view(img, m).parts {
			info.Categories[mirror.CategoryOf(m.state, p.part)]++
		}
	}
	return info
}

// fetchTimes is how long fetches took; nothing where the pool does not count.
func (r *running) fetchTimes() event.Times {
	r.mu.Lock()
	pool := r.pool
	r.mu.Unlock()
	if counting, is := pool.(interface{ Times() event.Times }); is {
		return counting.Times()
	}
	return event.Times{}
}

// view is all that is known of one mirror at one moment.
type view struct {
	health mirror.LinkHealth
	judged plan.Judged
	open   bool         // every partition of a mirror that is stopping takes records already
	link   plan.Problem // the link's trouble
	parts  []partView
}

type partView struct {
	status fetcher.Status
	part   mirror.Part
	fault  plan.Judged
}

// view looks at a mirror. r.mu is not held.
func (r *running) view(img *meta.Image, m topicMirror) view {
	r.mu.Lock()
	v := view{health: r.healthNow(), link: r.contact.Problem}
	pool, may, lim := r.pool, r.mayFetch(), r.limits()
	ends, ages := make(map[int32]kafka.Offset), r.datedIn(m.topic)
	for p, age := range ages {
		ends[p] = age.end
	}
	for p := range m.topic.Partitions {
		if end, is := r.ends[kafka.TopicPartition{Topic: m.topic.Name, Partition: p}]; is {
			ends[p] = end
		}
	}
	r.mu.Unlock()
	now := r.ls.env.Now()
	states := img.Partitions[m.topic.ID]
	v.open = m.state == mirror.Stopping
	var faults []plan.PartitionFault
	for p := range m.topic.Partitions {
		var one partView
		one.status = fetcher.Status{SourceEnd: -1, SourceStart: -1, LastFetched: -1, LagRecords: -1}
		fetches := m.state.Fetches() && !m.rec.Paused && may && pool != nil
		if fetches {
			one.status = pool.Status(kafka.TopicPartition{Topic: m.topic.Name, Partition: p})
		}
		r.ownFault(&one.status, m, p)
		r.complete(&one.status, m, p, ends)
		if part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p}); part != nil && m.state.Live() {
			ages[p].refine(&one.status, part.Offsets().HighWatermark)
		}
		if one.status.Fault != fetcher.NoFault {
			f := partitionFault(p, one.status)
			one.fault = plan.JudgeFault(f, now, lim)
			faults = append(faults, f)
		}
		open := states != nil && int(p) < len(states.List) && states.List[p].Role == meta.RoleOpen
		if m.state == mirror.Stopping {
			part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
			open = part != nil && part.Offsets().Role == meta.RoleOpen
			v.open = v.open && open
		}
		one.part = mirror.Observe(mirror.PartFacts{
			Topic: m.state, Halted: m.rec.Paused || v.health == mirror.LinkPaused,
			Open:  open,
			Fault: one.status.Fault != fetcher.NoFault || v.health == mirror.LinkFailed || v.health == mirror.LinkUnavailable,
			Final: one.fault.Judgement == plan.Fail, Contacted: !one.status.LastContact.IsZero(), Lag: one.status.LagRecords,
		})
		v.parts = append(v.parts, one)
	}
	v.judged = plan.JudgeFaults(faults, now, lim)
	return v
}

// ownFault shows that the mirror's own partition is out of service, which a fetcher that waits for the source, or is
// halted, would not say.
func (r *running) ownFault(s *fetcher.Status, m topicMirror, p int32) {
	part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
	if part == nil || !m.state.Live() {
		return
	}
	if err := part.Err(); err != nil {
		s.Fault, s.Err = fetcher.TargetOffline, err
	}
}

// complete fills in what a fetcher does not say, as it has not fetched since it began or does not
// fetch now: the last offset of the source that is here, and the lag to the source's end when it was last seen.
func (r *running) complete(s *fetcher.Status, m topicMirror, p int32, ends map[int32]kafka.Offset) {
	if !m.state.Live() {
		return
	}
	part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
	if part == nil {
		return
	}
	at := part.Offsets()
	if s.LastFetched < 0 && at.LogEnd > at.LogStart {
		s.LastFetched = at.LogEnd - 1
	}
	if end, is := ends[p]; is && s.LagRecords < 0 {
		s.SourceEnd, s.LagRecords = end, max(int64(end-at.HighWatermark), 0)
	}
}

// status is what is shown as mirror_status. A topic is STOPPED from the moment that its last partition takes records, which is a
// little before that is stored (case C53).
func (v view) status(s mirror.State) string {
	if v.open {
		s = mirror.Stopped
	}
	source := mirror.SourceReachable
	if v.judged.Judgement == plan.Unavailable {
		source = mirror.SourceUnavailable
	}
	return mirror.Status(s, v.health, source)
}

// Mirrors lists the mirrors of one link, or with "" of all, perhaps of one status only, by link and topic.
func (ls *Links) Mirrors(link, status string) ([]MirrorInfo, error) {
	img := ls.env.Metadata.Image()
	if status != "" {
		parsed, err := mirror.ParseStatus(status)
		if err != nil {
			return nil, badRequest("%v.", err)
		}
		status = parsed
	}
	recs := make([]*meta.Link, 0, len(img.Links))
	if link == "" {
		for _, rec := range img.Links {
			recs = append(recs, rec)
		}
		slices.SortFunc(recs, func(a, b *meta.Link) int { return strings.Compare(a.Name, b.Name) })
	} else {
		_, rec, err := ls.named(link)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	list := []MirrorInfo{}
	for _, rec := range recs {
		for _, m := range mirrorsOf(img, rec.ID) {
			info := ls.mirrorInfo(img, rec, m)
			if status == "" || info.Status == status {
				list = append(list, info)
			}
		}
	}
	return list, nil
}

// Mirror describes one mirror of a link by its topic's name here.
func (ls *Links) Mirror(link, topic string) (MirrorInfo, error) {
	img, rec, err := ls.named(link)
	if err != nil {
		return MirrorInfo{}, err
	}
	m, err := mirrorNamed(img, rec, topic)
	if err != nil {
		return MirrorInfo{}, err
	}
	return ls.mirrorInfo(img, rec, m), nil
}

func mirrorNamed(img *meta.Image, link *meta.Link, topic string) (topicMirror, error) {
	id, is := img.TopicIDs[topic]
	rec := img.Mirrors[id]
	if !is || rec == nil || rec.Link != link.ID || img.Topics[id] == nil {
		return topicMirror{}, &Error{Kind: NotFound, Code: string(mirror.UnknownTopicOrPartition), Text: "Topic '" + topic +
			"' is not a mirror topic of cluster link '" + link.Name + "'.",
			Hint: "'hawser mirror list' and GET …/links/-/mirrors show the mirror topics of all links."}
	}
	return newTopicMirror(rec, img.Topics[id]), nil
}

// MirrorOf finds the mirror record behind a topic's name, if it is or was one, for
// DescribeConfigs and refusals; live is false once it is STOPPED.
func (ls *Links) MirrorOf(topic string) (info MirrorInfo, live, ok bool) {
	img := ls.env.Metadata.Image()
	id, is := img.TopicIDs[topic]
	rec := img.Mirrors[id]
	if !is || rec == nil || img.Topics[id] == nil || img.Links[rec.Link] == nil {
		return MirrorInfo{}, false, false
	}
	m := newTopicMirror(rec, img.Topics[id])
	return ls.mirrorInfo(img, img.Links[rec.Link], m), m.state.Live(), true
}

func (ls *Links) mirrorInfo(img *meta.Image, link *meta.Link, m topicMirror) MirrorInfo {
	info := MirrorInfo{
		Link: link.Name, Topic: m.topic.Name, SourceTopic: m.rec.SourceTopic, Partitions: m.topic.Partitions,
		Status: mirror.Status(m.state, mirror.LinkUnknown, mirror.SourceReachable),
		Err:    string(mirror.NoError), StateMs: m.rec.StateMs,
	}
	if m.rec.Error != "" {
		info.Err, info.ErrText = m.rec.Error, m.rec.ErrorText
	}
	if _, err := mirror.ParseState(m.rec.State); err != nil {
		info.Err, info.ErrText = string(mirror.UnsupportedMirrorState), err.Error()
	}
	r := ls.runningOf(link.ID)
	if r == nil {
		info.Lags = lags(m, view{})
		return info
	}
	v := r.view(img, m)
	info.Status = v.status(m.state)
	info.Lags = lags(m, v)
	r.showRecopy(img, m, &info)
	switch {
	case info.Err != string(mirror.NoError) || !m.state.Live():
	case v.judged.Problem.Code == string(mirror.StorageError):
		info.Err, info.ErrText = v.judged.Problem.Code, v.judged.Problem.Text
	case !m.state.Fetches():
	case info.Status == mirror.StatusLinkFailed && v.link.Code != "", info.Status == mirror.StatusSourceUnavailable && v.link.Code != "":
		info.Err, info.ErrText = v.link.Code, v.link.Text
	case v.judged.Judgement != plan.Well:
		info.Err, info.ErrText = v.judged.Problem.Code, v.judged.Problem.Text
	}
	r.mu.Lock()
	info.TransitionErrors = coded(r.obstacle[m.topic.ID])
	r.mu.Unlock()
	if m.rec.Pledge != nil {
		info.TransitionErrors = append(info.TransitionErrors, Coded{string(mirror.Pledged), sideFacts(m).Bound()})
	}
	return info
}

// lags lists every partition's lag. One that never fetched is shown as 0, as REST's clients expect; where the source was
// heard once and is silent now, LagUnknown stands and not the 0 of then. A stopped mirror shows where it stopped.
func lags(m topicMirror, v view) []Lag {
	list := make([]Lag, m.topic.Partitions)
	for p := range list {
		l := &list[p]
		l.Partition, l.LastSourceFetch, l.SourceEnd = int32(p), kafka.NoOffset, kafka.NoOffset
		if p < len(m.rec.Lost) {
			l.Lost = m.rec.Lost[p]
		}
		if p < len(v.parts) {
			one := v.parts[p]
			l.State = one.part.String()
			l.Records = max(one.status.LagRecords, 0)
			if l.Records == 0 && one.status.Silent && one.status.SourceEnd >= 0 {
				l.Records = LagUnknown
			}
			l.LastSourceFetch = one.status.LastFetched
			l.Err = one.fault.Problem.Text
			l.SourceEnd, l.FetchedBytes, l.LastContact = one.status.SourceEnd, one.status.FetchedBytes, one.status.LastContact
			l.CaughtUp, l.Behind = one.status.CaughtUp, one.status.Behind
		}
		if !m.state.Live() && p < len(m.rec.LastSourceFetchOffset) {
			l.LastSourceFetch = m.rec.LastSourceFetchOffset[p]
		}
	}
	return list
}

// Entries are the read-only configs by which a topic shows the mirror that it is or was, by name; nil if
// it never was one.
func (ls *Links) Entries(topic string) []ConfigEntry {
	img := ls.env.Metadata.Image()
	info, _, is := ls.MirrorOf(topic)
	if !is {
		return nil
	}
	var lag int64
	unknown := false
	for _, l := range info.Lags {
		lag = max(lag, l.Records)
		unknown = unknown || l.Records == LagUnknown
	}
	if lag == 0 && unknown {
		lag = LagUnknown
	}
	remote := ""
	if link := img.Links[img.LinkIDs[info.Link]]; link != nil {
		remote = link.RemoteClusterID
	}
	var list []ConfigEntry
	for _, e := range []struct{ name, value string }{
		{plan.ConfigMirrorError, info.Err},
		{plan.ConfigMirrorLag, strconv.FormatInt(lag, 10)},
		{plan.ConfigMirrorLink, info.Link},
		{plan.ConfigMirrorSourceCluster, remote},
		{plan.ConfigMirrorSourceTopic, info.SourceTopic},
		{plan.ConfigMirrorState, info.Status},
	} {
		list = append(list, ConfigEntry{Name: e.name, Value: &e.value, ReadOnly: true})
	}
	return list
}
