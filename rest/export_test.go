package rest

// RoutesForTest lists the table as "METHOD path".
func RoutesForTest() []string {
	var out []string
	for _, rt := range routes {
		out = append(out, rt.method+" "+rt.path)
	}
	return out
}
