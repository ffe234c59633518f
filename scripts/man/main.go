// Command man writes the manual pages, a page for each command, into the directory that it is given.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/hawserio/hawser/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "write manual pages:", err)
		os.Exit(1)
	}
}

// write makes one page per command. The date is the day of the build, or that of SOURCE_DATE_EPOCH, which cobra reads.
func write(dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.Command()
	plain(root)
	now := time.Now()
	header := &doc.GenManHeader{Title: "HAWSER", Section: "1", Source: "hawser " + version, Manual: "Hawser", Date: &now}
	if os.Getenv("SOURCE_DATE_EPOCH") != "" {
		header.Date = nil
	}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return err
	}
	// The names that the program also answers to have pages of their own.
	for _, name := range []string{"kafka-mirrors", "kafka-cluster-links"} {
		text := ".so man1/hawser-" + name + ".1\n"
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// plain leaves out the line that says who generated a page and when, and keeps <names> from being taken for markup.
func plain(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	escape := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
	cmd.Use, cmd.Long = escape.Replace(cmd.Use), escape.Replace(cmd.Long)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = escape.Replace(f.Usage) })
	for _, below := range cmd.Commands() {
		plain(below)
	}
}
