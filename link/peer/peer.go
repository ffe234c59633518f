// Package peer is what two hawser clusters say to each other about a link: API
// keys of our own beside Kafka's, over the same listeners and credentials. link asks and
// answers, handler checks the rights and passes requests on, link/source sends them. It is bytes
// and tables alone, and takes hostile ones; it refuses to know what the messages lead to.
package peer

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Key is an API key of ours. Kafka counts its own up from 0; vendors' brokers begin at 10000.
type Key int16

// The keys. They are never used again for anything else.
const (
	Hello           Key = 31200 // who are you, and what is your half of this link
	DescribeMirrors Key = 31201 // what do you mirror, and from where
	Connect         Key = 31202 // ask me over this connection, from now on (a reversed connection)
	Freeze          Key = 31203 // stop taking records of these topics: a reversal begins
	DescribeFreeze  Key = 31204 // where did they end, and how is it going
	HandOver        Key = 31205 // this reversal is decided: become the mirror
	DescribeReverse Key = 31206 // is this reversal still alive at your side
	Pledge          Key = 31207 // promise to stay as you are: I restore from you
	Release         Key = 31208 // the promise is no longer needed
	Lineage         Key = 31209 // which epochs, minted where, and where did you stop
	Chain           Key = 31210 // where does this topic come from, over all clusters
	DescribeACLs    Key = 31211 // which of your ACLs have you copied from me
	DescribeKin     Key = 31212 // which topics' history is this topic's
)

// Row is what dispatch, ApiVersions and docs/protocol.md know of a key.
type Row struct {
	Key      Key
	Name     string
	Min, Max int16             // versions, inclusive
	Cluster  kmsg.ACLOperation // needed on the answering cluster; ACLOperationUnknown: nothing
	Topic    kmsg.ACLOperation // needed on every topic the request names; ACLOperationUnknown: it names none
	Half     Half
	Doc      string // for docs/protocol.md
}

// Half says whether the answering cluster must have its half of the link.
type Half int8

// The two.
const (
	WithHalf    Half = iota // refused where there is no link of the id with the caller's cluster
	WithoutHalf             // answered to a link that has no half here, too
)

// Rule R9: what stops a topic's producers or asks for its stop points takes ALTER on it and on the cluster.
var rows = []Row{
	{Key: Hello, Name: "LinkHello", Cluster: kmsg.ACLOperationDescribe, Half: WithoutHalf, Doc: "who the cluster is, and its half of a link"},
	{Key: DescribeMirrors, Name: "LinkDescribeMirrors", Cluster: kmsg.ACLOperationDescribe, Half: WithoutHalf,
		Doc: "the live mirrors of the caller's topics"},
	{Key: Connect, Name: "LinkConnect", Cluster: kmsg.ACLOperationAlter,
		Doc: "turns the connection round: from the answer on its other end serves requests (source-initiated links)"},
	{Key: Freeze, Name: "LinkFreeze", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter,
		Doc: "a reversal begins: the topics take no more records"},
	{Key: DescribeFreeze, Name: "LinkDescribeFreeze", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter,
		Doc: "where frozen topics ended"},
	{Key: HandOver, Name: "LinkHandOver", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter, Doc: "a reversal is decided"},
	{Key: DescribeReverse, Name: "LinkDescribeReverse", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter,
		Doc: "whether a reversal is alive"},
	{Key: Pledge, Name: "LinkPledge", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter,
		Doc: "a restore begins: the topics are neither reversed nor restored meanwhile"},
	{Key: Release, Name: "LinkRelease", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter, Doc: "a pledge ends"},
	{Key: Lineage, Name: "LinkLineage", Cluster: kmsg.ACLOperationAlter, Topic: kmsg.ACLOperationAlter,
		Doc: "epochs, stop points and checksums to compare two logs by"},
	{Key: Chain, Name: "LinkChain", Topic: kmsg.ACLOperationDescribe, Half: WithoutHalf,
		Doc: "where a topic comes from, from cluster to cluster: no topic becomes a mirror of itself"},
	{Key: DescribeACLs, Name: "LinkDescribeAcls", Cluster: kmsg.ACLOperationDescribe, Half: WithoutHalf,
		Doc: "the ACLs that were copied from the caller's cluster: they are not copied back"},
	{Key: DescribeKin, Name: "LinkDescribeKin", Topic: kmsg.ACLOperationDescribe, Half: WithoutHalf,
		Doc: "the topics that a topic was copied from, over all clusters: each may be restored from its mirrors"},
}

// Rows lists the table, by key. It is a copy.
func Rows() []Row { return append([]Row(nil), rows...) }

// RowOf finds a key's row.
func RowOf(key Key) (Row, bool) {
	for _, row := range rows {
		if row.Key == key {
			return row, true
		}
	}
	return Row{}, false
}

// Name is the key's name, as Kafka's keys have one.
func (k Key) Name() string {
	if row, ok := RowOf(k); ok {
		return row.Name
	}
	return "unknown"
}

// ErrNotHawser says that the other cluster does not list our keys: it is an Apache Kafka, say.
var ErrNotHawser = errors.New("the other cluster is no hawser: it does not offer the private API keys of links")

// Bounds of an envelope. Whoever has more to say asks in pages.
const (
	BodyMax   = 4 << 20 // bytes of a request's or an answer's body
	TopicsMax = 1000    // topics that one request names
	nameMax   = 249     // bytes of a topic's or a link's name
	idMax     = 200     // bytes of a cluster id
	wordsMax  = 4096    // bytes of an error's words
)
