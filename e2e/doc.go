// Package e2e runs the real binary against stock Apache Kafka and stock
// clients, and compares logs byte for byte. Only its tests use it; they are
// behind the build tag e2e, since they need what scripts/tools installs.
package e2e
