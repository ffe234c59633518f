package config

import (
	"fmt"
	"maps"
	"strings"

	"github.com/magiconair/properties"
)

// propertiesMax bounds a file of properties, in bytes.
const propertiesMax = 4 << 20

// ParseProperties reads a Java .properties text. ${…} is left as it stands; of
// a key that stands twice the last one counts, as in Java.
func ParseProperties(text string) (map[string]string, error) {
	if len(text) > propertiesMax {
		return nil, fmt.Errorf("read properties: %d bytes are more than %d", len(text), propertiesMax)
	}
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := l.LoadBytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	return p.Map(), nil
}

// MergeSets puts key=value pairs, as from --set, over what was set. The last of several counts.
func MergeSets(set map[string]string, pairs []string) (map[string]string, error) {
	merged := maps.Clone(set)
	if merged == nil {
		merged = map[string]string{}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("%.100q is no setting: want key=value", pair)
		}
		merged[key] = value
	}
	return merged, nil
}
