package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// imported is one link that a file of another tool describes.
type imported struct {
	Name    string            `json:"link_name"`
	Target  string            `json:"target_cluster,omitempty"` // the alias of the cluster that it is created on
	Configs map[string]string `json:"configs"`                  // secrets included: shown is another matter
	Notes   []importNote      `json:"not_carried_over"`
}

// importNote is a line of the file that means something else, or nothing, here.
type importNote struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	Why   string `json:"why"`
}

func (l *imported) note(key, value, why string, args ...any) {
	l.Notes = append(l.Notes, importNote{key, value, fmt.Sprintf(why, args...)})
}

func (a *app) linkImport() *cobra.Command {
	var name, target string
	var configs, files []string
	var apply, noValidate, dryRun bool
	cmd := &cobra.Command{
		Use: "import <file>", Short: "Make links of another tool's configuration", Args: exactArgs("<file>"),
		Long: "Read a MirrorMaker 2 properties file, or a cluster link's configuration file, and print the links that it becomes and\n" +
			"what does not carry over. Nothing is created without --apply.",
		Example: "  hawser link import mm2.properties\n  hawser link import mm2.properties --target dr --apply\n" +
			"  hawser link import link.config --link from-west --apply",
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "link", "", "the link's `name` (default: the source's alias, or the file's name)")
	flags.StringVar(&target, "target", "", "the `alias` that the file has for this cluster; may be left out where only one is copied to")
	configFlags(cmd, &configs, &files)
	flags.BoolVar(&apply, "apply", false, "create the links")
	flags.BoolVar(&dryRun, "dry-run", false, "only print; that is so without --apply anyway")
	flags.BoolVar(&noValidate, "no-validate", false, "with --apply: do not reach the other clusters first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if apply && dryRun {
			return errors.New("--apply and --dry-run are both given. Give one")
		}
		links, err := readImport(args[0], target)
		if err != nil {
			return err
		}
		extra, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		if name != "" && len(links) > 1 {
			return fmt.Errorf("--link names one link, but the file has %d: %s. Say which with --target", len(links),
				strings.Join(namesOf(links), ", "))
		}
		for i := range links {
			maps.Copy(links[i].Configs, extra)
			links[i].Name = orElse(name, links[i].Name)
		}
		if err := a.printImport(links, apply); err != nil || !apply {
			return err
		}
		return a.applyImport(cmd, links, noValidate)
	}
	return cmd
}

func namesOf(links []imported) []string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name)
	}
	return names
}

// readImport finds out what the file is by what stands in it.
func readImport(file, target string) ([]imported, error) {
	set := map[string]string{}
	if err := readProperties(file, set); err != nil {
		return nil, err
	}
	switch {
	case set["clusters"] != "":
		return importMM2(set, target)
	case set["source.cluster.alias"] != "" || strings.HasSuffix(set["connector.class"], "MirrorSourceConnector"):
		return importConnector(set, target)
	case set["bootstrap.servers"] != "" || set["link.mode"] != "" || set["cluster.link.prefix"] != "":
		if target != "" {
			return nil, errors.New("--target is for MirrorMaker's files, and this is a link's")
		}
		return []imported{importLink(linkNameOf(filepath.Base(file)), set)}, nil
	}
	return nil, fmt.Errorf("%s is neither MirrorMaker's configuration (it has no 'clusters' and no 'source.cluster.alias') nor a "+
		"link's (it has no 'bootstrap.servers')", file)
}

var notInLinkNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// linkNameOf makes a link's name of a text that may hold anything.
func linkNameOf(text string) string {
	text = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(text, ".properties"), ".config"), ".conf")
	text = strings.Trim(notInLinkNames.ReplaceAllString(text, "-"), "-.")
	return orElse(text, "imported")
}

// importLink takes over a cluster link's configuration: most keys are the same here.
func importLink(name string, set map[string]string) imported {
	l := imported{Name: name, Configs: map[string]string{}, Notes: []importNote{}}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := strings.TrimSpace(set[key])
		if err := config.Link.CheckOne(key, value); err != nil {
			l.note(key, value, "%s", strings.TrimRight(err.Error(), "."))
			continue
		}
		l.Configs[key] = value
	}
	return l
}

// printImport shows what will be created, with no secret in it.
func (a *app) printImport(links []imported, apply bool) error {
	shown := make([]imported, len(links))
	for i, l := range links {
		shown[i] = l
		shown[i].Configs = maps.Clone(l.Configs)
		for key := range l.Configs {
			if secretKey(key) {
				shown[i].Configs[key] = "[hidden]"
			}
		}
		shown[i].Notes = slices.Clone(l.Notes)
		for n, note := range l.Notes {
			if secretKey(note.Key) {
				shown[i].Notes[n].Value = "[hidden]"
			}
		}
	}
	if a.format != "human" {
		return a.printData(shown)
	}
	for _, l := range shown {
		where := ""
		if l.Target != "" {
			where = fmt.Sprintf(" on cluster %q", l.Target)
		}
		if err := a.say("Link \"%s\"%s:", l.Name, where); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(l.Configs)) {
			if err := a.sayTabbed("  ", "%s=%s", key, l.Configs[key]); err != nil {
				return err
			}
		}
		if len(l.Notes) > 0 {
			if err := a.say("What does not carry over, or means something else here:"); err != nil {
				return err
			}
		}
		for _, note := range l.Notes {
			if err := a.sayTabbed("  ", "%s: %s.", note.Key+pair(note.Value), note.Why); err != nil {
				return err
			}
		}
		if err := a.say(""); err != nil {
			return err
		}
	}
	if apply {
		return nil
	}
	return a.say("Nothing was created. --apply creates %s.", countOf(len(links), "link"))
}

func pair(value string) string {
	if value == "" {
		return ""
	}
	return "=" + value
}

func countOf(n int, what string) string {
	if n == 1 {
		return "the " + what
	}
	return fmt.Sprintf("the %d %ss", n, what)
}

// numbered is a number of things.
func numbered[T int | int32 | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// secretKey reports whether a config's value is a secret, also behind a prefix of MirrorMaker's.
func secretKey(key string) bool {
	for _, k := range config.Link.Keys() {
		if k.Type == config.Password && (key == k.Name || strings.HasSuffix(key, "."+k.Name)) {
			return true
		}
	}
	return strings.Contains(key, "password") || strings.Contains(key, "secret")
}

func (a *app) applyImport(cmd *cobra.Command, links []imported, noValidate bool) error {
	c, err := a.client(cmd.Context())
	if err != nil {
		return err
	}
	byName := map[string]imported{}
	for _, l := range links {
		byName[l.Name] = l
	}
	return a.each(namesOf(links), func(name string) error {
		order := client.NewLink{Name: name, Body: api.CreateLinkRequest{Configs: configData(byName[name].Configs)}, SkipValidate: noValidate}
		if _, err := c.CreateLink(cmd.Context(), order); err != nil {
			return err
		}
		return a.say("Created cluster link \"%s\".", name)
	})
}
