package meta_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
)

func TestIdentityStays(t *testing.T) {
	dir := t.TempDir()
	m := metatest.Open(t, meta.Config{Dir: dir, ClusterID: "my-cluster"})
	first := m.Image().Cluster
	if first.ID != "my-cluster" {
		t.Fatalf("cluster is %+v", first)
	}
	if _, err := meta.Open(t.Context(), meta.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("second opening: %v", err)
	}
	reopen := func(cfg meta.Config) meta.Cluster {
		t.Helper()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.Dir = dir
		m = metatest.Open(t, cfg)
		return m.Image().Cluster
	}
	if got := reopen(meta.Config{}); got != first {
		t.Fatalf("%+v became %+v", first, got)
	}
	got := reopen(meta.Config{NewIdentity: true, ClusterID: "my-cluster"})
	if got.ID != first.ID || got.Incarnation == first.Incarnation || got.ProducerPrefix == first.ProducerPrefix {
		t.Fatalf("new identity: %+v became %+v", first, got)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := meta.Open(t.Context(), meta.Config{Dir: dir, ClusterID: "other"}); err == nil || !strings.Contains(err.Error(), `belongs to cluster "my-cluster"`) {
		t.Fatalf("another cluster id: %v", err)
	}
}

func TestNewerFormatsAreRefusedWithWords(t *testing.T) {
	for name, c := range map[string]struct{ key, value, want string }{
		"newer version": {"/hawser/1/topic/" + kafka.NewTopicID().String(), `{"v":9,"r":{}}`, "format 9 is newer than 1"},
		"unknown kind":  {"/hawser/1/starship/x", `{"v":1,"r":{}}`, "a kind that this version does not know"},
		"newer field":   {"/hawser/1/topic/" + kafka.NewTopicID().String(), `{"v":1,"r":{"name":"x","warp":{"factor":9}}}`, `field "warp" is not known to this version: run the newer hawser`},
		"newer in ACL":  {"/hawser/1/acl/" + kafka.NewTopicID().String(), `{"v":1,"r":{"warp":9}}`, `field "warp" is not known to this version`},
		"newer in link": {"/hawser/1/link/" + kafka.NewTopicID().String(), `{"v":1,"r":{"warp":9}}`, `field "warp" is not known to this version`},
		"newer in user": {"/hawser/1/scram/1/bob", `{"v":1,"r":{"warp":9}}`, `field "warp" is not known to this version`},
		"newer in self": {"/hawser/1/cluster/self", `{"v":1,"r":{"warp":9}}`, `field "warp" is not known to this version`},
		"no record":     {"/hawser/1/topic/" + kafka.NewTopicID().String(), `hello`, "not a record"},
		"bad id":        {"/hawser/1/topic/x", `{"v":1,"r":{}}`, "parse topic id"},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := metatest.StartEtcd(t, metatest.EtcdConfig{})
			cfg := meta.Config{Dir: t.TempDir(), Endpoints: []string{etcd.Endpoint}}
			m := metatest.Open(t, cfg)
			raw := rawClient(t, etcd)
			if _, err := raw.Put(t.Context(), c.key, c.value); err != nil {
				t.Fatal(err)
			}
			select { // the one that is running stops
			case <-m.Failed():
			case <-time.After(20 * time.Second):
				t.Fatal("the open store went on")
			}
			if err := m.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("open store: %v, want %q", err, c.want)
			}
			if _, err := meta.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("at start: %v, want %q", err, c.want)
			}
		})
	}
}

func rawClient(t *testing.T, etcd *metatest.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestExternalThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := meta.Open(ctx, meta.Config{Dir: t.TempDir(), Endpoints: []string{"127.0.0.1:1"}}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatalf("err = %v", err)
	}
}

