package kafka

import (
	"math"
	"unicode/utf16"
)

// PartitionFor is the partition, of an internal topic that has n, on which a group or a transactional
// id falls: the absolute value of Java's String.hashCode modulo n, as in Kafka's coordinators.
func PartitionFor(name string, n int32) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(name)) {
		h = 31*h + int32(unit)
	}
	if h == math.MinInt32 {
		return 0 // Kafka's Utils.abs
	}
	return max(h, -h) % n
}
