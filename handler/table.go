package handler

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is a row of the table: what dispatch, ApiVersions and docs/protocol.md know of an API.
type api struct {
	key      int16
	name     string // Kafka's
	min, max int16  // versions advertised, inclusive
	handle   handle
	needs    needs
	note     string // for docs/protocol.md; what differs from Apache Kafka
}

// handle answers one request. A nil response sends nothing (acks=0). An error
// closes the connection: it is for requests that no answer is defined for.
type handle func(context.Context, *call, kmsg.Request) (kmsg.Response, error)

// needs says which part of the broker must be there for a row to be offered.
type needs int8

const (
	always needs = iota
	transactions
)

// on makes a row's handle of a typed function.
func on[Rq kmsg.Request](fn func(context.Context, *call, Rq) (kmsg.Response, error)) handle {
	return func(ctx context.Context, c *call, rq kmsg.Request) (kmsg.Response, error) { return fn(ctx, c, rq.(Rq)) }
}

// apis is every API that the door serves, by key.
var apis = []api{
	{key: 0, name: "Produce", min: 0, max: 13, handle: on(produce), note: "versions 0-2 are listed for old librdkafka and answered UNSUPPORTED_VERSION, as Apache Kafka 4 does (KAFKA-18659)"},
	{key: 1, name: "Fetch", min: 4, max: 18, handle: on(fetch)},
	{key: 2, name: "ListOffsets", min: 1, max: 11, handle: on(listOffsets)},
	{key: 3, name: "Metadata", min: 0, max: 13, handle: on(metadata)},
	{key: 18, name: "ApiVersions", min: 0, max: 4, handle: nil /* apiVersions: it reads this table */},
}

// table is the rows that this broker offers, by key.
type table map[int16]*api

func newTable(d *Deps) table {
	t := make(table, len(apis))
	for _, row := range apis {
		if row.needs == transactions && d.Transactions == nil {
			continue
		}
		if row.key == kmsg.ApiVersions.Int16() {
			row.handle = on(apiVersions)
		}
		t[row.key] = &row
	}
	return t
}

// keys is the keys in order.
func (t table) keys() []int16 {
	keys := make([]int16, 0, len(t))
	for key := range t {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// request finds the row and an empty request for a key and version that are
// served, else nil: a decoder is never run on a version that is not.
func (t table) request(key, version int16) (*api, kmsg.Request) {
	row := t[key]
	if row == nil || version < row.min || version > row.max {
		return nil, nil
	}
	rq := kmsg.RequestForKey(key)
	rq.SetVersion(version)
	return row, rq
}