func TestSecondBrokerNeedsTheKeyFile(t *testing.T) {
	etcd := metatest.StartEtcd(t, metatest.EtcdConfig{})
	first := meta.Config{Dir: t.TempDir(), Endpoints: []string{etcd.Endpoint}}
	m := metatest.Open(t, first)
	second := meta.Config{Dir: t.TempDir(), Endpoints: first.Endpoints}
	if _, err := meta.Open(t.Context(), second); err == nil || !strings.Contains(err.Error(), "copy it from another broker") {
		t.Fatalf("without the key: %v", err)
	}
	key, err := os.ReadFile(first.Dir + "/secret.key")
	if err == nil {
		err = os.WriteFile(second.Dir+"/secret.key", key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := metatest.Open(t, second)
	if other.Image().Cluster != m.Image().Cluster {
		t.Fatal("two brokers of one store are not of one cluster")
	}
	// What one writes the other sees, secrets too.
	l := linkWithSecret()
	seen := make(chan struct{})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	go other.Watch(ctx, func(_, img *meta.Image) {
		if got := img.Links[l.ID]; got != nil && got.Secrets["sasl.jaas.config"].Reveal() == password {
			close(seen)
		}
	})
	update(t, m, meta.PutLink(l))
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatal("the other broker does not see it")
	}
}

// TestExternalRestart loses the connection, and with it history that the watch
// would have needed.
func TestExternalRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd := metatest.StartEtcd(t, metatest.EtcdConfig{Dir: dir})
	m := metatest.Open(t, meta.Config{Dir: t.TempDir(), Endpoints: []string{etcd.Endpoint}})
	update(t, m, meta.PutConfigs("1", map[string]string{"a": "b"}))
	endpoint := etcd.Endpoint
	etcd.Stop()

	// While it is away, somebody writes and compacts.
	elsewhere := metatest.StartEtcd(t, metatest.EtcdConfig{Dir: dir})
	raw := rawClient(t, elsewhere)
	var rev int64
	for i := range 20 {
		resp, err := raw.Put(t.Context(), "/hawser/1/configs/2", fmt.Sprintf(`{"v":1,"r":{"n":"%d"}}`, i))
		if err != nil {
			t.Fatal(err)
		}
		rev = resp.Header.Revision
	}
	if _, err := raw.Delete(t.Context(), "/hawser/1/configs/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(t.Context(), rev+1, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	elsewhere.Stop()
	metatest.StartEtcd(t, metatest.EtcdConfig{Dir: dir, Endpoint: endpoint})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := m.Update(ctx, func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.PutConfigs("3", map[string]string{"c": "d"})}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := m.Image().Configs
	if c["2"]["n"] != "19" || c["3"]["c"] != "d" || c["1"] != nil {
		t.Fatalf("after the restart: %v", c)
	}
}

func TestSpaceRunsOut(t *testing.T) {
	t.Parallel()
	const quota = 32 << 20 // much more than is written between two commits of its backend, 100 ms
	for name, open := range map[string]func(t *testing.T) *meta.Meta{
		"embedded": func(t *testing.T) *meta.Meta {
			return metatest.Open(t, meta.Config{Dir: t.TempDir(), QuotaBytes: quota, UnsafeNoFsync: true})
		},
		"external": func(t *testing.T) *meta.Meta {
			etcd := metatest.StartEtcd(t, metatest.EtcdConfig{QuotaBytes: quota})
			return metatest.Open(t, meta.Config{Dir: t.TempDir(), Endpoints: []string{etcd.Endpoint}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			topic := &meta.Topic{ID: kafka.NewTopicID(), Name: "t", Partitions: 1}
			mirror := &meta.Mirror{Topic: topic.ID, State: "ACTIVE"}
			update(t, m, meta.PutTopic(topic), meta.PutMirror(mirror), meta.PutPartitions(&meta.Partitions{Topic: topic.ID, List: make([]meta.Partition, 1)}))
			big := map[string]string{"x": strings.Repeat("x", 100_000)}
			fill := func(i int) error {
				return m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
					return []meta.Change{meta.PutConfigs(strconv.Itoa(i), big)}, nil
				})
			}
			n := 0
			// full fills the store. What the store reclaims when it refuses may make room once.
			full := func() {
				t.Helper()
				for limit := n + 600; n < limit; n++ {
					if err := fill(n); errors.Is(err, meta.ErrReadOnly) {
						return
					} else if err != nil {
						t.Fatal(err)
					}
				}
				t.Fatalf("never full: %+v", m.Space())
			}
			full()
			if s := m.Space(); s.QuotaBytes != quota || s.UsedBytes < quota/2 || s.UsedBytes > quota {
				t.Fatalf("space is %+v", s)
			}
			// Failover goes on.
			err := m.UpdatePartitions(t.Context(), []kafka.TopicID{topic.ID}, func(p *meta.Partitions) (*meta.Partitions, error) {
				p.List[0].Epoch = 7
				return p, nil
			})
			if err != nil {
				t.Fatalf("partition states: %v", err)
			}
			stopped := *mirror
			stopped.State = "STOPPED"
			update(t, m, meta.PutMirror(&stopped))
			update(t, m, meta.DeleteTopic(topic.ID, topic.Name), meta.DeletePartitions(topic.ID), meta.DeleteMirror(topic.ID),
				meta.PutDeletion(&meta.Deletion{Topic: topic.ID, Name: "t", Partitions: 1}))
			if _, err := m.ProducerIDs(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			other := &meta.Mirror{Topic: kafka.NewTopicID()}
			for range 3 {
				full()
				err = m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutMirror(other)}, nil })
				if err != nil {
					break
				}
			}
			if !errors.Is(err, meta.ErrReadOnly) {
				t.Fatalf("a new mirror: %v", err)
			}
		})
	}
}

