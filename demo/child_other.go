//go:build !linux

package demo

import "syscall"

// childAttributes keeps a Ctrl-C for the tour, which then stops the brokers.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
