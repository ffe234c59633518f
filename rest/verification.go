package rest

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

// startVerification begins to compare a mirror with its source.
func startVerification(c *call) error {
	v, err := c.Links.Verify(c.linkName(), c.r.PathValue("mirror_topic_name"))
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, c.verificationJSON(v))
}

func getVerification(c *call) error {
	v, err := c.Links.Verification(c.linkName(), c.r.PathValue("mirror_topic_name"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.verificationJSON(v))
}

func (c *call) verificationJSON(v link.Verification) api.Verification {
	out := api.Verification{
		Kind:     api.KindVerification,
		Metadata: api.Metadata{Self: c.self("links", escape(v.Link), "mirrors", escape(v.Topic), "verification")},
		LinkName: v.Link, MirrorName: v.Topic, SourceName: v.SourceTopic,
		Started: v.Started.UTC().Format(time.RFC3339Nano), Verdict: string(v.Verdict), SignedReport: v.Signed,
		Partitions: []api.VerificationPartition{},
	}
	if v.Finished.IsZero() {
		out.Verdict = string(link.Incomplete)
	} else {
		at := v.Finished.UTC().Format(time.RFC3339Nano)
		out.Finished = &at
	}
	for _, p := range v.Partitions {
		part := api.VerificationPartition{
			PartitionID: p.Partition, From: int64(p.From), To: int64(p.To), At: int64(p.At), Verdict: string(p.Verdict),
			IdenticalBatches: p.Batches, IdenticalBytes: p.Bytes, SHA256: p.SHA256, RecordsCompared: p.Records, RecordsExplained: p.Explained,
			Differences: p.Differences, FirstDifferences: []api.VerificationDifference{}, ErrorMessage: p.Error,
		}
		for _, d := range p.First {
			part.FirstDifferences = append(part.FirstDifferences, api.VerificationDifference{Offset: int64(d.Offset), Why: d.Why})
		}
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

func getReportKey(c *call) error {
	public := c.Cluster.ReportKey()
	return c.json(http.StatusOK, api.ReportKey{
		Kind: api.KindReportKey, Metadata: api.Metadata{Self: c.self("report-key")},
		KeyID: api.KeyID(public), Algorithm: "Ed25519", PublicKey: base64.RawURLEncoding.EncodeToString(public),
	})
}
