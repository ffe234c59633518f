//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokerConfigsOf is all configs of a broker as it describes them itself, with its words on them.
func brokerConfigsOf(t *testing.T, bootstrap, node string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	rq := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, node
	rq.Resources, rq.IncludeDocumentation = append(rq.Resources, r), true
	rs, err := rq.RequestWith(testContext(t), Client(t, bootstrap))
	if err != nil || rs.Resources[0].ErrorCode != 0 {
		t.Fatal(err, rs)
	}
	all := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range rs.Resources[0].Configs {
		all[c.Name] = c
	}
	return all
}

// Of the configs that Kafka lets be changed while it runs:
var (
	// notHere name classes, algorithms and logins of Java's: taken without effect they would promise a security that is not there.
	notHere = []string{"metric.reporters", "principal.builder.class", "sasl.kerberos.", "sasl.login.", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites",
		"ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm"}
	// atStart are read when the broker starts.
	atStart = []string{"listeners", "listener.security.protocol.map"}
	// perListener are changed for one listener alone, there and here.
	perListener = []string{"ssl.", "sasl."}
)

// TestDynamicConfigs_AsKafka walks what a running Kafka says can be changed while it runs. Each is taken here, acting or with words
// that it has no effect, or it is refused with words.
func TestDynamicConfigs_AsKafka(t *testing.T) {
	k := SharedKafka(t)
	h := StartHawser(t)
	theirs, ours := brokerConfigsOf(t, k.Bootstrap(), "1"), brokerConfigsOf(t, h.Kafka, "1")
	admin := Client(t, h.Kafka)
	of := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(part string) bool {
			return name == part || strings.HasSuffix(part, ".") && strings.HasPrefix(name, part)
		})
	}
	dynamic, idle := 0, 0
	for name, c := range theirs {
		if c.ReadOnly {
			continue
		}
		dynamic++
		o, known := ours[name]
		value := ""
		switch { // what stands there already, as far as may be
		case known && o.Value != nil:
			value = *o.Value
		case c.Value != nil:
			value = *c.Value
		}
		code, words := tryBrokerConfig(t, admin, name, value)
		switch {
		case of(notHere, name):
			if known || code == 0 || !strings.Contains(words, "of Apache Kafka means nothing here") {
				t.Errorf("%s: known %v, %d %s", name, known, code, words)
			}
		case of(atStart, name):
			if !o.ReadOnly || code == 0 || !strings.Contains(words, "Set it in the configuration file") {
				t.Errorf("%s: read-only %v, %d %s", name, o.ReadOnly, code, words)
			}
		case of(perListener, name):
			if !known || o.ReadOnly || code == 0 || !strings.Contains(words, "only per-listener") {
				t.Errorf("%s: known %v, read-only %v, %d %s", name, known, o.ReadOnly, code, words)
			}
		case !known || o.ReadOnly || code != 0 && c.Value != nil:
			t.Errorf("%s: known %v, read-only %v, %d %s", name, known, o.ReadOnly, code, words)
		case strings.Contains(*o.Documentation, "without effect"):
			idle++
		}
	}
	if dynamic < 80 || idle < 20 {
		t.Errorf("Kafka lets %d configs be changed; %d of them have no effect here", dynamic, idle)
	}
	for _, name := range []string{"num.io.threads", "num.replica.fetchers", "background.threads"} {
		if code, words := tryBrokerConfig(t, admin, name, "0"); code == 0 {
			t.Errorf("%s=0 is taken: %s", name, words)
		}
	}
}

// tryBrokerConfig asks whether a config could be set on broker 1.
func tryBrokerConfig(t *testing.T, c kmsg.Requestor, name, value string) (code int16, words string) {
	t.Helper()
	rq := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rq.ValidateOnly = true
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	row := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	row.Name, row.Value = name, &value
	r.Configs = append(r.Configs, row)
	rq.Resources = append(rq.Resources, r)
	rs, err := rq.RequestWith(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if m := rs.Resources[0].ErrorMessage; m != nil {
		words = *m
	}
	return rs.Resources[0].ErrorCode, words
}
