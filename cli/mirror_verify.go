package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

type verifyRow struct {
	Partition   int32  `human:"Partition" json:"partition_id"`
	From        int64  `human:"From Offset" screen:"From" json:"from_offset"`
	To          int64  `human:"To Offset" screen:"To" json:"to_offset"`
	Verdict     string `human:"Verdict" json:"verdict"`
	Batches     int64  `human:"Identical Batches" screen:"Batches" json:"identical_batches"`
	Bytes       int64  `human:"Identical Bytes" screen:"Bytes" json:"identical_bytes"`
	Explained   int64  `human:"Compacted Away" screen:"Compacted" json:"records_explained"`
	Differences int64  `human:"Differences" screen:"Differ" json:"differences"`
	SHA256      string `human:"SHA-256" screen:"-" json:"sha256"`
}

func (a *app) mirrorVerify() *cobra.Command {
	var link, report string
	cmd := &cobra.Command{
		Use: "verify <mirror-topic>", Short: "Compare a mirror topic with its source, byte for byte", Args: exactArgs("<mirror-topic>"),
		Long: "Read the source again, compare all of it with the mirror, and say whether they are the same:\n\n" +
			"IDENTICAL   the same bytes at the same offsets\n" +
			"EQUIVALENT  the same but for what compaction removed with reason at one side\n" +
			"INCOMPLETE  not all could be compared\n" +
			"DIFFERENT   the mirror is not a copy; the first differences are listed\n\n" +
			"The source needs nothing for it but READ. Exits 1 unless the answer is one of the first two.\n" +
			"With --report the result is kept as a signed file, which 'hawser mirror check-report' reads.",
	}
	linkFlag(cmd, &link)
	cmd.Flags().StringVar(&report, "report", "", "write the signed result to this `file`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := a.findMirror(cmd, link, args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		v, err := c.StartVerification(cmd.Context(), m.LinkName, m.MirrorTopicName)
		if err != nil {
			return err
		}
		if v, err = a.waitVerified(cmd.Context(), c, m.LinkName, v); err != nil {
			return err
		}
		if report != "" {
			if err := os.WriteFile(report, []byte(v.SignedReport+"\n"), 0o644); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
		}
		return a.printVerification(v)
	}
	return cmd
}

// waitVerified follows a verification to its end, with a line on stderr for each change.
func (a *app) waitVerified(ctx context.Context, c *client.Client, link string, v api.Verification) (api.Verification, error) {
	last := ""
	for v.Finished == nil {
		var done, all, bytes int64
		for _, p := range v.Partitions {
			done, all, bytes = done+p.At-p.From, all+p.To-p.From, bytes+p.IdenticalBytes
		}
		line := fmt.Sprintf("%s: %d of %d offsets compared, %.1f MB the same", v.MirrorName, done, all, float64(bytes)/1e6)
		if line != last && all > 0 {
			fmt.Fprintln(a.err, clean(line))
			last = line
		}
		if err := pause(ctx); err != nil {
			return v, fmt.Errorf("stopped waiting; the verification goes on: %w", err)
		}
		var err error
		if v, err = c.Verification(ctx, link, v.MirrorName); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (a *app) printVerification(v api.Verification) error {
	var rows []verifyRow
	for _, p := range v.Partitions {
		rows = append(rows, verifyRow{p.PartitionID, p.From, p.To, p.Verdict, p.IdenticalBatches, p.IdenticalBytes, p.RecordsExplained,
			p.Differences, p.SHA256})
	}
	if err := printRows(a, rows); err != nil {
		return err
	}
	if a.format == "human" {
		if err := a.say("\nMirror topic \"%s\" is %s: %s.", v.MirrorName, v.Verdict, verdictWords[v.Verdict]); err != nil {
			return err
		}
		for _, p := range v.Partitions {
			for _, d := range p.FirstDifferences {
				if err := a.say("Partition %d, offset %d: %s.", p.PartitionID, d.Offset, clean(d.Why)); err != nil {
					return err
				}
			}
			if p.ErrorMessage != "" {
				if err := a.say("Partition %d: %s.", p.PartitionID, clean(p.ErrorMessage)); err != nil {
					return err
				}
			}
		}
	}
	if v.Verdict != "IDENTICAL" && v.Verdict != "EQUIVALENT" {
		return fmt.Errorf("mirror topic %q is %s", v.MirrorName, v.Verdict)
	}
	return nil
}

var verdictWords = map[string]string{
	"IDENTICAL":  "the same bytes at the same offsets as its source",
	"EQUIVALENT": "the same as its source but for what compaction removed with reason",
	"INCOMPLETE": "not all of it could be compared",
	"DIFFERENT":  "it is not a copy of its source",
}

func (a *app) checkReport() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "check-report <file>", Short: "Check the signature of a verification's report, and show it", Args: exactArgs("<file>"),
		Long: "Check that the report was not changed since a cluster signed it, and print it. This asks no server.\n" +
			"Compare the key with that of 'hawser cluster describe' of the cluster you trust, or give it with --key.",
	}
	cmd.Flags().StringVar(&key, "key", "", "refuse a report that another key than this `id` has signed")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		signed, err := os.ReadFile(args[0])
		if err != nil {
			return fmt.Errorf("read the report: %w", err)
		}
		text, id, err := api.CheckReport(string(signed))
		if err != nil {
			return fmt.Errorf("check %s: %w", args[0], err)
		}
		if cmp.Or(key, id) != id {
			return fmt.Errorf("check %s: key %s has signed it, not %s", args[0], id, key)
		}
		var pretty any
		if err := json.Unmarshal(text, &pretty); err != nil {
			return fmt.Errorf("check %s: what was signed is not JSON: %w", args[0], err)
		}
		fmt.Fprintf(a.err, "The signature is good. Key: %s\n", id)
		if a.format != "human" {
			return a.printData(pretty)
		}
		shown, err := json.MarshalIndent(pretty, "", "  ")
		if err != nil {
			return err
		}
		return a.say("%s", shown)
	}
	return cmd
}
