package broker

import (
	"net"
	"strconv"
	"strings"
)

// orNone reads a count for the Kafka door, where 0 would mean the default.
func orNone(n int64) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// perIP reads max.connections.per.ip.overrides, which has been checked. Hosts are addresses: names are not resolved.
func perIP(overrides string) map[string]int {
	limits := map[string]int{}
	for _, item := range strings.Split(overrides, ",") {
		host, text, err := net.SplitHostPort(strings.TrimSpace(item))
		n, badNumber := strconv.Atoi(text)
		if err == nil && badNumber == nil {
			limits[host] = n
		}
	}
	return limits
}
