// Package handler is the Kafka door: one file per API key, one table for
// dispatch, ApiVersions and docs, the connections. It asks the domain packages
// and never links; what it must know of mirrors comes in as an interface.
package handler
