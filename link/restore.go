package link

import (
	"context"
	"time"

	"github.com/hawserio/hawser/meta"
)

func (r *running) setUpRestore(context.Context, topicMirror) (time.Duration, error) {
	return turnLater, nil
}
func (r *running) restore(context.Context, *meta.Image, topicMirror) (time.Duration, error) {
	return turnLater, nil
}
func (r *running) release(context.Context, topicMirror) error { return nil }
