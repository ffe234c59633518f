//go:build race

package partition

// slowdown divides what the long tests do: the race detector makes them many times slower.
const slowdown = 4
