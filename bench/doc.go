// Package bench measures hawser beside Apache Kafka, MirrorMaker 2, a plain consumer and the
// disk. Only make bench uses it; it is behind the build tag bench, since it needs
// what scripts/tools installs and a machine with nothing else to do.
package bench
