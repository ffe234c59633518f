// Command pictures makes docs/img: the console with a link at work, and the plot of lag and RPO while a source dies.
// It runs two brokers of bin/hawser and Debian's Chromium. With a URL it only takes a picture of that page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	dir := flag.String("dir", "docs/img", "where the pictures go")
	url := flag.String("url", "", "take a picture of this page only")
	out := flag.String("out", "page.png", "its file")
	script := flag.String("script", "", "what to run in the page before")
	wait := flag.Duration("wait", 5*time.Second, "how long to let the page live before")
	dark := flag.Bool("dark", false, "as to a reader who wants dark pages")
	width, height := flag.Int("width", 1240, "in pixels"), flag.Int("height", 1000, "in pixels")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *url != "" {
		err = shoot(ctx, *url, *out, sight{*script, *wait, *width, *height, *dark})
	} else {
		err = all(ctx, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make pictures:", err)
		os.Exit(1)
	}
}

// sight is how a page is looked at.
type sight struct {
	script        string
	wait          time.Duration
	width, height int
	dark          bool
}

func shoot(ctx context.Context, url, file string, s sight) error {
	p, err := openPage(ctx, url, s.width, s.height)
	if err != nil {
		return err
	}
	defer p.close()
	if s.dark {
		scheme := []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}
		if err := p.call("Emulation.setEmulatedMedia", map[string]any{"features": scheme}, nil); err != nil {
			return err
		}
	}
	if err := rest(ctx, s.wait); err != nil {
		return err
	}
	if s.script != "" {
		if err := p.run(s.script); err != nil {
			return err
		}
		if err := rest(ctx, time.Second); err != nil {
			return err
		}
	}
	return p.picture(file, s.width, s.height)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

const (
	sourceKafka, sourceHTTP = "127.0.0.1:21092", "127.0.0.1:21090"
	mirrorKafka, mirrorHTTP = "127.0.0.1:22092", "127.0.0.1:22090"
	plotted                 = 95 * time.Second
	killAfter               = 65 * time.Second
	program                 = "bin/hawser"
)

// all runs the two clusters and takes both pictures.
func all(ctx context.Context, dir string) error {
	data, err := os.MkdirTemp("", "hawser-pictures-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	source, err := serve(ctx, data, "prod-eu-1", sourceKafka, sourceHTTP)
	if err != nil {
		return err
	}
	defer end(source)
	mirror, err := serve(ctx, data, "dr-eu-2", mirrorKafka, mirrorHTTP)
	if err != nil {
		return err
	}
	defer end(mirror)
	if err := prepare(ctx); err != nil {
		return err
	}
	traffic, quiet := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { write(traffic) })
	defer writing.Wait()
	defer quiet()
	p, err := openPage(ctx, "http://"+mirrorHTTP, 1240, 1000)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.run(`setTimeout(() => [...document.querySelectorAll("button[data-mirror]")].find((b) => b.textContent === "orders").click(), 5000)`); err != nil {
		return err
	}
	samples, err := watch(ctx, killAfter, 0)
	if err != nil {
		return err
	}
	if err := p.picture(filepath.Join(dir, "console.png"), 1240, 1000); err != nil {
		return err
	}
	quiet()
	if err := source.Process.Kill(); err != nil {
		return err
	}
	killed := samples[len(samples)-1].at
	after, err := watch(ctx, plotted-killAfter, killed)
	if err != nil {
		return err
	}
	return writePlot(filepath.Join(dir, "lag.svg"), append(samples, after...), killed)
}

func serve(ctx context.Context, data, id, kafka, http string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, "serve", "--data", filepath.Join(data, id), "--kafka", kafka, "--http", http, "--cluster-id", id)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a broker ('make build' makes it): %w", err)
	}
	for range 100 {
		if _, err := get("http://" + http + "/health/ready"); err == nil {
			return cmd, nil
		}
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			break
		}
	}
	end(cmd)
	return nil, fmt.Errorf("the broker at %s does not become ready", http)
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// hawser runs a command line against the REST door.
func hawser(ctx context.Context, http string, in io.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HAWSER_REST_URL=http://"+http)
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hawser %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

var topics = []string{"orders", "payments", "clicks", "users", "audit"}

func prepare(ctx context.Context) error {
	var errs []error
	for _, topic := range topics {
		errs = append(errs, hawser(ctx, sourceHTTP, nil, "topic", "create", topic, "--partitions", "4"))
	}
	configs := `link.max.bytes.per.second=700000,metadata.max.age.ms=1000,consumer.offset.sync.enable=true,consumer.offset.group.filters={"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`
	errs = append(errs, hawser(ctx, mirrorHTTP, nil, "link", "create", "from-prod", "--source-bootstrap-server", sourceKafka, "--config", configs))
	for _, topic := range topics {
		errs = append(errs, hawser(ctx, mirrorHTTP, nil, "mirror", "create", topic, "--link", "from-prod"))
	}
	errs = append(errs, hawser(ctx, mirrorHTTP, nil, "mirror", "pause", "audit"), hawser(ctx, mirrorHTTP, nil, "mirror", "failover", "users"))
	return errors.Join(errs...)
}

// write fills the source until ctx ends: now and then faster than the link may fetch.
func write(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		orders := 300
		if n%25 < 6 {
			orders = 25000
		}
		for topic, records := range map[string]int{"orders": orders, "clicks": 40, "payments": 10} {
			var b strings.Builder
			for i := range records {
				fmt.Fprintf(&b, `%d {"order":"4711","amount":129.90,"currency":"EUR","customer":"c-88213"}`+"\n", i)
			}
			_ = hawser(ctx, sourceHTTP, strings.NewReader(b.String()), "produce", topic, "--bootstrap-server", sourceKafka) // the source is killed in the end
		}
		_ = rest(ctx, 800*time.Millisecond)
	}
}

var (
	lagLine = regexp.MustCompile(`(?m)^hawser_mirror_lag_records\{.*topic="orders"\} (\S+)`)
	rpoLine = regexp.MustCompile(`(?m)^hawser_mirror_rpo_seconds\{.*topic="orders"\} (\S+)`)
)

// watch samples the mirror of orders for a while; from is the time of its first sample.
func watch(ctx context.Context, d time.Duration, from float64) ([]sample, error) {
	var samples []sample
	for start := time.Now(); time.Since(start) < d; {
		page, err := get("http://" + mirrorHTTP + "/metrics")
		if err != nil {
			return nil, err
		}
		s := sample{at: from + time.Since(start).Seconds()}
		for _, found := range lagLine.FindAllStringSubmatch(page, -1) {
			v, _ := strconv.ParseFloat(found[1], 64)
			s.lag += v
		}
		for _, found := range rpoLine.FindAllStringSubmatch(page, -1) {
			if v, _ := strconv.ParseFloat(found[1], 64); v < 1e6 { // infinite before the first contact
				s.rpo = max(s.rpo, v)
			}
		}
		samples = append(samples, s)
		if err := rest(ctx, 250*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	rs, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer rs.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(rs.Body, 64<<20))
	if err == nil && rs.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, rs.Status)
	}
	return string(raw), err
}
