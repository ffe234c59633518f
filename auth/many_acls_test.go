package auth_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// paired are records whose first update waits until a second one is under way, and which count how often they are listed.
type paired struct {
	*meta.Meta
	under  atomic.Int32
	second chan struct{}
	images atomic.Int32
	alone  atomic.Bool
}

func (p *paired) Image() *meta.Image {
	p.images.Add(1)
	return p.Meta.Image()
}

func (p *paired) Update(ctx context.Context, decide func(*meta.Image) ([]meta.Change, error)) error {
	switch p.under.Add(1) {
	case 1:
		select {
		case <-p.second:
		case <-time.After(10 * time.Second):
			p.alone.Store(true)
		}
	case 2:
		close(p.second)
	}
	return p.Meta.Update(ctx, decide)
}

func pairedOver(m *meta.Meta) *paired { return &paired{Meta: m, second: make(chan struct{})} }

// 99,000 rules took 22 s to make and more than 5 minutes to delete: a transaction after the other, and all rules listed and sorted for each.
func TestManyACLsAreMadeAndDeletedSideBySide(t *testing.T) {
	m := metatest.New(t)
	const rules = 200
	rq := kmsg.NewPtrCreateACLsRequest()
	for i := range rules + 2 {
		name := fmt.Sprint("topic-", i%rules) // two of them twice
		if i == 7 {
			name = "" // refused
		}
		rq.Creations = append(rq.Creations, kmsg.CreateACLsRequestCreation{
			ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: name, ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
			Principal: "User:alice", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow,
		})
	}
	making := pairedOver(m)
	for i, r := range auth.NewKeeper(making).CreateACLs(t.Context(), rq).Results {
		if (r.ErrorCode != 0) != (i == 7) {
			t.Errorf("rule %d: %v", i, kafka.ErrorCode(r.ErrorCode))
		}
	}
	if n := len(m.Image().ACLs); n != rules-1 {
		t.Errorf("%d rules are stored, want %d", n, rules-1)
	}
	deleting := pairedOver(m)
	filter := kmsg.DeleteACLsRequestFilter{ResourceType: kmsg.ACLResourceTypeTopic, ResourcePatternType: kmsg.ACLResourcePatternTypeAny, Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny}
	drq := kmsg.NewPtrDeleteACLsRequest()
	drq.Filters = []kmsg.DeleteACLsRequestFilter{filter, filter}
	for i, r := range auth.NewKeeper(deleting).DeleteACLs(t.Context(), drq).Results {
		seen := map[string]bool{}
		for _, match := range r.MatchingACLs {
			seen[match.ResourceName] = true
		}
		if r.ErrorCode != 0 || len(seen) != rules-1 || len(r.MatchingACLs) != rules-1 {
			t.Errorf("filter %d deleted %d rules of %d names, %v", i, len(r.MatchingACLs), len(seen), kafka.ErrorCode(r.ErrorCode))
		}
	}
	if n := len(m.Image().ACLs); n != 0 {
		t.Errorf("%d rules are left", n)
	}
	if making.alone.Load() || deleting.alone.Load() {
		t.Error("one transaction waits for the other")
	}
	if n := deleting.images.Load(); n > 2 {
		t.Errorf("the rules are listed %d times for two filters", n)
	}
}

// Two links' syncs and a hand may delete the same rules at once: each is answered as deleted by one of them.
func TestRulesDeletedTwiceAreAnsweredOnce(t *testing.T) {
	k, m := keeper(t)
	var rules []*meta.ACL
	for i := range 40 {
		rules = append(rules, rule(fmt.Sprintf("ALLOW User:alice READ TOPIC LITERAL t%d", i)))
	}
	if err := k.Add(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var removed atomic.Int32
	for range 4 {
		wg.Go(func() {
			list, err := k.Remove(t.Context(), auth.Filter{})
			if err != nil {
				t.Error(err)
			}
			removed.Add(int32(len(list)))
		})
	}
	wg.Wait()
	if removed.Load() != 40 || len(m.Image().ACLs) != 0 {
		t.Errorf("%d were answered as deleted, %d are left", removed.Load(), len(m.Image().ACLs))
	}
}

// An index was known by the address of the map that it was made from. Nothing held that map, so that a later one could get its address: a rule
// that was deleted meanwhile went on granting.
func TestRulesOfAnOlderMapAreNotTakenForThoseOfANewerOne(t *testing.T) {
	granted := rule("ALLOW User:alice READ TOPIC LITERAL orders")
	var current *meta.Image
	a := auth.NewAuthorizer(func() *meta.Image { return current }, auth.Rules{})
	may := func() bool {
		return a.Allowed("User:alice", "127.0.0.1", kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, "orders")
	}
	for range 20 {
		current = image(granted)
		old := reflect.ValueOf(current.ACLs).Pointer()
		if !may() {
			t.Fatal("the rule does not grant")
		}
		current = nil
		runtime.GC()
		var kept []*meta.Image // so that each one is elsewhere
		for range 2000 {
			next := image()
			if reflect.ValueOf(next.ACLs).Pointer() == old {
				if current = next; may() {
					t.Fatal("a rule that is gone grants")
				}
				break
			}
			kept = append(kept, next)
		}
		runtime.KeepAlive(kept)
	}
}
