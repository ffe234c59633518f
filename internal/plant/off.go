//go:build !plant

// Package plant puts faults into the program for the tests that must find them: built with the tag plant, the fault that HAWSER_PLANT
// names is on. In every other build it is a constant, and gone. Pure packages may ask it; it refuses to be asked for anything but tests.
package plant

// On reports whether a fault is planted.
func On(string) bool { return false }
