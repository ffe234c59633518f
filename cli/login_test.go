package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/hawserio/hawser/rest/client"
)

func TestWhoIsNotLoggedInIsTold(t *testing.T) {
	a := &app{}
	for _, row := range []struct {
		err  client.Error
		want bool
	}{
		{client.Error{Status: 401, Message: "Authentication failed."}, true},
		{client.Error{Status: 403, Message: "User:ANONYMOUS is not allowed to DESCRIBE on CLUSTER."}, true},
		{client.Error{Status: 403, Message: "User:alice is not allowed to DESCRIBE on CLUSTER."}, false},
	} {
		if got := a.explain(&row.err); strings.Contains(got, "--user or HAWSER_REST_USER") != row.want || !strings.Contains(got, row.err.Message) {
			t.Errorf("%d: %q", row.err.Status, got)
		}
	}
}

// TestNobodyTypesAPassword: Ctrl-C ends the wait for one.
func TestNobodyTypesAPassword(t *testing.T) {
	in, nobody := io.Pipe()
	defer nobody.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &app{hooks: Hooks{In: in}, err: io.Discard}
	if got, err := a.readPassword(ctx, "alice"); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %q, %v", got, err)
	}
}
