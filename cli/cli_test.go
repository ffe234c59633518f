package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
	"github.com/hawserio/hawser/rest/resttest"
)

// run is one command line against the cluster.
type run struct {
	code     int
	out, err string
}

func hawser(t *testing.T, url string, args ...string) run {
	t.Helper()
	t.Setenv("HAWSER_REST_URL", url)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out, err bytes.Buffer
	code := cli.Main(ctx, args, &out, &err, cli.Hooks{Version: "test"})
	return run{code, out.String(), err.String()}
}

// ok is a command that must succeed.
func ok(t *testing.T, url string, args ...string) string {
	t.Helper()
	r := hawser(t, url, args...)
	if r.code != 0 {
		t.Fatalf("hawser %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

func TestALinksLife(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	if got := ok(t, url, "link", "list"); got != "None found.\n" {
		t.Errorf("empty list: %q", got)
	}
	got := ok(t, url, "link", "create", "my-link", "--source-cluster", "src-1", "--source-bootstrap-server", "SASL_SSL://a:9092,b:9092",
		"--source-api-key", "u", "--source-api-secret", `p"w\`, "--config", `consumer.offset.sync.enable=true,consumer.offset.group.filters={"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	want := `Created cluster link "my-link" with configs:
"bootstrap.servers"="SASL_SSL://a:9092,b:9092"
"consumer.offset.group.filters"="{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}"
"consumer.offset.sync.enable"="true"
"sasl.mechanism"="PLAIN"
"security.protocol"="SASL_SSL"
`
	if got != want {
		t.Errorf("create printed\n%swant\n%s", got, want)
	}
	if got := ok(t, url, "mirror", "create", "orders", "--link", "my-link"); got != "Created mirror topic \"orders\".\n" {
		t.Errorf("mirror create: %q", got)
	}
	if got := ok(t, url, "link", "list", "--include-topics"); !strings.Contains(got, "orders") || !strings.HasPrefix(got, "Name    | ID ") {
		t.Errorf("list: %s", got)
	}
}

// aCluster has a link "my-link" with mirrors "orders" and "clicks", and a stopped one, "old".
func aCluster(t *testing.T) (*resttest.Cluster, string) {
	t.Helper()
	c := resttest.New(t)
	url := c.Serve(t)
	ok(t, url, "link", "create", "my-link", "--source-cluster", "src-1", "--source-bootstrap-server", "a:9092")
	for _, topic := range []string{"orders", "clicks", "old"} {
		ok(t, url, "mirror", "create", topic, "--link", "my-link")
	}
	ok(t, url, "mirror", "promote", "old")
	return c, url
}

func TestAListNamesTheErrorsOfMirrorsThatLookWell(t *testing.T) {
	c, url := aCluster(t)
	c.Links.PutMirror(link.MirrorInfo{Link: "my-link", Topic: "orders", SourceTopic: "orders", Partitions: 1, Status: "ACTIVE",
		Err: "STORAGE_ERROR", ErrText: "partition 0: its directory is gone", Lags: []link.Lag{{Partition: 0}}})
	if r := hawser(t, url, "mirror", "list"); r.code != 0 || r.err != "orders: STORAGE_ERROR: partition 0: its directory is gone\n" {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
	if got := ok(t, url, "mirror", "list", "-o", "json"); strings.Count(got, `"mirror_topic_error": "STORAGE_ERROR"`) != 1 || strings.Contains(got, "NO_ERROR") {
		t.Errorf("JSON: %s", got)
	}
}

func TestTables(t *testing.T) {
	c, url := aCluster(t)
	c.Links.PutMirror(link.MirrorInfo{Link: "my-link", Topic: "orders", SourceTopic: "orders", Partitions: 2, Status: "FAILED", StateMs: 1_700_000_000_000,
		Err: "SOURCE_TOPIC_ID_CHANGED", ErrText: "The source topic was made anew.\x1b[31m\nFail over.",
		Lags: []link.Lag{{Partition: 0, Records: 12, LastSourceFetch: 100, Lost: 3}, {Partition: 1, LastSourceFetch: -1, Err: "offset 5 is corrupt"}}})
	for _, row := range []struct{ args, want string }{
		{"mirror list", `
Link Name | Mirror Topic Name | Source Topic Name | Mirror Status | Status Time (ms) | Num Partition | Max Per Partition Mirror Lag | RPO
----------+-------------------+-------------------+---------------+------------------+---------------+------------------------------+--------
my-link   | clicks            | clicks            | ACTIVE        | 1700000000000    | 2             | 0                            | unknown
my-link   | old               | old               | STOPPED       | 1700000000001    | 2             | 0                            |
my-link   | orders            | orders            | FAILED        | 1700000000000    | 2             | 12                           | unknown
`},
		{"mirror list --mirror-status stopped --link my-link -o json", `
[
  {
    "link_name": "my-link",
    "mirror_topic_name": "old",
    "source_topic_name": "old",
    "mirror_status": "STOPPED",
    "status_time_ms": 1700000000001,
    "num_partition": 2,
    "max_per_partition_mirror_lag": 0
  }
]
`},
		{"mirror describe orders", `
Link Name | Mirror Topic Name | Source Topic Name | Mirror Status | Mirror Topic Error      | Status Time (ms) | Partition | Partition Mirror Lag | Last Source Fetch Offset | RPO
----------+-------------------+-------------------+---------------+-------------------------+------------------+-----------+----------------------+--------------------------+--------
my-link   | orders            | orders            | FAILED        | SOURCE_TOPIC_ID_CHANGED | 1700000000000    | 0         | 12                   | 100                      | unknown
my-link   | orders            | orders            | FAILED        | SOURCE_TOPIC_ID_CHANGED | 1700000000000    | 1         | 0                    | -1                       | unknown

The source topic was made anew.[31m Fail over.
Partition 0: the source removed 3 records before they were mirrored.
Partition 1: offset 5 is corrupt
`},
		{"mirror pause clicks", `
Mirror Topic Name | Partition | Partition Mirror Lag | Last Source Fetch Offset | Error Message | Error Code
------------------+-----------+----------------------+--------------------------+---------------+-----------
clicks            | 0         | 0                    | -1                       |               |
clicks            | 1         | 0                    | -1                       |               |
Mirror topic "clicks" is PAUSED now.
`},
		{"mirror truncate-and-restore old --dry-run --include-partitions -o yaml", `
- mirror_topic_name: old
  partition: 0
  error_message: ""
  error_code: ""
  messages_truncated: "3"
  offset_truncated_to: "100"
- mirror_topic_name: old
  partition: 1
  error_message: ""
  error_code: ""
  messages_truncated: "4"
  offset_truncated_to: "90"
`},
		{"mirror truncate-and-restore old --dry-run", `
[DRY RUN] Nothing was changed. This is where truncate-and-restore would begin:
Mirror Topic Name | Error Message | Error Code | Messages Truncated
------------------+---------------+------------+-------------------
old               |               |            | 7
old, partition 0: group billing would go back from offset 103 to 100.
`},
		{"mirror state-transition-error list clicks", "\nNone found.\n"},
		{"mirror state-transition-error list clicks -o json", "\n[]\n"},
		{"topic list -o yaml", "\n[]\n"},
	} {
		if got := "\n" + ok(t, url, strings.Fields(row.args)...); got != row.want {
			t.Errorf("hawser %s printed%swant%s", row.args, got, row.want)
		}
	}
}

// twoLinks has one link in trouble, "l", and one without, "m".
func twoLinks(t *testing.T) string {
	t.Helper()
	c := resttest.New(t)
	c.Links.Put(link.Info{Name: "l", ID: "AAAAAAAAAAAAAAAAAAAAAQ", State: "UNAVAILABLE", RemoteClusterID: "src", Err: "TIMEOUT_ERROR", ErrText: "No answer.", Topics: []string{"b", "a"},
		Categories: map[string]int32{"ACTIVE": 10, "IN_ERROR": 2}, Tasks: []link.Task{{Name: "AclSync", State: "IN_ERROR", Errors: []link.Coded{{Code: "SECURITY_DISABLED_ERROR", Text: "No authorizer."}, {Code: "INTERNAL_ERROR", Text: "x"}}}}})
	c.Links.Put(link.Info{Name: "m", ID: "AAAAAAAAAAAAAAAAAAAAAg", State: "ACTIVE", Err: "NO_ERROR", Mode: "BIDIRECTIONAL", RemoteClusterID: "other"})
	return c.Serve(t)
}

func TestLinkTables(t *testing.T) {
	url := twoLinks(t)
	for _, row := range []struct{ args, want string }{
		{"link list", `
Name | ID                     | Source Cluster | Destination Cluster | Remote Cluster | State       | Error         | Error Message
-----+------------------------+----------------+---------------------+----------------+-------------+---------------+--------------
l    | AAAAAAAAAAAAAAAAAAAAAQ | src            |                     | src            | UNAVAILABLE | TIMEOUT_ERROR | No answer.
m    | AAAAAAAAAAAAAAAAAAAAAg |                |                     | other          | ACTIVE      |               |
`},
		{"link list --include-topics -o json", `
[
  {
    "link_name": "l",
    "link_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "topic_name": "a",
    "source_cluster": "src",
    "remote_cluster": "src",
    "state": "UNAVAILABLE",
    "error": "TIMEOUT_ERROR",
    "error_message": "No answer."
  },
  {
    "link_name": "l",
    "link_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "topic_name": "b",
    "source_cluster": "src",
    "remote_cluster": "src",
    "state": "UNAVAILABLE",
    "error": "TIMEOUT_ERROR",
    "error_message": "No answer."
  },
  {
    "link_name": "m",
    "link_id": "AAAAAAAAAAAAAAAAAAAAAg",
    "topic_name": "",
    "remote_cluster": "other",
    "state": "ACTIVE"
  }
]
`},
		{"link describe l", `
Name:                           l
ID:                             AAAAAAAAAAAAAAAAAAAAAQ
Source Cluster:                 src
Remote Cluster:                 src
State:                          UNAVAILABLE
Error:                          TIMEOUT_ERROR
Error Message:                  No answer.
Mirror Partition States Count:  ACTIVE: 10, IN_ERROR: 2
`},
		{"link task list l", `
Task Name | State    | Errors
----------+----------+---------------------------------------------------------------
AclSync   | IN_ERROR | SECURITY_DISABLED_ERROR: "No authorizer.", INTERNAL_ERROR: "x"
`},
		{"link task list l -o yaml", `
- task_name: AclSync
  state: IN_ERROR
  errors:
    - error_code: SECURITY_DISABLED_ERROR
      error_message: No authorizer.
    - error_code: INTERNAL_ERROR
      error_message: x
`},
		{"link task list m -o json", "\n[]\n"},
	} {
		got := "\n" + ok(t, url, strings.Fields(row.args)...)
		if got != row.want {
			t.Errorf("hawser %s printed%swant%s", row.args, got, row.want)
		}
	}
}

func TestTopicsGroupsCluster(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	c.Groups.List = []rest.Group{{ID: "g", State: "Stable", Type: "classic", Assignor: "range", Coordinator: 2}}
	c.Groups.LagsOf = map[string][]rest.GroupLag{"g": {{Topic: "t", Committed: 5, End: 9, Member: rest.Member{ID: "c-1", ClientID: "c"}}}}
	for _, row := range []struct{ args, want string }{
		{"topic create t --partitions 3 --config cleanup.policy=compact,retention.ms=5", "Created topic \"t\".\n"},
		{"topic create t --if-not-exists", "Topic \"t\" exists.\n"},
		{"topic create u --dry-run", "[DRY RUN] Created topic \"u\".\n"},
		{"topic describe t -o json", "{\n  \"name\": \"t\",\n  \"is_internal\": false,\n  \"replication_factor\": 1,\n  \"partition_count\": 3\n}\n"},
		{"topic update t --partitions 4 --remove retention.ms", "Updated topic \"t\".\n"},
		{"topic configuration update t --config retention.ms=6 --dry-run", "[DRY RUN] Updated topic \"t\".\n"},
		{"topic configuration list t", `Name           | Value     | Read-Only | Source
---------------+-----------+-----------+---------------------
cleanup.policy | compact   | false     | DYNAMIC_TOPIC_CONFIG
retention.ms   | 604800000 | false     | DEFAULT_CONFIG
`},
		{"topic list", `Name | Internal | Replication Factor | Partition Count
-----+----------+--------------------+----------------
t    | false    | 1                  | 4
`},
		{"group list -o yaml", "- consumer_group_id: g\n  state: STABLE\n  type: CLASSIC\n  partition_assignor: range\n  is_simple: false\n  coordinator: \"2\"\n"},
		{"group describe g", `Consumer Group:      g
State:               STABLE
Type:                CLASSIC
Partition Assignor:  range
Simple:              false
Coordinator:         2

Topic | Partition | Current Offset | Log End Offset | Lag | Consumer | Instance | Client
------+-----------+----------------+----------------+-----+----------+----------+-------
t     | 0         | 5              | 9              | 4   | c-1      |          | c
`},
		{"cluster describe -o json --url " + url, `{
  "cluster_id": "` + resttest.ClusterID + `",
  "controller": "1",
  "rest_url": "` + url + `/kafka/v3",
  "report_key": "9ZP03Nu8GrXPAUkbKNxHOKBzxPX83SShgFkRNK-f2lw",
  "brokers": [
    {
      "broker_id": 1,
      "address": "b1.example:9092"
    },
    {
      "broker_id": 2,
      "address": "b2.example:9092",
      "rack": "east"
    }
  ]
}
`},
		{"topic delete t", "Deleted topic \"t\".\n"},
		{"version", "Version:  test\n"},
		{"version -o json", "{\n  \"version\": \"test\"\n}\n"},
	} {
		if got := ok(t, url, strings.Fields(row.args)...); got != row.want {
			t.Errorf("hawser %s printed\n%swant\n%s", row.args, got, row.want)
		}
	}
}

func TestExitCodeIs1WhenATopicFailed(t *testing.T) {
	c, url := aCluster(t)
	r := hawser(t, url, "mirror", "pause", "orders", "old", "--link", "my-link")
	want := `Mirror Topic Name | Partition | Partition Mirror Lag | Last Source Fetch Offset | Error Message                                             | Error Code
------------------+-----------+----------------------+--------------------------+-----------------------------------------------------------+-----------
old               | -1        | -1                   | -1                       | Topic 'old' has already stopped its mirror from 'my-link' | 400
orders            | 0         | 0                    | -1                       |                                                           |
orders            | 1         | 0                    | -1                       |                                                           |
Mirror topic "orders" is PAUSED now.
`
	if r.code != 1 || r.out != want || !strings.Contains(r.err, "1 of 2 topics failed: old") {
		t.Errorf("exit %d\n%swant\n%s%s", r.code, r.out, want, r.err)
	}
	if last := c.Links.Ordered[len(c.Links.Ordered)-1]; last != "pause my-link old,orders" {
		t.Errorf("ordered %q", last)
	}
}

// TestWhatIsStoppedAlreadyHasNotFailed: a failover that is said a second time, to get the rest of the topics, ends well.
func TestWhatIsStoppedAlreadyHasNotFailed(t *testing.T) {
	_, url := aCluster(t)
	for _, verb := range []string{"promote", "failover"} {
		r := hawser(t, url, "mirror", verb, "orders", "old", "--link", "my-link", "--dry-run")
		if r.code != 0 || strings.Contains(r.out, "Topic 'old'") || !strings.Contains(r.out, "\nSTOPPED already, nothing to do: old.\n") {
			t.Errorf("%s: exit %d\n%s%s", verb, r.code, r.out, r.err)
		}
	}
	r := hawser(t, url, "mirror", "failover", "old", "nope", "--link", "my-link", "--wait")
	if r.code != 1 || !strings.Contains(r.err, "1 of 2 topics failed: nope;") || !strings.Contains(r.out, "STOPPED already, nothing to do: old.") {
		t.Errorf("beside a topic that is no mirror: exit %d\n%s%s", r.code, r.out, r.err)
	}
	var rows []struct {
		Topic   string `json:"mirror_topic_name"`
		Message string `json:"error_message"`
		Already bool   `json:"already_stopped"`
	}
	if err := json.Unmarshal([]byte(ok(t, url, "mirror", "failover", "old", "orders", "--link", "my-link", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Message != "" || row.Already != (row.Topic == "old") {
			t.Errorf("as JSON %+v", row)
		}
	}
}

// TestNamesStandForFilters: nobody has to write the filters' JSON for what people want first.
func TestNamesStandForFilters(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	got := ok(t, url, "link", "create", "l", "--source-cluster", "src-1", "--source-bootstrap-server", "a:9092", "--sync-groups", "*,!test-*", "--sync-groups", "! x")
	want := `"consumer.offset.group.filters"="{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"},{"name":"test-","patternType":"PREFIXED","filterType":"EXCLUDE"},{"name":"x","patternType":"LITERAL","filterType":"EXCLUDE"}]}"
"consumer.offset.sync.enable"="true"
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("create printed\n%swant\n%s", got, want)
	}
	got = ok(t, url, "link", "create", "rights", "--source-cluster", "src-1", "--source-bootstrap-server", "a:9092", "--sync-acls")
	want = `"acl.filters"="{"aclFilters":[{"resourceFilter":{"resourceType":"any","patternType":"any"},"accessFilter":{"operation":"any","permissionType":"any"}}]}"
"acl.sync.enable"="true"
`
	if !strings.Contains(got, want) {
		t.Errorf("create printed\n%swant\n%s", got, want)
	}
	for args, words := range map[string]string{
		"--sync-acls --config acl.filters={}": "Give one of them",
		"--sync-groups !x":                    "only leaves out",
		"--sync-groups a*b":                   `"a*b" is neither`,
		"--sync-groups a,,b":                  `"" is neither`,
		"--sync-groups a --config consumer.offset.sync.enable=true": "Give one of them",
		"--auto-mirror *x": `"*x" is neither`,
	} {
		if r := hawser(t, url, append([]string{"link", "update", "l"}, strings.Fields(args)...)...); r.code != 1 || !strings.Contains(r.err, words) {
			t.Errorf("%s: exit %d, %s", args, r.code, r.err)
		}
	}
}

func TestAPrefixedLinkSaysWhatToType(t *testing.T) {
	c := resttest.New(t)
	url := c.Serve(t)
	ok(t, url, "link", "create", "eu", "--source-cluster", "src-1", "--source-bootstrap-server", "a:9092", "--config", "cluster.link.prefix=eu.")
	r := hawser(t, url, "mirror", "create", "orders", "--link", "eu")
	if r.code != 1 || !strings.HasSuffix(r.err, "\nSay: hawser mirror create eu.orders --source-topic orders --link eu\n") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

// TestAPatternThatFitsNothingFails: a script must not take it for a failover.
func TestAPatternThatFitsNothingFails(t *testing.T) {
	_, url := aCluster(t)
	r := hawser(t, url, "mirror", "failover", "--pattern", "ordrs.*", "--link", "my-link")
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, "nothing was ordered") || !strings.Contains(r.err, "hawser mirror list --link my-link") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}

// TestWhatIsSaidIsOneObjectForPrograms: a command that has no data says in JSON and YAML what it says to people.
func TestWhatIsSaidIsOneObjectForPrograms(t *testing.T) {
	_, url := aCluster(t)
	ok(t, url, "topic", "create", "t")
	ok(t, url, "topic", "create", "u")
	for _, row := range []struct{ args, want string }{
		{"topic create v --dry-run -o json", "{\n  \"message\": \"[DRY RUN] Created topic \\\"v\\\".\"\n}\n"},
		{"link update my-link --config bootstrap.servers=unreachable.example:1 --no-validate", "Updated cluster link \"my-link\".\n"},
		{"link update my-link --config cluster.link.paused=true -o yaml", "message: Updated cluster link \"my-link\".\n"},
		{"topic delete t u -o json", "{\n  \"message\": \"Deleted topic \\\"t\\\".\\nDeleted topic \\\"u\\\".\"\n}\n"},
	} {
		if got := ok(t, url, strings.Fields(row.args)...); got != row.want {
			t.Errorf("hawser %s printed %q, want %q", row.args, got, row.want)
		}
	}
}

func TestVerbsReachTheirRoutes(t *testing.T) {
	for _, row := range [][2]string{
		{"promote", "promote"}, {"failover", "failover"}, {"pause", "pause"}, {"resume", "resume"}, {"reverse-and-start", "reverse-and-start-mirror"},
		{"reverse-and-pause", "reverse-and-pause-mirror"}, {"truncate-and-restore", "truncate-and-restore"},
	} {
		c, url := aCluster(t)
		orders := len(c.Links.Ordered)
		ok(t, url, "mirror", row[0], "--pattern", "cl.*", "--link", "my-link", "--dry-run")
		if len(c.Links.Ordered) != orders {
			t.Errorf("%s: a dry run was carried out", row[0])
		}
		ok(t, url, "mirror", row[0], "--pattern", "cl.*", "--link", "my-link")
		if last := c.Links.Ordered[len(c.Links.Ordered)-1]; last != row[1]+" my-link clicks" {
			t.Errorf("%s ordered %q", row[0], last)
		}
	}
}

func TestDryRunOfALink(t *testing.T) {
	_, url := aCluster(t)
	if got := ok(t, url, "link", "create", "other", "--source-bootstrap-server", "a:1", "--dry-run"); !strings.HasPrefix(got, "[DRY RUN] Created cluster link \"other\"") {
		t.Errorf("got %s", got)
	}
	if r := hawser(t, url, "link", "describe", "other"); r.code != 1 {
		t.Error("a dry run made a link")
	}
	if r := hawser(t, url, "link", "delete", "my-link", "--force"); r.code != 1 || !strings.Contains(r.err, "clicks, orders") || !strings.Contains(r.err, "--with-live-mirrors") {
		t.Errorf("--force deleted a link with live mirrors: %+v", r)
	}
	ok(t, url, "link", "delete", "my-link", "--with-live-mirrors", "--dry-run")
	ok(t, url, "link", "delete", "my-link", "--with-live-mirrors")
	if r := hawser(t, url, "link", "describe", "my-link"); r.code != 1 || !strings.Contains(r.err, "does not exist") {
		t.Errorf("got %+v", r)
	}
}

func TestMirrorUpdateTopAndDryRun(t *testing.T) {
	_, url := aCluster(t)
	ok(t, url, "topic", "create", "clicks") // the fake keeps mirrors and topics apart
	if got := ok(t, url, "mirror", "update", "clicks", "--dry-run", "--config", "retention.ms=1000"); got != "[DRY RUN] Updated mirror topic \"clicks\".\n" {
		t.Errorf("update: %s", got)
	}
	if got := ok(t, url, "mirror", "create", "new", "--link", "my-link", "--dry-run"); got != "[DRY RUN] Created mirror topic \"new\".\n" {
		t.Errorf("create: %s", got)
	}
	if r := hawser(t, url, "mirror", "describe", "new"); r.code != 1 {
		t.Errorf("the dry run made a mirror: %s", r.out)
	}
	got := ok(t, url, "mirror", "top", "--iterations", "2", "--interval", "100ms")
	if strings.Count(got, "3 mirror topics (2 ACTIVE, 1 STOPPED), 0 records behind") != 2 || strings.Count(got, "| ACTIVE  | clicks       | my-link |") != 2 {
		t.Errorf("top:\n%s", got)
	}
}

func TestAnOrdersOpenTransactionsAreShown(t *testing.T) {
	c, url := aCluster(t)
	c.Links.Open = []link.OpenTransaction{{Partition: 1, Producer: 77, From: 12, Split: true}}
	got := ok(t, url, "mirror", "failover", "orders", "--dry-run")
	if want := "orders, partition 1: the transaction of producer 77 that is open since offset 12 would be aborted. It is open, too,"; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
}

func TestADryRunsMissingRightsAreShown(t *testing.T) {
	c, url := aCluster(t)
	c.Links.Missing = []link.MissingACL{{Operation: "READ", Topic: "clicks", Need: "promote does not end without it"}}
	got := ok(t, url, "mirror", "promote", "orders", "--dry-run")
	if want := "orders: the link's principal has no READ on the source topic clicks: promote does not end without it."; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
}

func TestADryRunSaysWhatPromoteWouldWaitFor(t *testing.T) {
	c, url := aCluster(t)
	c.Links.Waits = []link.Coded{{Code: "INVALID_REQUEST_ERROR", Text: "the link is paused"}}
	if got, want := ok(t, url, "mirror", "promote", "orders", "--dry-run"), "\norders: promote would wait: the link is paused.\n"; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
}

func TestThePledgeThatAnOrderTakesBackIsShown(t *testing.T) {
	c, url := aCluster(t)
	c.Links.Withdrawn = &link.WithdrawnPledge{Restore: "id/1", Cluster: "lost", Topic: "orders", SinceMs: 5, Says: "SILENT", Text: "The pledge to cluster lost is taken back."}
	if got := ok(t, url, "mirror", "failover", "orders", "--force", "--dry-run"); !strings.Contains(got, "orders: The pledge to cluster lost is taken back.") {
		t.Errorf("the consequence is not in\n%s", got)
	}
	door, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done, err := door.Order(t.Context(), "my-link", "failover?force=true", api.AlterMirrorsRequest{MirrorTopicNames: []string{"orders"}}, client.ValidateOnly)
	want := api.WithdrawnPledge{RestoreID: "id/1", ClusterID: "lost", TopicName: "orders", SinceMs: 5, ClusterSays: "SILENT", Consequence: "The pledge to cluster lost is taken back."}
	if err != nil || len(done) != 1 || done[0].PledgeWithdrawn == nil || *done[0].PledgeWithdrawn != want {
		t.Errorf("REST answers %+v, %v", done, err)
	}
}

func TestAMirrorsFaultIsSaidOnce(t *testing.T) {
	c, url := aCluster(t)
	c.Links.PutMirror(link.MirrorInfo{Link: "my-link", Topic: "orders", SourceTopic: "orders", Partitions: 1, Status: "FAILED",
		Err: "CORRUPT_BATCH", ErrText: "partition 0: offset 5 is too large", Lags: []link.Lag{{Err: "partition 0: offset 5 is too large"}}})
	if got := ok(t, url, "mirror", "describe", "orders"); strings.Count(got, "offset 5 is too large") != 1 {
		t.Errorf("the fault is not said once:\n%s", got)
	}
}

// TestNamesOfOtherTools shows that the name of the program decides what it is.
func TestNamesOfOtherTools(t *testing.T) {
	_, url := aCluster(t)
	for _, row := range []struct{ program, args, want string }{
		{"/usr/bin/kafka-mirrors", "--list --link my-link", "clicks\nold\norders\n"},
		{"kafka-mirrors.sh", "--list --topics old", "old\n"},
		{"kafka-cluster-links", "--list --link my-link --include-topics", "topics: [clicks, old, orders]"},
		{"confluent", "kafka mirror list --mirror-status stopped", "old"},
		{"hawser", "kafka-mirrors --list --topics clicks", "clicks\n"},
	} {
		var out, err bytes.Buffer
		code := cli.Main(t.Context(), append(strings.Fields(row.args), "--url", url), &out, &err, cli.Hooks{Program: row.program})
		if code != 0 || !strings.Contains(out.String(), row.want) {
			t.Errorf("%s %s: exit %d, want %q, got\n%s%s", row.program, row.args, code, row.want, out.String(), err.String())
		}
	}
}

// TestHelpFitsATerminal: the words about flags wrap.
func TestHelpFitsATerminal(t *testing.T) {
	for _, args := range []string{"link create", "link update", "mirror failover", "mirror list", "serve", "kafka-mirrors"} {
		help := ok(t, "http://127.0.0.1:1", append(strings.Fields(args), "--help")...)
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		if !strings.Contains(flags, "--url URL") {
			t.Errorf("hawser %s --help lists no flags:\n%s", args, help)
		}
		for line := range strings.Lines(flags) {
			if len([]rune(line)) > 101 {
				t.Errorf("hawser %s --help has a line of %d characters: %s", args, len([]rune(line)), line)
			}
		}
	}
}

// TestATopicThatIsAMirrorSaysSo: to people; programs get the fields that they know.
func TestATopicThatIsAMirrorSaysSo(t *testing.T) {
	_, url := aCluster(t)
	for _, topic := range []string{"orders", "old", "plain"} {
		ok(t, url, "topic", "create", topic, "--partitions", "1")
	}
	if got, want := ok(t, url, "topic", "describe", "orders"), "\nA mirror topic of \"orders\" over link \"my-link\", ACTIVE: 'hawser mirror describe orders' says how far it is.\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end in %q", got, want)
	}
	for _, args := range [][]string{{"old"}, {"plain"}, {"orders", "-o", "json"}} {
		if got := ok(t, url, append([]string{"topic", "describe"}, args...)...); strings.Contains(got, "irror") {
			t.Errorf("%v: %s", args, got)
		}
	}
}
