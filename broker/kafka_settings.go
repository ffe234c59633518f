package broker

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/quota"
)

// kafkaSettings reads what the Kafka door obeys.
func kafkaSettings(v config.Values) handler.Settings {
	return handler.Settings{
		RequestMaxBytes:   int32(v.Int("socket.request.max.bytes")),
		QueuedMaxBytes:    max(v.Int("queued.max.request.bytes"), 0),
		FetchMaxBytes:     int32(v.Int("fetch.max.bytes")),
		MaxIdle:           v.Millis("connections.max.idle.ms"),
		MaxConnections:    orNone(v.Int("max.connections")),
		MaxPerIP:          orNone(v.Int("max.connections.per.ip")),
		LoginMaxBytes:     int32(v.Int("sasl.server.max.receive.size")),
		FailedLoginDelay:  v.Millis("connection.failed.authentication.delay.ms"),
		PerIP:             perIP(v.Text("max.connections.per.ip.overrides")),
		CreationRate:      int(v.Int("max.connection.creation.rate")),
		Listeners:         listenerLimits(v),
		Windows:           limiterConfig(v).Windows,
		FetchSessions:     orNone(v.Int("max.incremental.fetch.session.cache.slots")),
		MetadataPage:      int32(v.Int("max.request.partition.size.limit")),
		NumPartitions:     int32(v.Int("num.partitions")),
		ReplicationFactor: int16(v.Int("default.replication.factor")),
		AutoCreateTopics:  v.Bool("auto.create.topics.enable"),
		NoDeleteTopics:    !v.Bool("delete.topic.enable"),
	}
}

// listenerLimits reads what listeners have of their own.
func listenerLimits(v config.Values) map[string]handler.ListenerLimits {
	all := map[string]handler.ListenerLimits{}
	list, err := config.ParseListeners(v.Text("listeners"))
	if err != nil {
		return all // refused at start
	}
	for _, l := range list {
		var own handler.ListenerLimits
		if text, set := v.OfListener(l.Name, "max.connections"); set {
			n, _ := strconv.Atoi(text) // it was checked when it was set
			own.MaxConnections = orNone(int64(n))
		}
		if text, set := v.OfListener(l.Name, "max.connection.creation.rate"); set {
			own.CreationRate, _ = strconv.Atoi(text)
		}
		all[strings.ToLower(l.Name)] = own
	}
	return all
}

// limiterConfig reads over which times quotas are measured.
func limiterConfig(v config.Values) auth.LimiterConfig {
	windows := func(prefix string) quota.Windows {
		return quota.Windows{Count: int(v.Int(prefix + "quota.window.num")),
			Size: time.Duration(v.Int(prefix+"quota.window.size.seconds")) * time.Second}
	}
	return auth.LimiterConfig{Windows: windows(""), Mutations: windows("controller.")}
}

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
