package link

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// chainMax bounds asking one cluster for where a topic comes from, with all that it asks in turn.
const chainMax = 8 * time.Second

// sourceOf is the link and the source topic that a topic follows; nil for one that is no live mirror. One that is stopping
// takes nothing more from its source, and is shown as stopped a little before that is stored (case C53).
func sourceOf(img *meta.Image, topic string) (*meta.Link, string) {
	rec := img.Mirrors[img.TopicIDs[topic]]
	if rec == nil || img.Topics[rec.Topic] == nil || img.Topics[rec.Topic].Name != topic {
		return nil, ""
	}
	if state := newTopicMirror(rec, nil).state; !state.Live() || state == mirror.Stopping {
		return nil, ""
	}
	return img.Links[rec.Link], rec.SourceTopic
}

// answerChain tells where a topic comes from: it asks the next cluster, which asks its own next.
func (ls *Links) answerChain(ctx context.Context, q question) ([]byte, error) {
	m, err := peer.DecodeChainRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	if len(q.Topics) != 1 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "%s names one topic.", peer.Chain.Name())
	}
	answer := peer.ChainAnswer{Hops: []peer.Hop{{Cluster: q.img.Cluster.ID, Topic: q.Topics[0]}}}
	link, source := sourceOf(q.img, q.Topics[0])
	if link == nil {
		return answer.Encode(), nil
	}
	next := ls.chainOf(ctx, link, source, m.Depth-1)
	answer.Hops, answer.Open = append(answer.Hops, next.Hops...), next.Open
	return answer.Encode(), nil
}

// chainOf asks a link's source where one of its topics comes from. A source that does not say is the chain's last hop.
func (ls *Links) chainOf(ctx context.Context, link *meta.Link, topic string, depth int16) peer.ChainAnswer {
	end := peer.ChainAnswer{Hops: []peer.Hop{{Cluster: link.RemoteClusterID, Topic: topic}}}
	if depth < 0 {
		end.Open = fmt.Sprintf("it is longer than %d clusters", peer.ChainMax)
		return end
	}
	r := ls.runningOf(link.ID)
	if r == nil {
		end.Open = fmt.Sprintf("cluster link '%s' is not running", link.Name)
		return end
	}
	ctx, cancel := context.WithTimeout(ctx, chainMax)
	defer cancel()
	body, err := r.Call(ctx, peer.Ask{Key: peer.Chain, Topics: []string{topic}, Body: peer.ChainRequest{Depth: depth}.Encode()})
	if err == nil {
		var told peer.ChainAnswer
		if told, err = peer.DecodeChainAnswer(body); err == nil && len(told.Hops) > 0 {
			return told
		}
	}
	if err != nil && faultOf(err) != peerNotHawser { // an Apache Kafka mirrors nothing by itself
		end.Open = fmt.Sprintf("cluster %s does not say where its topic '%s' comes from: %v", link.RemoteClusterID, topic, err)
	}
	return end
}

// refuseLoop refuses a mirror whose source topic comes from that very mirror, over however many clusters (rule T6): nobody could
// write to it anywhere. configs are the source topic's, which show at least its own source.
func (r *running) refuseLoop(ctx context.Context, name, source string, configs map[string]string) error {
	img := r.ls.env.Metadata.Image()
	own := img.Cluster.ID
	if plan.IsMirror(configs) && configs[plan.ConfigMirrorSourceCluster] == own && configs[plan.ConfigMirrorSourceTopic] == name {
		return loop([]peer.Hop{{Cluster: img.Links[r.id].RemoteClusterID, Topic: source}, {Cluster: own, Topic: name}}, own, name)
	}
	link := img.Links[r.id]
	if link == nil || r.isForeign() { // an Apache Kafka mirrors nothing by itself
		return nil
	}
	chain := r.ls.chainOf(ctx, link, source, peer.ChainMax)
	if slices.Contains(chain.Hops, peer.Hop{Cluster: own, Topic: name}) {
		return loop(chain.Hops, own, name)
	}
	if chain.Open != "" {
		r.ls.env.Logger.Warn("where a new mirror's source topic comes from is not known to its end", "link", r.name, "topic", name,
			"why", chain.Open)
	}
	return nil
}

func loop(hops []peer.Hop, own, name string) error {
	way := []string{fmt.Sprintf("'%s' of this cluster", name)}
	for _, hop := range hops {
		if hop.Cluster == own && hop.Topic == name {
			way = append(way, "'"+name+"' of this cluster again")
			break
		}
		way = append(way, fmt.Sprintf("'%s' of cluster %s", hop.Topic, hop.Cluster))
	}
	return &Error{
		Kind: BadRequest, Code: string(mirror.InvalidRequest),
		Text: "A topic cannot be a mirror of itself: " + strings.Join(way, " would come from ") + ".",
		Hint: "Stop one of these mirrors first, by promote or failover.",
	}
}

// answerMirrors lists the live mirrors of the asking cluster's topics.
func (ls *Links) answerMirrors(_ context.Context, q question) ([]byte, error) {
	m, err := peer.DecodeMirrorsRequest(q.Body)
	if err != nil {
		return nil, malformed(err)
	}
	var answer peer.MirrorsAnswer
	for _, rec := range q.img.Mirrors {
		topic, link := q.img.Topics[rec.Topic], q.img.Links[rec.Link]
		if topic == nil || link == nil || link.RemoteClusterID != q.Caller || q.link != nil && link.ID != q.link.ID ||
			topic.Name <= m.After || !newTopicMirror(rec, topic).state.Follows() {
			continue
		}
		answer.Mirrors = append(answer.Mirrors, peer.Mirrored{Topic: topic.Name, Source: rec.SourceTopic, SourceID: rec.SourceTopicID})
	}
	slices.SortFunc(answer.Mirrors, func(a, b peer.Mirrored) int { return strings.Compare(a.Topic, b.Topic) })
	if len(answer.Mirrors) > peer.MirrorMax {
		answer.Mirrors, answer.More = answer.Mirrors[:peer.MirrorMax], true
	}
	return answer.Encode(), nil
}
