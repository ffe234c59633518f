package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// held is rights that a test changes.
type held struct{ now rights }

func (h *held) Allowed(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return h.now.Allowed(principal, host, op, kind, name)
}

func (h *held) AllowedSomewhere(string, string, kmsg.ACLOperation, kmsg.ACLResourceType) bool {
	return false
}

// mirrorRights is what each order needs (link-semantics, section 12), as operation and resource.
var mirrorRights = map[string][]string{
	"create":               {"ALTER kafka-cluster", "ALTER_CONFIGS kafka-cluster", "CREATE new"},
	"promote":              {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "DESCRIBE m"},
	"failover":             {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "DESCRIBE m"},
	"pause":                {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "DESCRIBE m"},
	"resume":               {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "DESCRIBE m"},
	"reverse-and-start":    {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "ALTER m"},
	"reverse-and-pause":    {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "ALTER m"},
	"truncate-and-restore": {"ALTER kafka-cluster", "DESCRIBE kafka-cluster", "ALTER m"},
}

// Each order goes through with exactly its rights, and with none of them missing.
func TestC76_RightsOnMirrorsAtTheKafkaDoor(t *testing.T) {
	for order, needs := range mirrorRights {
		h := &held{}
		w, m := newMirrorWorld(t, h)
		c := w.dial()
		give := func(now []string) kafka.ErrorCode {
			h.now = now
			if order == "create" {
				return kafka.ErrorCode(create(c, 7, true, configured(newTopic("new", -1, -1), MirrorLinkConfig, "l"))[0].ErrorCode)
			}
			return kafka.ErrorCode(alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, MirrorOrderConfig, order).ErrorCode)
		}
		if got := give(needs); got != kafka.None {
			t.Errorf("%s with all it needs: %v", order, got)
		}
		given := len(m.orders)
		for i, missing := range needs {
			want := kafka.TopicAuthorizationFailed
			if strings.HasSuffix(missing, "kafka-cluster") {
				want = kafka.ClusterAuthorizationFailed
			}
			if got := give(slices.Delete(slices.Clone(needs), i, i+1)); got != want {
				t.Errorf("%s without %s: %v, want %v", order, missing, got, want)
			}
		}
		if len(m.orders) != given {
			t.Errorf("%s was carried out without its rights", order)
		}
	}
}
