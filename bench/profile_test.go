//go:build bench

package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// profileFor is how long, in seconds, the processor is looked at.
const profileFor = 4

// TestProfile says where hawser's CPU time goes while it mirrors and while it serves producers, as profiles and as
// pictures of them (which need graphviz) in the folder HAWSER_BENCH_PROFILES. Without that it is skipped.
func TestProfile(t *testing.T) {
	dir := os.Getenv("HAWSER_BENCH_PROFILES")
	if dir == "" {
		t.Skip("HAWSER_BENCH_PROFILES names no folder for profiles")
	}
	const on = "hawser.http.profiles.enable=true"
	t.Run("mirror", func(t *testing.T) {
		source := startKafka(t, "source")
		fill(t, source, int64(envInt(t, "HAWSER_BENCH_MB", 6144))<<20)
		h := startHawser(t, source.bootstrap, on)
		defer h.remove()
		h.mirror(t, bulkTopic)
		h.profile(t, filepath.Join(dir, "mirror"))
	})
	t.Run("produce", func(t *testing.T) {
		h := startHawser(t, "", on)
		defer h.remove()
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.profile(t, filepath.Join(dir, "produce"))
		}()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				serve(t, broker{"hawser", h.client, h.kafka, h.pid(), nil}, shape{1 << 10, 100}, 64<<10, fmt.Sprint("profiled-", i))
			}
		}
	})
}

// profile writes where the CPU time went in the next seconds to file.pprof, and the picture to file.svg.
func (h *hawser) profile(t *testing.T, file string) {
	t.Helper()
	at, err := url.Parse(h.cluster)
	if err != nil {
		t.Error(err)
		return
	}
	rs, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", at.Host, profileFor))
	if err != nil {
		t.Error(err)
		return
	}
	defer rs.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(rs.Body, 64<<20))
	if err != nil || rs.StatusCode != http.StatusOK {
		t.Errorf("profile: %s %v %.200s", rs.Status, err, raw)
		return
	}
	if err := os.WriteFile(file+".pprof", raw, 0o644); err != nil {
		t.Error(err)
		return
	}
	// Not pprof's own picture, which has a script of somebody else's in it.
	for _, step := range [][]string{
		{"go", "tool", "pprof", "-dot", "-nodecount=45", "-output", file + ".dot", file + ".pprof"},
		{"dot", "-Tsvg", "-o", file + ".svg", file + ".dot"},
	} {
		draw := exec.CommandContext(t.Context(), step[0], step[1:]...)
		draw.WaitDelay = time.Second
		if out, err := draw.CombinedOutput(); err != nil {
			t.Errorf("draw the profile (is graphviz installed?): %v\n%s", err, out)
			return
		}
	}
}
