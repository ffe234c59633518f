//go:build !linux

package handler

import "github.com/hawserio/hawser/commitlog"

func (c *conn) sendFile(slice commitlog.Slice) error { return c.sendCopied(slice) }
