package broker

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/link"
)

// localListener finds one of this broker's own listeners for a link that logs in to its own cluster.
func (b *Broker) localListener(name, protocol string) (link.Listener, error) {
	server := b.doors.Load()
	if server == nil {
		return link.Listener{}, errors.New("the broker is still opening its listeners")
	}
	door, err := pickDoor(server.Doors(), name, protocol)
	if err != nil {
		return link.Listener{}, err
	}
	return link.Listener{Name: door.Name, Advertised: door.Advertised, Dial: reachable(door.Bound)}, nil
}

// pickDoor takes the listener of the name, which must have the protocol; without a name the first of the protocol.
func pickDoor(doors []handler.Door, name, protocol string) (handler.Door, error) {
	var names []string
	for _, d := range doors {
		names = append(names, d.Name+" ("+d.Protocol+")")
	}
	i := slices.IndexFunc(doors, func(d handler.Door) bool {
		return d.Protocol == protocol && (name == "" || strings.EqualFold(d.Name, name))
	})
	if i >= 0 {
		return doors[i], nil
	}
	what := "local.security.protocol=" + protocol
	if name != "" {
		what = "local.listener.name=" + name + " and " + what
	}
	return handler.Door{}, fmt.Errorf("this cluster has no listener with %s: it has %s", what, strings.Join(names, ", "))
}

// reachable is where a bound address is dialled from this machine.
func reachable(bound string) string {
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return bound
}
