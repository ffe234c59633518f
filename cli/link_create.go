package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// side is one of the three words for the other cluster: it tells the link's mode.
type side struct {
	word, mode         string
	cluster, bootstrap string
	apiKey, apiSecret  string
}

func (s *side) used() bool { return s.cluster != "" || s.bootstrap != "" }

type linkCreateFlags struct {
	source, destination, remote side
	localKey, localSecret       string
	files, configs              []string
	names                       nameFlags
	dryRun, noValidate          bool
}

func (a *app) linkCreate() *cobra.Command {
	f := linkCreateFlags{
		source:      side{word: "source", mode: "DESTINATION"},
		destination: side{word: "destination", mode: "SOURCE"},
		remote:      side{word: "remote", mode: "BIDIRECTIONAL"},
	}
	cmd := &cobra.Command{
		Use: "create <link>", Short: "Create a link", Args: exactArgs("<link>"),
		Example: "  hawser link create my-link --source-bootstrap-server broker-1.example:9092\n" +
			"  hawser link create my-link --source-bootstrap-server broker-1.example:9092 --sync-groups '*' --auto-mirror 'orders,payments.*'\n" +
			"  hawser link create my-link --source-bootstrap-server b:9094 --source-api-key user --source-api-secret secret --config " +
			"link.properties\n" +
			"  hawser link create both-ways --remote-bootstrap-server other:9092",
	}
	flags := cmd.Flags()
	for _, s := range []*side{&f.source, &f.destination, &f.remote} {
		flags.StringVar(&s.cluster,
			s.word+"-cluster", "", fmt.Sprintf("id of the %s cluster (mode %s); without it, whichever answers is taken", s.word, s.mode))
		flags.StringVar(&s.bootstrap, s.word+"-bootstrap-server", "", fmt.Sprintf("`HOST:PORT[,HOST:PORT]` of the %s cluster (mode %s)",
			s.word, s.mode))
		flags.StringVar(&s.apiKey,
			s.word+"-api-key", "", fmt.Sprintf("user at the %s cluster; SASL_SSL and PLAIN unless --config says otherwise", s.word))
		flags.StringVar(&s.apiSecret, s.word+"-api-secret", "", "its password")
	}
	flags.StringVar(&f.localKey, "local-api-key", "", "user at this cluster, for links that the other side calls back through")
	flags.StringVar(&f.localSecret, "local-api-secret", "", "its password")
	configFlags(cmd, &f.configs, &f.files)
	f.names.bind(cmd)
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and create nothing")
	flags.BoolVar(&f.noValidate, "no-validate", false, "do not reach the other cluster first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := f.body()
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		order := client.NewLink{Name: args[0], Body: body, SkipValidate: f.noValidate, ValidateOnly: f.dryRun}
		if _, err := c.CreateLink(cmd.Context(), order); err != nil {
			return err
		}
		return a.say("%sCreated cluster link \"%s\"%s", dryRunMark(f.dryRun), args[0], shownConfigs(body.Configs))
	}
	return cmd
}

// body makes the request of the flags.
func (f *linkCreateFlags) body() (api.CreateLinkRequest, error) {
	var rq api.CreateLinkRequest
	set, err := readConfigs(f.files, f.configs)
	if err != nil {
		return rq, err
	}
	if err := f.names.into(set); err != nil {
		return rq, err
	}
	other, err := f.other(set["link.mode"])
	if err != nil {
		return rq, err
	}
	if other.bootstrap != "" {
		set["bootstrap.servers"] = other.bootstrap
	}
	if other.used() && set["link.mode"] == "" && other.mode != "DESTINATION" {
		set["link.mode"] = other.mode
	}
	if set["bootstrap.servers"] == "" && set["connection.mode"] != "INBOUND" {
		return rq, errors.New("where is the other cluster? Give --source-bootstrap-server HOST:PORT (or --remote-bootstrap-server for " +
			"a link in both directions)")
	}
	if err := credentials(set, "", other.word+"-api", other.apiKey, other.apiSecret); err != nil {
		return rq, err
	}
	localKey, localSecret, localFlag := f.local(other)
	if err := credentials(set, "local.", localFlag, localKey, localSecret); err != nil {
		return rq, err
	}
	switch other.word {
	case "source":
		rq.SourceClusterID = other.cluster
	case "destination":
		rq.DestinationClusterID = other.cluster
	case "remote":
		rq.RemoteClusterID = other.cluster
	}
	rq.Configs = configData(set)
	return rq, nil
}

