//go:build !race

package partition

// slowdown divides what the long tests do.
const slowdown = 1
