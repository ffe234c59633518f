package rest_test

import "slices"

var wrongCommands = slices.Concat(wrongWords, wrongLinkCommands, wrongMirrorCommands, wrongDoors, wrongTopicCommands, wrongToolCommands)

// command is a row of the command line.
func command(line, wrong, do string) wrongUse { return wrongUse{line, "", 0, wrong, do} }

var wrongWords = []wrongUse{
	command("mirrors", `unknown command "mirrors"`, `Did you mean "hawser mirror"?`),
	command("frobnicate", `unknown command "frobnicate"`, "Run 'hawser --help'"),
	command("link lst", `unknown command "lst" for "hawser link"`, `Did you mean "hawser link list"?`),
	command("mirror premote orders", `unknown command "premote"`, `Did you mean "hawser mirror promote"?`),
	command("link configuration set", `unknown command "set"`, "hawser link configuration --help"),
	command("mirror state-transition-error orders", `unknown command "orders"`, `Did you mean "hawser mirror state-transition-error list orders"?`),
	command("link describe", "<link> is missing", "Usage: hawser link describe <link>"),
	command("link describe a b", `"b" is one argument too many`, "Usage: hawser link describe <link>"),
	command("link list extra", `"extra" is one argument too many`, "Usage: hawser link list"),
	command("link delete", "<link> is missing", "Usage: hawser link delete"),
	command("topic delete", "<topic> is missing", "Usage: hawser topic delete"),
	command("link list --outputt json", "unknown flag: --outputt", "'hawser link list --help'"),
	command("link list -o xml", `"xml" is unknown`, "-o human, -o json, -o yaml"),
	command("topic create t --partitions many", `invalid argument "many"`, "'hawser topic create --help'"),
}

var wrongLinkCommands = []wrongUse{
	command("link describe gone", "Cluster link 'gone' does not exist", "'hawser link list'"),
	command("link create new", "where is the other cluster?", "--source-bootstrap-server HOST:PORT"),
	command("link create new --source-cluster x --remote-cluster y", "both name the other cluster", "Give one"),
	command("link create new --source-bootstrap-server {source} --config link.mode=SOURCE", "the configs say link.mode=SOURCE", "is for link.mode=DESTINATION"),
	command("link create new --source-bootstrap-server {source} --source-api-key k", "--source-api-key and --source-api-secret", "go together"),
	command("link create new --source-bootstrap-server {source} --local-api-secret k", "--local-api-key and --local-api-secret", "go together"),
	command("link create new --source-bootstrap-server 127.0.0.1:1", "connection refused", "Check that the broker runs"),
	command("link create new --source-bootstrap-server {login} --source-api-key bob --source-api-secret wrong --config security.protocol=SASL_PLAINTEXT", "uthentication", "sasl.jaas.config"),
	command("link create new --source-bootstrap-server {main}", "to self", "Give the bootstrap servers of the other cluster"),
	command("link create live --source-bootstrap-server {source}", "Cluster link 'live' already exists", "Choose another name"),
	command("link create a/b --source-bootstrap-server {source}", "Invalid Cluster Link Name", "1 to 200 ASCII letters"),
	command("link create new --source-bootstrap-server {source} --config no.such=1", "Unknown link config name: no.such", "docs/config.md"),
	command("link create new --source-bootstrap-server {source} --config consumer.offset.sync.enable=true", "consumer.offset.group.filters is empty", "Set both"),
	command("link create new --config {dir}/missing.properties", "no such file", "neither key=value nor a file that can be read"),
	command("link create new --config-file {dir}", "is a directory", "configuration file"),
	command("link create new --config =x", `"=x"`, "is not key=value"),
	command("link update live", "nothing to change", "--config key=value"),
	command("link update live --config link.mode=SOURCE", "link.mode", "reate a new link"),
	command("link update live --config bootstrap.servers=unreachable.example:1", "Cannot reach the source cluster", "--no-validate"),
	command("link delete live", "orders, paused", "--with-live-mirrors"),
	command("link delete gone", "'gone' does not exist", "'hawser link list'"),
	command("link import {dir}/none.properties", "no such file", "none.properties"),
}

var wrongMirrorCommands = []wrongUse{
	command("mirror create t", "--link is missing", "hawser link list"),
	command("mirror create more --link gone", "Cluster link 'gone' does not exist", "'hawser link list'"),
	command("mirror create orders --link live", "Topic 'orders' already exists", "delete the one that is there"),
	command("mirror create orders --link live --dry-run", "Topic 'orders' already exists", "delete the one that is there"),
	command("mirror create nothere --link live", "does not exist on the source cluster", "Check the name"),
	command("mirror create more --link dead", "127.0.0.1:1", "Check that the broker runs"),
	command("mirror create secret --link poor", "uthorization failed", "must be allowed to"),
	command("mirror create more --link live --replication-factor 0", "'replication_factor' is 0", "it must be 1 to"),
	command("mirror describe gone", `no link has a mirror topic "gone"`, "hawser mirror list"),
	command("mirror describe plain", `no link has a mirror topic "plain"`, "hawser mirror list"),
	command("mirror promote", "<mirror-topic> is missing", "Usage: hawser mirror promote"),
	command("mirror promote orders --pattern x", "names and --pattern are both given", "Give one"),
	command("mirror promote --pattern .*", "--pattern is for the mirror topics of one link", "Say which with --link"),
	command("mirror promote --pattern ( --link live", "no regular expression", "or name the topics"),
	command("mirror failover orders --link gone", "Cluster link 'gone' does not exist", "'hawser link list'"),
	command("mirror list --mirror-status happy", "'HAPPY'", "must be one of ACTIVE"),
	command("mirror update orders", "nothing to change", "--config key=value"),
	command("mirror update gone --config retention.ms=1", `no link has a mirror topic "gone"`, "hawser mirror list"),
	command("mirror update orders --config cleanup.policy=compact", "cleanup.policy", "source"),
	command("mirror top -o json", "the live view is for people", "hawser mirror list -o json"),
	command("mirror top --interval 1ms", "--interval is too short", "100ms at least"),
	command("mirror verify gone", `no link has a mirror topic "gone"`, "hawser mirror list"),
}

