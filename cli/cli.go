// Package cli is the command line: a file per command. cmd/hawser calls it; serving and
// the demo are handed back to it through Hooks, everything else is an order or a question
// to a REST door through rest/client. It knows no broker and no Kafka protocol.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/client"
)

// Hooks is what the command line does not do itself. A nil one makes its command say so.
type Hooks struct {
	// Serve runs a broker until ctx ends.
	Serve func(ctx context.Context, opts ServeOptions) error
	// Demo runs two brokers with a link between them.
	Demo func(ctx context.Context, opts DemoOptions) error
	// Version is what `hawser version` prints, as "0.1.0 (abcdef0)".
	Version string
	// Program is the name that the process was called by; kafka-mirrors and kafka-cluster-links
	// answer as those tools.
	Program string
	// In is where records to produce and confirmations come from; nil is the standard input.
	In io.Reader
}

// errReported ends a command whose failures stand in its output already.
var errReported = errors.New("some topics failed; see the rows above")

// Main runs one command line and returns the process's exit code: 0, or 1 when
// anything failed. args is without the program's name.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, hooks Hooks) int {
	app := &app{hooks: hooks, out: stdout, err: stderr}
	root := app.root()
	root.SetArgs(personality(hooks.Program, args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := errors.Join(root.ExecuteContext(ctx), app.endSaying())
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "Error: "+app.explain(err))
	return 1
}

// app is one run: the global flags and where output goes.
type app struct {
	hooks    Hooks
	out, err io.Writer

	door   door
	format string

	printed bool     // a program has got its data
	said    []string // what it was told beside
}

func (a *app) root() *cobra.Command {
	root := a.group("hawser", "A Kafka-compatible broker with cluster links and mirror topics",
		a.serve(), a.demo(), a.link(), a.mirror(), a.topic(), a.consumerGroup(), a.acl(), a.user(), a.config(), a.cluster(), a.version(),
		a.produce("produce"), a.consume("consume"), a.kafkaMirrors(), a.kafkaClusterLinks())
	spelled := a.group("kafka", "The same commands, as scripts for another command line spell them",
		a.link(), a.mirror(), a.topic(), a.consumerGroup(), a.acl(), a.cluster())
	spelled.Hidden = true
	root.AddCommand(spelled)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ",
		fmt.Sprintf("Flags.FlagUsagesWrapped %d ", a.helpWidth())))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w. Run '%s --help' for the flags there are", err, cmd.CommandPath())
	})
	root.Example = "  hawser serve --data ./hawser-data\n" +
		"  hawser link create from-prod --source-bootstrap-server broker-1:9092\n" +
		"  hawser mirror create orders --link from-prod --wait\n" +
		"  hawser consume orders --from-beginning --exit-at-end"
	root.Version = a.hooks.Version
	flags := root.PersistentFlags()
	a.door.bind(root)
	flags.StringVarP(&a.format, "output", "o", "human", "output as human, json or yaml")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag stands above
	a.complete(root)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.checkFormat() }
	return root
}

// helpWidth is how many characters a line of help may have: what fits, and no more than is read well.
func (a *app) helpWidth() int {
	const most, usual = 120, 100
	if width := a.width(); width > 0 {
		return min(width, most)
	}
	return usual
}

// Command is the whole command line, for those who write about it: manual pages, completion.
func Command() *cobra.Command {
	a := &app{out: io.Discard, err: io.Discard}
	return a.root()
}

// personality turns the name that the program was called by into the command that it stands for.
func personality(program string, args []string) []string {
	name := strings.TrimSuffix(filepath.Base(program), ".sh")
	if name == mirrorsTool || name == linksTool {
		return append([]string{name}, args...)
	}
	return args
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// group is a command that only holds others. Cobra would print help and succeed on an
// unknown one below the top; a script must not take that for success.
func (a *app) group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.AddCommand(below...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, arg string) error {
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q.", arg, cmd.CommandPath())
	if below := cmd.Commands(); len(below) == 1 {
		return fmt.Errorf("%s Did you mean %q?", text, below[0].CommandPath()+" "+arg)
	}
	if near := cmd.SuggestionsFor(arg); len(near) > 0 {
		text += fmt.Sprintf(" Did you mean %q?", cmd.CommandPath()+" "+near[0])
	}
	return fmt.Errorf("%s Run '%s --help' for what there is", text, cmd.CommandPath())
}

// exactArgs asks for named arguments, so that a missing one can be said by name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing. Usage: %s", names[len(args)], cmd.UseLine())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many. Usage: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing. Usage: %s", name, cmd.UseLine())
		}
		return nil
	}
}

// explain is an error in words, with what to do next.
func (a *app) explain(err error) string {
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		if errors.Is(err, context.Canceled) {
			return "interrupted."
		}
		return fmt.Sprintf("no answer from %s: %v.\nIs a broker running there? 'hawser serve' starts one; --url or %s say where it is.",
			gone.URL, clean(gone.Err.Error()), envURL)
	}
	var refused *client.Error
	if errors.As(err, &refused) {
		text := cleanLines(err.Error())
		if refused.Status == 401 || refused.Status == 403 && strings.Contains(text, "User:ANONYMOUS") {
			if refused.Status == 403 {
				text += "\nYou are not logged in."
			}
			text += fmt.Sprintf("\nGive a SASL user of the cluster with --user or %s, and its password with %s.", envUser, envPassword)
		}
		return text
	}
	text := err.Error()
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		text += "."
	}
	return cleanLines(text)
}
