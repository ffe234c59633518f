package rest

import "time"

// SetBodyTimeForTest changes how long a body may take, and answers how to change it back.
func SetBodyTimeForTest(d time.Duration) (restore func()) {
	old := bodyTime
	bodyTime = d
	return func() { bodyTime = old }
}

// RoutesForTest lists the table as "METHOD path".
func RoutesForTest() []string {
	var out []string
	for _, rt := range routes {
		out = append(out, rt.method+" "+rt.path)
	}
	return out
}
