package config

// nearest is the known name that a mistyped one is likely to mean; "" if none is near.
func (t *Table) nearest(name string) string {
	if len(name) > 100 {
		return ""
	}
	best, near := "", max(2, len(name)/5)+1
	for _, k := range t.keys {
		if d := distance(name, k.Name, near); d < near {
			best, near = k.Name, d
		}
	}
	return best
}

// distance counts the letters to change, add, drop or swap with a neighbour; limit where that many or more.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
