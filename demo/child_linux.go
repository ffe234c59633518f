package demo

import "syscall"

// childAttributes makes a broker end with the tour, also when the tour is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
