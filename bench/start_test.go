//go:build bench

package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestStart fills a broker with partitions of one record each and measures its memory, what it does at rest, and how long it takes
// from its start to a record that is acknowledged: after it was stopped in order, and after kill -9.
func TestStart(t *testing.T) {
	partitions := int32(envInt(t, "HAWSER_BENCH_PARTITIONS", 1000))
	binary := func(path string) func() (*process, func(t *testing.T) string) {
		return func() (*process, func(t *testing.T) string) {
			h := startBinary(t, path, "")
			return h.process, func(t *testing.T) string { return h.ready(t) }
		}
	}
	ways := map[string]func() (*process, func(t *testing.T) string){"hawser": binary(os.Getenv("HAWSER_BIN"))}
	if beside := os.Getenv("HAWSER_BENCH_BESIDE"); beside != "" {
		ways["hawser beside"] = binary(beside)
	}
	if os.Getenv("HAWSER_BENCH_ALONE") == "" {
		ways["Kafka"] = func() (*process, func(t *testing.T) string) {
			k := startKafka(t, "kafka")
			return k.process, func(*testing.T) string { return k.bootstrap }
		}
	}
	for name, way := range ways {
		p, ready := way()
		say := func(what string, value float64) {
			fmt.Printf("start | %s | %s | %.4g | load %.1f\n", name, what, value, load())
		}
		c := client(t, ready(t))
		say("empty, MB", residentMB(t, p.pid()))
		begun := time.Now()
		createTopic(t, c, "many", partitions, nil)
		say("create, ms", ms(time.Since(begun)))
		say("created, MB", residentMB(t, p.pid()))
		say("first records, ms", ms(writeAll(t, broker{name: name, address: ready(t)}, shape{100, partitions}, int(partitions), "many")))
		say("written, MB", residentMB(t, p.pid()))
		idle(t, p, say)
		connections(t, p, ready(t), say)
		for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			begun = time.Now()
			if err := p.cmd.Process.Signal(how); err != nil {
				t.Fatal(err)
			}
			<-p.done
			say(how.String()+", ms", ms(time.Since(begun)))
			begun = time.Now()
			*p = *startProcess(t, p.log, p.cmd.Path, p.cmd.Args[1:]...)
			c := client(t, ready(t), kgo.DefaultProduceTopic("many"))
			eventually(t, startWithin, name+" takes a record", func(ctx context.Context) (bool, string) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr()
				return err == nil, fmt.Sprint(err)
			})
			say("to the first record, ms", ms(time.Since(begun)))
			eventually(t, startWithin, name+" has all", func(ctx context.Context) (bool, string) {
				n, err := landed(ctx, c, "many", partitions)
				return err == nil && n > int64(partitions), fmt.Sprint(n, err)
			})
			say("to all partitions, ms", ms(time.Since(begun)))
			say("started, CPU s", cpuSeconds(t, p.pid()))
			say("started, MB", residentMB(t, p.pid()))
		}
		p.kill()
	}
}

// idle measures what a broker uses that nobody asks for anything.
func idle(t *testing.T, p *process, say func(string, float64)) {
	t.Helper()
	pause(t.Context(), 5*time.Second) // what was begun ends
	const during = 10 * time.Second
	before := cpuSeconds(t, p.pid())
	pause(t.Context(), during)
	say("at rest, % of a CPU", (cpuSeconds(t, p.pid())-before)/during.Seconds()*100)
}

// connections measures the memory of connections that have asked once and are at rest.
func connections(t *testing.T, p *process, address string, say func(string, float64)) {
	t.Helper()
	const many = 1000
	before := residentMB(t, p.pid())
	versions := []byte{0, 0, 0, 14, 0, 18, 0, 0, 0, 0, 0, 1, 0, 4, 'i', 'd', 'l', 'e'}
	for range many {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(versions); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	say("a connection, KB", (residentMB(t, p.pid())-before)*1000/many)
}
