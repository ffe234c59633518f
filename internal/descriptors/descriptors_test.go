//go:build unix

package descriptors

import (
	"errors"
	"net"
	"os"
	"testing"
)

// Connections are refused while there are still descriptors for files, files that stay open earlier still, and both are taken again once others are closed.
func TestConnectionsLeaveDescriptorsForFiles(t *testing.T) {
	taken, err := lowest()
	if err != nil {
		t.Fatal(err)
	}
	real, most := Limit, taken+3*keptLeast+10
	Limit = func() int { return most }
	defer func() { Limit = real }()
	if kept(most) != keptLeast {
		t.Fatalf("of %d descriptors %d are kept", most, kept(most))
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := OneMore(); err != nil {
		t.Fatalf("a file where many are free: %v", err)
	}
	var held []*os.File
	free := func() {
		for _, f := range held {
			f.Close()
		}
		held = nil
	}
	defer free()
	hold := func(upTo int) {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, f)
			if int(f.Fd()) >= upTo {
				return
			}
		}
	}
	accept := func() error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := l.Accept()
		if err == nil {
			got.Close()
		}
		return err
	}
	hold(most - 2*keptLeast)
	if err := OneMore(); !errors.Is(err, ErrFew) {
		t.Errorf("a file where few descriptors are free: %v", err)
	}
	if err := accept(); err != nil {
		t.Errorf("a connection is refused while some are free: %v", err)
	}
	hold(most - keptLeast)
	err = accept()
	var temporary interface{ Temporary() bool }
	if !errors.Is(err, ErrFew) || !errors.As(err, &temporary) || !temporary.Temporary() {
		t.Errorf("a connection where few descriptors are free: %v", err)
	}
	free()
	if err := errors.Join(accept(), OneMore()); err != nil {
		t.Errorf("after files were closed: %v", err)
	}
}
