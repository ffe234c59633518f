package config

import (
	_ "embed"
	"strings"
	"sync"
	"time"
)

const listenerPrefix = "listener.name."

// withListeners lets security keys of the broker be set for one listener, and
// there for one SASL mechanism, as Kafka does: listener.name.LISTENER.KEY and
// listener.name.LISTENER.MECHANISM.KEY, in lower case.
func withListeners(t *Table) *Table {
	t.base = func(name string) string {
		rest, ok := strings.CutPrefix(name, listenerPrefix)
		if !ok {
			return ""
		}
		for range 2 {
			if _, rest, ok = strings.Cut(rest, "."); !ok {
				return ""
			}
			if _, known := t.index[rest]; known && perListener(rest) {
				return rest
			}
		}
		return ""
	}
	return t
}

func perListener(name string) bool {
	return strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "connections.") ||
		strings.HasPrefix(name, "max.connection") || strings.HasPrefix(name, "hawser.sasl.")
}

// ListenerText is the value of a key for one listener: its own, or else the
// broker's. mechanism may be empty.
func (v Values) ListenerText(listener, mechanism, name string) string {
	of := listenerPrefix + strings.ToLower(listener) + "."
	if mechanism != "" {
		if text := v.layered(of + strings.ToLower(mechanism) + "." + name); text != "" {
			return text
		}
	}
	if text := v.layered(of + name); text != "" {
		return text
	}
	return v.Text(name)
}

// OfListener is what was set for one listener alone.
func (v Values) OfListener(listener, name string) (text string, set bool) {
	name = listenerPrefix + strings.ToLower(listener) + "." + name
	return v.layered(name), !v.IsDefault(name)
}

// ListenerOf is the listener whose own config a compound name is, in lower case; "" for any other name.
func ListenerOf(name string) string {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return ""
	}
	listener, _, _ := strings.Cut(rest, ".")
	return listener
}

// OnlyPerListener reports whether a broker key can be changed for a listener alone while the broker runs, as in Kafka: its security.
func OnlyPerListener(name string) bool {
	return strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.")
}

// ListenerMillis is ListenerText of a key in milliseconds.
func (v Values) ListenerMillis(listener, mechanism, name string) time.Duration {
	return millis(v.ListenerText(listener, mechanism, name))
}

// layered is what was set, without a default.
func (v Values) layered(name string) string {
	if v.IsDefault(name) {
		return ""
	}
	return v.Text(name)
}

//go:embed kafka_only.txt
var kafkaOnlyText string

var kafkaOnly = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(kafkaOnlyText) {
		set[name] = true
	}
	return set
})

// KafkaOnly reports broker keys of Apache Kafka 4.1 that mean nothing here. A
// server.properties written for Kafka may hold them: tell that they are left out, rather than refuse.
func KafkaOnly(name string) bool { return kafkaOnly()[name] }
