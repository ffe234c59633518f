//go:build invariants

package invariant

// Enabled tells that checks which cost something are made.
const Enabled = true