// TestHistoryIsReclaimed fills the embedded store with history: it must give the space back by itself.
func TestHistoryIsReclaimed(t *testing.T) {
	t.Parallel()
	m := metatest.Open(t, meta.Config{Dir: t.TempDir(), QuotaBytes: 8 << 20, UnsafeNoFsync: true})
	big := map[string]string{"x": strings.Repeat("x", 100_000)}
	deadline := time.Now().Add(30 * time.Second)
	for i := 0; ; i++ {
		big["i"] = strconv.Itoa(i)
		err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
			return []meta.Change{meta.PutConfigs("", big)}, nil
		})
		if errors.Is(err, meta.ErrReadOnly) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Between the removal of history and the rewrite of the file etcd may refuse once more, which counts until its alarm is lifted.
	for {
		err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
			return []meta.Change{meta.PutConfigs("", map[string]string{"a": "b"})}, nil
		})
		if err == nil {
			break
		}
		if !errors.Is(err, meta.ErrReadOnly) || time.Now().After(deadline) {
			t.Fatalf("the space is not reclaimed: %v, %+v", err, m.Space())
		}
		<-time.After(50 * time.Millisecond)
	}
}

const crashDir = "HAWSER_TEST_CRASH_DIR"

// TestCrash kills a process that updates without end, and looks for what it had
// said was written.
func TestCrash(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	written := map[string]int{}
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		acks := 0
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var who string
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "ack %s %d", &who, &n); err != nil {
				t.Log(lines.Text())
				continue
			}
			written[who] = max(written[who], n)
			if acks++; acks == 200 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		err = cmd.Wait()
		if acks < 200 {
			t.Fatalf("round %d: %d writes only, then %v", round, acks, err)
		}
		start := time.Now()
		m := metatest.Open(t, meta.Config{Dir: dir})
		took := time.Since(start)
		for who, n := range written {
			if who == "ids" {
				first, err := m.ProducerIDs(t.Context(), 1)
				if err != nil || int(first&0xffffffff) < n {
					t.Errorf("round %d: id %d after %d were acknowledged, %v", round, first&0xffffffff, n, err)
				}
				continue
			}
			got, _ := strconv.Atoi(m.Image().Configs[who]["n"])
			if got < n {
				t.Errorf("round %d: %s is at %d, acknowledged was %d", round, who, got, n)
			}
		}
		t.Logf("round %d: %d acknowledged, open again after %v", round, acks, took)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func writeUntilKilled(t *testing.T, dir string) {
	m := metatest.Open(t, meta.Config{Dir: dir})
	var mu sync.Mutex
	ack := func(who string, n int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("ack %s %d\n", who, n)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		who := strconv.Itoa(i)
		wg.Go(func() {
			for t.Context().Err() == nil {
				n := 0
				err := m.Update(t.Context(), func(img *meta.Image) ([]meta.Change, error) {
					n, _ = strconv.Atoi(img.Configs[who]["n"])
					n++
					return []meta.Change{meta.PutConfigs(who, map[string]string{"n": strconv.Itoa(n)})}, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				ack(who, n)
			}
		})
	}
	wg.Go(func() {
		for t.Context().Err() == nil {
			first, err := m.ProducerIDs(t.Context(), 10)
			if err != nil {
				t.Error(err)
				return
			}
			ack("ids", int(first&0xffffffff)+10)
		}
	})
	wg.Wait()
}