// other is the one side that was named, and it must fit the mode where that is given too.
func (f *linkCreateFlags) other(mode string) (*side, error) {
	var named []*side
	for _, s := range []*side{&f.source, &f.destination, &f.remote} {
		if s.used() {
			named = append(named, s)
		}
	}
	if len(named) > 1 {
		return nil, fmt.Errorf("--%s-… and --%s-… both name the other cluster. Give one: source for mode DESTINATION, destination for "+
			"SOURCE, remote for BIDIRECTIONAL", named[0].word, named[1].word)
	}
	if len(named) == 1 {
		if mode != "" && mode != named[0].mode {
			return nil, fmt.Errorf("--%s-… is for link.mode=%s, but the configs say link.mode=%s", named[0].word, named[0].mode, mode)
		}
		return named[0], nil
	}
	for _, s := range []*side{&f.destination, &f.remote} {
		if s.mode == mode {
			return s, nil
		}
	}
	return &f.source, nil
}

// local is the user at this cluster. A SOURCE link has it in --source-api-…, since this cluster is the source.
func (f *linkCreateFlags) local(other *side) (key, secret, flag string) {
	if other == &f.destination && f.source.apiKey != "" {
		return f.source.apiKey, f.source.apiSecret, "source-api"
	}
	return f.localKey, f.localSecret, "local-api"
}

// credentials adds the login configs of a user, under a prefix. What the configs say already wins.
func credentials(set map[string]string, prefix, flag, key, secret string) error {
	if (key == "") != (secret == "") {
		return fmt.Errorf("--%s-key and --%s-secret go together", flag, flag)
	}
	if key == "" {
		return nil
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	login := map[string]string{
		"security.protocol": "SASL_SSL",
		"sasl.mechanism":    "PLAIN",
	}
	module := "org.apache.kafka.common.security.plain.PlainLoginModule"
	if strings.HasPrefix(set[prefix+"sasl.mechanism"], "SCRAM-") {
		module = "org.apache.kafka.common.security.scram.ScramLoginModule"
	}
	login["sasl.jaas.config"] = fmt.Sprintf(`%s required username="%s" password="%s";`, module, quote.Replace(key), quote.Replace(secret))
	for name, value := range login {
		if _, given := set[prefix+name]; !given {
			set[prefix+name] = value
		}
	}
	return nil
}

// shown is the configs that are printed after a create: none of them a secret.
var shown = []string{
	"acl.filters", "acl.sync.enable", "acl.sync.ms", "auto.create.mirror.topics.enable", "auto.create.mirror.topics.filters",
	"bootstrap.servers", "cluster.link.prefix", "connection.mode", "consumer.group.prefix.enable", "consumer.offset.group.filters",
	"consumer.offset.sync.enable", "consumer.offset.sync.ms", "link.mode", "local.sasl.mechanism", "local.security.protocol",
	"mirror.start.offset.spec", "sasl.mechanism", "security.protocol", "topic.config.sync.include", "topic.config.sync.ms",
}

func shownConfigs(configs []api.ConfigData) string {
	lines := map[string]string{}
	for _, cfg := range configs {
		if slices.Contains(shown, cfg.Name) {
			lines[cfg.Name] = fmt.Sprintf(`"%s"="%s"`, cfg.Name, text(cfg.Value))
		}
	}
	if len(lines) == 0 {
		return "."
	}
	out := " with configs:"
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		out += "\n" + lines[name]
	}
	return out
}
