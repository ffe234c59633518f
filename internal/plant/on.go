//go:build plant

package plant

import "os"

var fault = os.Getenv("HAWSER_PLANT")

// On reports whether a fault is planted.
func On(name string) bool { return fault == name }