var wrongDoors = []wrongUse{
	command("link list --url http://127.0.0.1:1", "connection refused", "--url or HAWSER_REST_URL"),
	command("link list --url ftp://x", `"ftp://x"`, "want http://HOST:PORT"),
	command("link list --url {url}/elsewhere", "there is nothing at /elsewhere/v3/clusters", "/openapi.yaml"),
	command("link list --url http://{main}", "no answer from http://{main}", "--url or HAWSER_REST_URL"),
	command("link list --user mallory", "Authentication failed", "--user or HAWSER_REST_USER"),
	command("link update live --user alice --config acl.sync.enable=false", "User:alice is not allowed to ALTER", "Ask for an ALLOW ACL"),
	command("mirror list --cluster other", "Cluster other cannot be found", "This cluster is {id}"),
	command("mirror list --bootstrap-server 127.0.0.1:1 --url {url}", "--url and --bootstrap-server are both given", "Give one"),
	command("mirror list --bootstrap-server nowhere", `"nowhere"`, "is not HOST:PORT"),
	command("mirror list --bootstrap-server ,", "--bootstrap-server is empty", "Give HOST:PORT"),
	command("mirror list --bootstrap-server 127.0.0.1:1", "reach Kafka at 127.0.0.1:1", "Is a broker running there"),
	command("mirror list --command-config /no/such.properties", "no such file", "--command-config"),
	command("mirror list --certificate-authority-path /no/such.pem", "no such file", "CA's certificates"),
	command("mirror list --client-cert-path x.pem", "--client-cert-path and --client-key-path", "go together"),
}

var wrongTopicCommands = []wrongUse{
	command("topic describe gone", "Topic 'gone' does not exist", "'hawser topic list'"),
	command("topic create plain", "already exists", "Choose another name"),
	command("topic create t --partitions 0", "'partitions_count' is 0", "it must be 1 to"),
	command("topic update gone", "nothing to change", "Give --config key=value"),
	command("topic update plain --partitions 3 --dry-run --config a.b=c", "--partitions", "does not go with"),
	command("topic update plain --config no.such=1", "Unknown topic config name", "docs/config.md"),
	command("topic delete gone", "Topic 'gone' does not exist", "'hawser topic list'"),
	command("group describe gone", "'gone'", "'hawser group list'"),
	command("config describe", "topic broker", "at least one of the flags"),
	command("config alter --topic plain", "nothing to change", "--config key=value or --delete key"),
	command("config describe --broker first", "--broker", "takes a broker's id, or all"),
	command("acl create --topic plain", "--allow or --deny", "say"),
	command("produce orders --bootstrap-server {main}", "it takes no records, as a read-only mirror topic", "'hawser mirror promote'"),
	command("produce gone --bootstrap-server {main}", `"gone"`, "'hawser topic create gone'"),
	command("produce plain --acks 2 --bootstrap-server {main}", `--acks "2"`, "it must be all, 1 or 0"),
	command("produce plain --compression brotli", `--compression "brotli"`, "none, gzip, snappy, lz4 or zstd"),
	command("produce plain --header x", `--header "x"`, "is not name=value"),
	command("consume gone --bootstrap-server {main}", `topic "gone"`, "'hawser topic list'"),
	command("consume plain --partition 5 --bootstrap-server {main}", "has no partition 5", "its last is 0"),
	command("consume plain --offset 5", "--offset is for one partition", "Say which with --partition"),
	command("consume plain --group g --partition 1", "--group and --partition are both given", "A group shares the partitions out by itself"),
	command("consume plain --group g -e", "--group and --exit-at-end", "Use --max-messages or --timeout"),
	command("consume plain --offset 1 --partition 0 --from-beginning", "--offset and --from-beginning are both given", "Give one"),
}

var wrongToolCommands = []wrongUse{
	command("kafka-mirrors", "say what to do", "one of --create, --list"),
	command("kafka-mirrors --list --promote", "both given", "Give one"),
	command("kafka-mirrors --create --mirror-topic t", "--create needs", "--mirror-topic and --link"),
	command("kafka-mirrors --describe --topics gone", "Topic 'gone' is no mirror topic", "--list"),
	command("kafka-mirrors --list-state-transition-errors", "needs", "--topics"),
	command("kafka-cluster-links --create", "--create needs", "--link"),
	command("kafka-cluster-links --delete --link live", "orders, paused", "first"),
	command("kafka-cluster-links --delete --link gone", "'gone' does not exist", "show those there are"),
}
