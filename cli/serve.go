package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// ServeOptions is what `hawser serve` was told.
type ServeOptions struct {
	DataDir   string
	Kafka     string // HOST:PORT to listen on for Kafka; port 0 takes a free one
	Advertise string // HOST:PORT that clients are told; empty: what is listened on
	HTTP      string // HOST:PORT to listen on for REST, console, metrics
	ClusterID string // empty: that of the data directory, or a new one
	NodeID    int32  // the broker's id
	// NewIdentity and ForgetSecrets are for a data directory that was copied, and for one whose key file is lost.
	NewIdentity   bool
	ForgetSecrets bool
	Settings      map[string]string // of --config and then --set, by the broker keys' names; not yet checked against the table
}

// DemoOptions is what `hawser demo` was told.
type DemoOptions struct {
	Once bool   // end when everything was shown, in place of running on
	Step bool   // wait for Enter before each step
	Dir  string // where the two brokers keep their data; empty: a temporary directory
}

func (a *app) serve() *cobra.Command {
	var opts ServeOptions
	var file string
	var set []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: "Run a broker: Kafka clients at --kafka, REST, console and metrics at --http.\n" +
			"It keeps everything below --data and ends at SIGINT or SIGTERM.",
		Example: "  hawser serve --data /var/lib/hawser\n" +
			"  hawser serve --data ./b --kafka 127.0.0.1:9192 --http 127.0.0.1:8190 --set log.retention.hours=24",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.hooks.Serve == nil {
				return errors.New("this program was built without a broker")
			}
			var err error
			if opts.Settings, err = serveSettings(file, set); err != nil {
				return err
			}
			if err := opts.fromSettings(cmd.Flags().Changed); err != nil {
				return err
			}
			if err := opts.check(); err != nil {
				return err
			}
			for _, flag := range []string{"kafka", "advertise"} {
				if cmd.Flags().Changed(flag) && opts.Settings["listeners"] != "" {
					fmt.Fprintf(a.err, "Warning: --%s has no effect, as the config listeners says where to listen: %s.\n", flag,
						clean(opts.Settings["listeners"]))
				}
			}
			return a.hooks.Serve(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.DataDir, "data", "hawser-data", "`directory` that keeps all data; made if it is not there")
	flags.StringVar(&opts.Kafka, "kafka", "127.0.0.1:9092", "`HOST:PORT` for Kafka clients; 0.0.0.0 or an empty host for all addresses")
	flags.StringVar(&opts.Advertise, "advertise", "", "`HOST:PORT` that Kafka clients are told to connect to (default: that of --kafka)")
	flags.StringVar(&opts.HTTP, "http", "127.0.0.1:8090", "`HOST:PORT` for REST, console and metrics")
	flags.StringVar(&opts.ClusterID, "cluster-id", "", "the cluster's id (default: the one in --data, or a new one)")
	flags.Int32Var(&opts.NodeID, "node-id", 1, "this broker's id")
	flags.BoolVar(&opts.NewIdentity, "new-identity", false,
		"draw a new incarnation and producer id prefix: for a data directory that was copied or restored; or begin anew where the "+
			"metadata is lost, with the partitions set aside")
	flags.BoolVar(&opts.ForgetSecrets, "forget-secrets", false,
		"start although the file that seals secrets is lost: links lose their credentials")
	flags.StringVar(&file, "config", "", "properties `file` with broker configs, as Kafka's server.properties")
	flags.StringArrayVar(&set, "set", nil, "a broker config as `key=value`; wins over --config; may be repeated")
	return cmd
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is one argument too many. Usage: %s", args[0], cmd.UseLine())
	}
	return nil
}

func serveSettings(file string, set []string) (map[string]string, error) {
	settings := map[string]string{}
	if file != "" {
		if err := readProperties(file, settings); err != nil {
			return nil, err
		}
	}
	for _, text := range set {
		key, value, ok := strings.Cut(text, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("--set %q is not key=value", text)
		}
		settings[key] = strings.TrimSpace(value)
	}
	return settings, nil
}

// fromSettings takes from the configs what was given by no flag: a server.properties that a broker ran with names its
// directory and its number itself.
func (o *ServeOptions) fromSettings(given func(flag string) bool) error {
	take := func(flag string, to *string, names ...string) {
		for _, name := range names {
			if value, ok := o.Settings[name]; ok && !given(flag) && value != "" {
				*to = value
				return
			}
		}
	}
	take("data", &o.DataDir, "log.dirs", "log.dir")
	if !given("data") && strings.Contains(o.Settings["log.dirs"], ",") {
		return fmt.Errorf("log.dirs names more than one directory: %s. One is used; give it with --data or name it alone", o.Settings["log.dirs"])
	}
	if address, set := o.Settings["hawser.http.listener"]; set && !given("http") {
		o.HTTP = address
	}
	take("cluster-id", &o.ClusterID, "hawser.cluster.id")
	var id string
	take("node-id", &id, "node.id", "broker.id")
	if id == "" || id == "-1" {
		return nil
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil {
		return fmt.Errorf("node.id %q is not a number", id)
	}
	o.NodeID = int32(n)
	return nil
}

// check refuses what cannot work on any machine; the rest is for whoever listens.
func (o *ServeOptions) check() error {
	if o.DataDir == "" {
		return errors.New("--data is empty. Give the directory that keeps the data")
	}
	if o.NodeID < 0 {
		return fmt.Errorf("--node-id is %d; it must be 0 or more", o.NodeID)
	}
	for _, a := range []struct{ flag, text string }{{"--kafka", o.Kafka}, {"--http", o.HTTP}, {"--advertise", o.Advertise}} {
		off, set := o.Settings["hawser.http.listener"]
		if a.text == "" && (a.flag == "--advertise" || a.flag == "--http" && set && off == "") {
			continue
		}
		host, port, err := net.SplitHostPort(a.text)
		if err != nil {
			return fmt.Errorf("%s %q is not HOST:PORT, as 127.0.0.1:9092", a.flag, a.text)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("%s %q: the port is a number from 0 to 65535", a.flag, a.text)
		}
		if a.flag == "--advertise" && (host == "" || host == "0.0.0.0" || host == "::" || n == 0) {
			return fmt.Errorf("--advertise %q: clients cannot connect to that. Give a host name or address that they reach, and the port", a.text)
		}
	}
	return nil
}

func (a *app) demo() *cobra.Command {
	var opts DemoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run two brokers with a link between them, and show a mirror's life",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.hooks.Demo == nil {
				return errors.New("this program was built without a broker")
			}
			return a.hooks.Demo(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Once, "once", false, "end when everything was shown; exit 1 if something shown did not hold")
	cmd.Flags().BoolVar(&opts.Step, "step", false, "wait for Enter before each step")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "`directory` for the two brokers' data (default: a temporary one, removed at the end)")
	return cmd
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return printOne(a, struct {
				Version string `human:"Version" json:"version"`
			}{a.hooks.Version})
		},
	}
}
