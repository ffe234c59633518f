package peer

import (
	"crypto/sha256"
	"fmt"

	"github.com/hawserio/hawser/kafka"
)

// The values of link.mode and connection.mode.
const (
	Destination   = "DESTINATION"
	Source        = "SOURCE"
	Bidirectional = "BIDIRECTIONAL"
	Outbound      = "OUTBOUND"
	Inbound       = "INBOUND"
)

// TwoSided reports whether a half needs one on the other cluster, too.
func (h LinkHalf) TwoSided() bool { return h.Mode != Destination || h.Connection == Inbound }

// Lends reports whether a half opens connections for the other one to ask over: it dials, and the other does not.
func (h LinkHalf) Lends(other *LinkHalf) bool {
	return h.Connection == Outbound && (h.Mode == Source || h.Mode == Bidirectional && other != nil && other.Connection == Inbound)
}

// LinkID is the id of a link with two halves, from its name and the two clusters in any order: halves that are made before either
// knows of the other have it all the same.
func LinkID(name, one, other string) (id kafka.TopicID) {
	sum := sha256.Sum256([]byte(fmt.Sprintf("hawser link %q %q %q", name, min(one, other), max(one, other))))
	copy(id[:], sum[:])
	return id
}

// wanted is the other half that each kind of half needs; an empty connection is either.
var wanted = map[[2]string]LinkHalf{
	{Destination, Inbound}:    {Mode: Source, Connection: Outbound},
	{Source, Outbound}:        {Mode: Destination, Connection: Inbound},
	{Bidirectional, Outbound}: {Mode: Bidirectional},
	{Bidirectional, Inbound}:  {Mode: Bidirectional, Connection: Outbound},
}

func (h LinkHalf) kind() string {
	if h.Connection == "" {
		return "link.mode=" + h.Mode
	}
	return "link.mode=" + h.Mode + " and connection.mode=" + h.Connection
}

// Fit says why two halves make no link, nil if they do. own is that of the cluster with the id ownCluster; its id may be zero,
// where it is not agreed on yet.
func Fit(ownCluster string, own, other LinkHalf) error {
	want := wanted[[2]string{own.Mode, own.Connection}]
	switch {
	case own.Name != other.Name:
		return fmt.Errorf("the halves of a link have one name, but cluster link '%s' is called '%s' there", own.Name, other.Name)
	case want.Mode != other.Mode, want.Connection != "" && want.Connection != other.Connection:
		return fmt.Errorf("cluster link '%s' has %s here and %s on the other cluster, which must have %s: delete one of them and "+
			"create it again", own.Name, own.kind(), other.kind(), want.kind())
	case other.Remote != "" && other.Remote != ownCluster:
		return fmt.Errorf("cluster link '%s' of the other cluster is linked with cluster %s, not with this one, %s", own.Name,
			other.Remote, ownCluster)
	case own.ID != (kafka.TopicID{}) && own.ID != other.ID:
		return fmt.Errorf("cluster link '%s' has the id %s here and %s on the other cluster: both were created before either knew of "+
			"the other; delete one of them and create it again", own.Name, own.ID, other.ID)
	}
	return nil
}
