//go:build e2e

package e2e

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// recordAdmin writes down anew what Apache Kafka answers.
var recordAdmin = flag.Bool("record-admin", false, "ask Apache Kafka and write testdata/admin.txt")

const (
	adminFile = "testdata/admin.txt"
	adminHead = "# What Apache Kafka 4.1.0 (KRaft, one broker) answers the calls of testdata/clients/Administer.java: call, tab, answer or error class.\n" +
		"# Written by: go test -tags e2e ./e2e -run TestAdmin -record-admin\n"
)

// administer runs the program and returns its lines.
func administer(t *testing.T, bootstrap, settle string) []string {
	t.Helper()
	out, err := javaProgram(t, "Administer", bootstrap, settle).Output()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || lines[len(lines)-1] != "done" {
		t.Fatalf("%v after %d lines, the last %q", err, len(lines), lines[len(lines)-1])
	}
	return lines
}

func TestAdmin_RecordKafka(t *testing.T) {
	if !*recordAdmin {
		t.Skip("records only with -record-admin: what it wrote is in " + adminFile)
	}
	k := NewKafka(t, KafkaOptions{Brokers: 1, Guarded: []plainUser{}, Properties: []string{"offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=2"}})
	if err := os.WriteFile(adminFile, []byte(adminHead+strings.Join(administer(t, k.Bootstrap(), "500"), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// adminDifferences are the calls that are answered otherwise than by Kafka, with our answer and the reason.
var adminDifferences = map[string]struct{ answer, why string }{
	"listOffsets earliest":                              {"{a-0=3 of -1 epoch 0, a-1=0 of -1 epoch 0, a-2=0 of -1 epoch nothing}", "no epoch is told that is not in the log, and a-2 is empty"},
	"listOffsets earliest local":                        {"{a-0=3 of -1 epoch 0, a-2=0 of -1 epoch nothing}", "no epoch is told that is not in the log, and a-2 is empty"},
	"describeProducers after an abort":                  {"[sequence -1 transaction OptionalLong.empty, sequence 0 transaction OptionalLong.empty]", "a marker for a transaction that is not open is not written"},
	"alterShareGroupOffsets":                            {"UnsupportedVersionException", "there are no share groups"},
	"alterUserScramCredentials, two mechanisms at once": {"{eve=null}", "two mechanisms are two credentials, and kafka-configs sends them so"},
	"listConfigResources after":                         {"[]", "a group whose last config was deleted has none"},
	"describeFeatures":                                  {"[{group.version=FinalizedVersionRange[min_version_level:1, max_version_level:1], transaction.version=FinalizedVersionRange[min_version_level:2, max_version_level:2]}, {group.version=SupportedVersionRange[min_version:1, max_version:1], transaction.version=SupportedVersionRange[min_version:1, max_version:2]}]", "there are only the features that clients ask for"},
	"updateFeatures of none":                            {"{no.such=UnsupportedVersionException}", "there is no feature that could be changed"},
	"describeMetadataQuorum":                            {"UnsupportedVersionException", "there is no KRaft quorum"},
	"unregisterBroker that is not":                      {"UnsupportedVersionException", "there is no KRaft quorum"},
	"alterReplicaLogDirs elsewhere":                     {"{a-0-1=UnsupportedVersionException}", "there is one log directory"},
	"alterReplicaLogDirs to where it is":                {"{a-0-1=UnsupportedVersionException, none-0-1=UnsupportedVersionException}", "there is one log directory"},
	"createDelegationToken":                             {"UnsupportedVersionException", "there are no delegation tokens"},
	"describeDelegationToken":                           {"UnsupportedVersionException", "there are no delegation tokens"},
	"renewDelegationToken":                              {"UnsupportedVersionException", "there are no delegation tokens"},
	"expireDelegationToken":                             {"UnsupportedVersionException", "there are no delegation tokens"},
}

// TestAdmin_AsKafka calls the methods of the Java Admin, and wants Kafka's answers, or classes of error.
func TestAdmin_AsKafka(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(adminFile)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
	h := StartHawser(t, "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "--set", "broker.id=1", "--set", "super.users=User:ANONYMOUS", "--set", "auto.create.topics.enable=false",
		"--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=4", "--set", "transaction.state.log.num.partitions=2")
	got := administer(t, h.Kafka, "0")
	if len(got) != len(want) {
		t.Fatalf("%d calls, %d are recorded: run with -record-admin", len(got), len(want))
	}
	differ := 0
	for i := range want {
		call, kafka, _ := strings.Cut(want[i], "\t")
		asked, answer, _ := strings.Cut(got[i], "\t")
		known, expected := adminDifferences[call]
		switch {
		case asked != call:
			t.Fatalf("call %d is %q, recorded is %q: run with -record-admin", i, asked, call)
		case answer == kafka && expected:
			t.Errorf("%s is answered as by Kafka, and is listed as different: %s", call, known.why)
		case answer == kafka:
		case !expected || answer != known.answer:
			t.Errorf("%s\n\tKafka:  %s\n\thawser: %s", call, kafka, answer)
		default:
			differ++
		}
	}
	t.Logf("%d calls, %d of them answered otherwise than by Kafka, on purpose", len(want), differ)
}
