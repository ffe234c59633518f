package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
)

// role is a bundle of access rules under the name by which mirroring's documents
// speak of it: what it grants on the cluster, and what on the topics and groups named.
type role struct {
	does    string
	cluster []string // operations on the cluster
	topic   []string // operations on --topic; on every topic where the role is for the whole cluster
	group   []string
	whole   bool // for the whole cluster: takes no --topic and no --consumer-group
}

// roles by name. What they hold is what link and mirror orders, and a link's principal at its source, need.
var roles = map[string]role{
	"CloudClusterAdmin": {does: "everything on this cluster: links, mirrors, topics, groups, ACLs", whole: true,
		cluster: []string{"ALL"}, topic: []string{"ALL"}, group: []string{"ALL"}},
	"EnvironmentAdmin":  {does: "as CloudClusterAdmin", whole: true, cluster: []string{"ALL"}, topic: []string{"ALL"}, group: []string{"ALL"}},
	"OrganizationAdmin": {does: "as CloudClusterAdmin", whole: true, cluster: []string{"ALL"}, topic: []string{"ALL"}, group: []string{"ALL"}},
	"Operator": {does: "watch and steer links and mirrors, without reading records", whole: true,
		cluster: []string{"DESCRIBE", "ALTER", "DESCRIBE_CONFIGS"}, topic: []string{"DESCRIBE", "DESCRIBE_CONFIGS"}, group: []string{"DESCRIBE"}},
	"ResourceOwner": {does: "everything on the topics and groups named", topic: []string{"ALL"}, group: []string{"ALL"}},
	"DeveloperRead": {does: "read the topics, as the groups named", topic: []string{"READ", "DESCRIBE"},
		group: []string{"READ", "DESCRIBE"}},
	"DeveloperWrite": {does: "write the topics", topic: []string{"WRITE", "DESCRIBE"}, cluster: []string{"IDEMPOTENT_WRITE"}},
	"DeveloperManage": {does: "create, configure and delete the topics",
		topic: []string{"CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}, group: []string{"DELETE", "DESCRIBE"}},
	"LinkSource": {does: "what the principal of a link needs at its source: data, configs, offsets, ACLs", cluster: []string{"DESCRIBE"},
		topic: []string{"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}, group: []string{"READ", "DESCRIBE"}},
}

// roleFlags is for whom and on what.
type roleFlags struct {
	principal, host, topic, group string
	prefix                        bool
}

func (f *roleFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.principal, "principal", "", "who, as `User:name`")
	flags.StringVar(&f.host, "host", "*", "the client's address; * is any")
	flags.StringVar(&f.topic, "topic", "", "the topic, or * for every one")
	flags.StringVar(&f.group, "consumer-group", "", "the consumer group, or * for every one")
	flags.BoolVar(&f.prefix, "prefix", false, "the names are the beginning of names")
	_ = cmd.MarkFlagRequired("principal")
}

// rules is the bundle for these flags.
func (f *roleFlags) rules(name string) ([]api.CreateACLRequest, error) {
	r, known := roles[name]
	if !known {
		return nil, fmt.Errorf("there is no role %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
	}
	topic, group := f.topic, f.group
	switch {
	case r.whole && (topic != "" || group != "" || f.prefix):
		return nil, fmt.Errorf("%s is for the whole cluster: leave --topic, --consumer-group and --prefix away", name)
	case r.whole:
		topic, group = "*", "*"
	case topic == "" && group == "":
		return nil, errors.New("say on what with --topic or --consumer-group")
	case group != "" && r.group == nil:
		return nil, fmt.Errorf("%s grants nothing on groups: leave --consumer-group away", name)
	}
	pattern := "LITERAL"
	if f.prefix {
		pattern = "PREFIXED"
	}
	var rules []api.CreateACLRequest
	add := func(kind, resource, pattern string, operations []string) {
		for _, op := range operations {
			rules = append(rules, api.CreateACLRequest{ResourceType: kind, ResourceName: resource, PatternType: pattern,
				Principal: f.principal, Host: f.host, Operation: op, Permission: "ALLOW"})
		}
	}
	add("CLUSTER", "kafka-cluster", "LITERAL", r.cluster)
	for _, on := range []struct {
		kind, name string
		operations []string
	}{{"TOPIC", topic, r.topic}, {"GROUP", group, r.group}} {
		switch on.name {
		case "":
		case "*":
			add(on.kind, "*", "LITERAL", on.operations)
		default:
			add(on.kind, on.name, pattern, on.operations)
		}
	}
	return rules, nil
}

type roleRow struct {
	Name    string `human:"Role" json:"role"`
	Does    string `human:"Grants" json:"grants"`
	Cluster string `human:"On the Cluster" json:"cluster"`
	Topic   string `human:"On Topics" json:"topic"`
	Group   string `human:"On Groups" json:"group"`
}

func (a *app) aclRoles() *cobra.Command {
	cmd := &cobra.Command{Use: "list-roles", Short: "List the roles and the rules that each stands for", Args: noArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		var rows []roleRow
		for _, name := range slices.Sorted(maps.Keys(roles)) {
			r := roles[name]
			rows = append(rows, roleRow{name, r.does, strings.Join(r.cluster, ","), strings.Join(r.topic, ","), strings.Join(r.group, ",")})
		}
		return printRows(a, rows)
	}
	return cmd
}

func (a *app) aclGrantRole() *cobra.Command {
	var f roleFlags
	cmd := &cobra.Command{Use: "grant-role <role>", Short: "Create the access rules that a role stands for", Args: exactArgs("<role>"),
		Example: "  hawser acl grant-role CloudClusterAdmin --principal User:admin\n" +
			"  hawser acl grant-role LinkSource --principal User:link --topic '*' --consumer-group '*'"}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, err := f.rules(args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if err := c.CreateACLs(cmd.Context(), rules); err != nil {
			return err
		}
		return a.say("Created %d access rules.", len(rules))
	}
	return cmd
}

func (a *app) aclRevokeRole() *cobra.Command {
	var f roleFlags
	cmd := &cobra.Command{Use: "revoke-role <role>", Short: "Delete the access rules that a role stands for, also where another " +
		"role holds them too", Args: exactArgs("<role>")}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, err := f.rules(args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		n := 0
		for _, rule := range rules {
			removed, err := c.DeleteACLs(cmd.Context(), rule)
			if err != nil {
				return fmt.Errorf("%w (%d rules were deleted before)", err, n)
			}
			n += len(removed)
		}
		return a.say("Deleted %d access rules.", n)
	}
	return cmd
}
