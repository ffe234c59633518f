package cli_test

import (
	"slices"
	"strings"
	"testing"
)

func TestNamesAreCompleted(t *testing.T) {
	_, url := aCluster(t)
	ok(t, url, "topic", "create", "plain")
	for _, row := range []struct {
		args []string
		want string // names, with blanks between them; "" for none
	}{
		{[]string{"link", "describe", ""}, "my-link"},
		{[]string{"link", "describe", "my-link", ""}, ""},
		{[]string{"link", "create", ""}, ""},
		{[]string{"mirror", "describe", ""}, "clicks old orders"},
		{[]string{"mirror", "failover", "orders", ""}, "clicks old"},
		{[]string{"mirror", "list", "--link", ""}, "my-link"},
		{[]string{"topic", "describe", ""}, "plain"},
		{[]string{"consume", ""}, "plain"},
		{[]string{"kafka", "link", "describe", ""}, "my-link"},
		{[]string{"link", "list", "-o", ""}, "human json yaml"},
		{[]string{"link", "describe", "--url", "http://127.0.0.1:1", ""}, ""},
	} {
		lines := strings.Split(ok(t, url, append([]string{"__complete"}, row.args...)...), "\n")
		names := slices.DeleteFunc(lines, func(line string) bool { return line == "" || strings.HasPrefix(line, ":") })
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%q: got %q, want %q", row.args, got, row.want)
		}
	}
}
