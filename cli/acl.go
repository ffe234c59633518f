package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
)

func (a *app) acl() *cobra.Command {
	return a.group("acl", "Access rules of this cluster", a.aclList(), a.aclCreate(), a.aclDelete(), a.aclRoles(), a.aclGrantRole(),
		a.aclRevokeRole())
}

type aclRow struct {
	Principal    string `human:"Principal" json:"principal"`
	Permission   string `human:"Permission" json:"permission"`
	Operation    string `human:"Operation" json:"operation"`
	Host         string `human:"Host" json:"host"`
	ResourceType string `human:"Resource Type" json:"resource_type"`
	ResourceName string `human:"Resource Name" json:"resource_name"`
	PatternType  string `human:"Pattern Type" json:"pattern_type"`
}

func aclRows(acls []api.ACL) []aclRow {
	var rows []aclRow
	for _, x := range acls {
		rows = append(rows, aclRow{x.Principal, x.Permission, x.Operation, x.Host, x.ResourceType, x.ResourceName, x.PatternType})
	}
	return rows
}

// aclFlags is which rules are meant, or made.
type aclFlags struct {
	principal, host               string
	allow, deny, prefix, cluster  bool
	topic, group, transactionalID string
	operations                    []string
}

func (f *aclFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.principal, "principal", "", "who, as `User:name`; User:* is everybody")
	flags.StringVar(&f.host, "host", "", "the client's address; * is any")
	flags.BoolVar(&f.allow, "allow", false, "rules that allow")
	flags.BoolVar(&f.deny, "deny", false, "rules that deny")
	flags.StringSliceVar(&f.operations, "operations", nil, "what is done, as `READ,WRITE`")
	flags.StringVar(&f.topic, "topic", "", "a topic; * is every one")
	flags.StringVar(&f.group, "consumer-group", "", "a consumer group; * is every one")
	flags.StringVar(&f.transactionalID, "transactional-id", "", "a transactional id; * is every one")
	flags.BoolVar(&f.cluster, "cluster-scope", false, "the cluster itself")
	flags.BoolVar(&f.prefix, "prefix", false, "the name is the beginning of names")
	cmd.MarkFlagsMutuallyExclusive("allow", "deny")
	cmd.MarkFlagsMutuallyExclusive("topic", "consumer-group", "transactional-id", "cluster-scope")
}

// rule is what the flags say, without an operation.
func (f *aclFlags) rule() api.CreateACLRequest {
	r := api.CreateACLRequest{Principal: f.principal, Host: f.host}
	switch {
	case f.topic != "":
		r.ResourceType, r.ResourceName = "TOPIC", f.topic
	case f.group != "":
		r.ResourceType, r.ResourceName = "GROUP", f.group
	case f.transactionalID != "":
		r.ResourceType, r.ResourceName = "TRANSACTIONAL_ID", f.transactionalID
	case f.cluster:
		r.ResourceType, r.ResourceName = "CLUSTER", "kafka-cluster"
	}
	switch {
	case f.allow:
		r.Permission = "ALLOW"
	case f.deny:
		r.Permission = "DENY"
	}
	if f.prefix {
		r.PatternType = "PREFIXED"
	}
	return r
}

// rules is rule for each operation; one without when none is named.
func (f *aclFlags) rules() []api.CreateACLRequest {
	if len(f.operations) == 0 {
		return []api.CreateACLRequest{f.rule()}
	}
	var all []api.CreateACLRequest
	for _, op := range f.operations {
		r := f.rule()
		r.Operation = strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(op), "-", "_"))
		all = append(all, r)
	}
	return all
}

func (a *app) aclList() *cobra.Command {
	var f aclFlags
	cmd := &cobra.Command{Use: "list", Short: "List access rules, all or those that the flags mean", Args: noArgs,
		Example: "  hawser acl list\n  hawser acl list --principal User:alice --topic orders"}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		var rows []aclRow
		for _, filter := range f.rules() {
			found, err := c.ACLs(cmd.Context(), filter)
			if err != nil {
				return err
			}
			rows = append(rows, aclRows(found)...)
		}
		return printRows(a, rows)
	}
	return cmd
}

func (a *app) aclCreate() *cobra.Command {
	var f aclFlags
	cmd := &cobra.Command{Use: "create", Short: "Create access rules", Args: noArgs,
		Example: "  hawser acl create --allow --principal User:alice --operations READ,DESCRIBE --topic orders\n" +
			"  hawser acl create --deny --principal 'User:*' --operations WRITE --topic audit. --prefix"}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rules := f.rules()
		switch first := rules[0]; {
		case first.Permission == "":
			return errors.New("say --allow or --deny")
		case first.Principal == "":
			return errors.New("say for whom with --principal User:name")
		case first.Operation == "":
			return errors.New("say what with --operations, as READ,WRITE")
		case first.ResourceType == "":
			return errors.New("say on what with --topic, --consumer-group, --transactional-id or --cluster-scope")
		}
		for i := range rules {
			if rules[i].PatternType == "" {
				rules[i].PatternType = "LITERAL"
			}
			if rules[i].Host == "" {
				rules[i].Host = "*"
			}
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

func (a *app) aclDelete() *cobra.Command {
	var f aclFlags
	cmd := &cobra.Command{Use: "delete", Short: "Delete the access rules that the flags mean", Args: noArgs,
		Example: "  hawser acl delete --principal User:alice --topic orders"}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.rule() == (api.CreateACLRequest{}) && len(f.operations) == 0 {
			return errors.New("say which rules: --principal, --topic, --operations …; hawser acl list shows what they mean")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		n := 0
		for _, filter := range f.rules() {
			for _, field := range []*string{&filter.ResourceType, &filter.PatternType, &filter.Operation, &filter.Permission} {
				if *field == "" {
					*field = "ANY"
				}
			}
			removed, err := c.DeleteACLs(cmd.Context(), filter)
			if err != nil {
				return fmt.Errorf("%w (%d rules were deleted before)", err, n)
			}
			n += len(removed)
		}
		return a.say("Deleted %d access rules.", n)
	}
	return cmd
}
