package broker

import (
	"context"

	"github.com/hawserio/hawser/meta"
)

// OpenAloud is openAloud.
var OpenAloud = openAloud

// Watch is the watch of the broker's metadata.
func (b *Broker) Watch(ctx context.Context, fn func(old, new *meta.Image)) { b.meta.Watch(ctx, fn) }
