package handler

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/hawserio/hawser/commitlog"
	"golang.org/x/sys/unix"
)

// sendFile writes a run of batches from its file to the socket within the
// kernel, where both allow it. The offset is passed with each call: the file's
// own position is shared by all readers.
func (c *conn) sendFile(slice commitlog.Slice) error {
	tcp, ok := c.net.(*net.TCPConn)
	file := slice.File.OSFile()
	if !ok || file == nil {
		return c.sendCopied(slice)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	defer runtime.KeepAlive(file)
	in := int(file.Fd())
	at, end := slice.Position, slice.Position+slice.Length
	for at < end {
		if err := c.net.SetWriteDeadline(c.server.deadline(c.server.writeTimeout)); err != nil {
			return err
		}
		var n int
		var sendErr error
		err := raw.Write(func(out uintptr) bool {
			n, sendErr = unix.Sendfile(int(out), in, &at, int(min(end-at, writeChunk)))
			return !errors.Is(sendErr, unix.EAGAIN)
		})
		c.server.counters.out.Add(int64(max(n, 0)))
		switch {
		case err != nil:
			return fmt.Errorf("write answer: %w", err)
		case errors.Is(sendErr, unix.EINTR):
		case sendErr != nil:
			return fmt.Errorf("send file: %w", sendErr)
		case n == 0:
			return fmt.Errorf("send file at position %d: %w", at, io.ErrUnexpectedEOF)
		}
	}
	return nil
}
