package handler

import (
	"fmt"
	"reflect"

	"github.com/hawserio/hawser/kafka/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// elementsMax is how many things (topics, partitions, groups, names …) a request may name. Sixteen megabytes hold as
	// many one-letter names, and answering for each takes hundreds of bytes: one request could take all memory there is.
	elementsMax = 100_000
	// laidOut is how many times its bytes a request without records is counted as while it is answered: decoded, its lists of short
	// names take that and more.
	laidOut = 8
	// laidOutLeast is from which size on, in bytes; shorter requests are too small to matter.
	laidOutLeast = 256 << 10
	// configsMax is how many resources DescribeConfigs may name: each is answered with some forty configs.
	configsMax = 20_000
	// elementCost and configsCost are what answering for one thing takes, in bytes, about.
	elementCost = 1 << 10
	configsCost = 16 << 10
	// countedLeast is from which size on, in bytes, a request's elements are counted.
	countedLeast = 16 << 10
)

// account looks at a request's bytes before they are laid out: it takes memory of what all requests may have together, and refuses a
// Produce of too many lists.
func (c *conn) account(h wire.Header, rest []byte) error {
	if h.Key == kmsg.Produce.Int16() {
		if len(rest) <= elementsMax {
			return nil
		}
		return wire.CheckProduce(rest, h.Version, elementsMax)
	}
	if len(rest) < laidOutLeast {
		return nil
	}
	return c.reserve(int(min(laidOut*int64(len(rest)), c.server.Settings.QueuedMaxBytes/2)))
}

// checkElements refuses a request that names too many things, and takes memory for the answer about the others.
func (c *conn) checkElements(h wire.Header, rq kmsg.Request) error {
	if c.size < countedLeast || h.Key == kmsg.Produce.Int16() {
		return nil
	}
	most, cost := elementsMax, int64(elementCost)
	if h.Key == kmsg.DescribeConfigs.Int16() {
		most, cost = configsMax, configsCost
	}
	left := most
	if !within(reflect.ValueOf(rq).Elem(), &left) {
		return fmt.Errorf("a request of API key %d names more than %d things: ask for them in several requests", h.Key, most)
	}
	need := min(int64(most-left)*cost, c.server.Settings.QueuedMaxBytes/2)
	if need <= c.reserved {
		return nil
	}
	return c.reserve(int(need - c.reserved))
}

// within counts the elements of all lists in a request down from left; it reports false when that is used up.
func within(v reflect.Value, left *int) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || within(v.Elem(), left)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !within(v.Field(i), left) {
				return false
			}
		}
	case reflect.Slice:
		element := v.Type().Elem().Kind()
		if element == reflect.Uint8 {
			return true
		}
		if *left -= v.Len(); *left < 0 {
			return false
		}
		if element == reflect.Struct || element == reflect.Pointer || element == reflect.Slice {
			for i := range v.Len() {
				if !within(v.Index(i), left) {
					return false
				}
			}
		}
	}
	return true
}
