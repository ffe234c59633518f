package cli

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/magiconair/properties"

	"github.com/hawserio/hawser/rest/api"
)

// configFileMax bounds a configuration file, in bytes.
const configFileMax = 4 << 20

// nextKey is a comma that begins another key=value. Commas inside a value, as between two
// bootstrap servers or in a JSON filter, are not followed by a dotted name and '='.
var nextKey = regexp.MustCompile(`,\s*([A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+=)`)

// readConfigs reads --config-file and then each --config: key=value,key=value or the name
// of a properties file. What comes later wins.
func readConfigs(files, texts []string) (map[string]string, error) {
	set := map[string]string{}
	for _, file := range files {
		if err := readProperties(file, set); err != nil {
			return nil, err
		}
	}
	for _, text := range texts {
		if !strings.Contains(text, "=") {
			if err := readProperties(text, set); err != nil {
				return nil, fmt.Errorf("--config %q is neither key=value nor a file that can be read: %w", text, err)
			}
			continue
		}
		for _, pair := range strings.Split(nextKey.ReplaceAllString(text, "\x00$1"), "\x00") {
			key, value, ok := strings.Cut(pair, "=")
			key = strings.TrimSpace(key)
			if !ok || key == "" {
				return nil, fmt.Errorf("--config %q: %q is not key=value", text, pair)
			}
			set[key] = strings.TrimSpace(value)
		}
	}
	return set, nil
}

// readProperties reads a Java properties file. ${…} is left alone: Kafka's own tools do not expand it either.
func readProperties(file string, set map[string]string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read the configuration file: %w", err)
	}
	if info.IsDir() || info.Size() > configFileMax {
		return fmt.Errorf("read the configuration file %s: it is a directory or longer than %d bytes", file, configFileMax)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the configuration file: %w", err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	props, err := loader.LoadBytes(raw)
	if err != nil {
		return fmt.Errorf("read the configuration file %s: %w", file, err)
	}
	for _, key := range props.Keys() {
		value, _ := props.Get(key)
		set[key] = value
	}
	return nil
}

// configData writes configs as REST takes them, by name.
func configData(set map[string]string) []api.ConfigData {
	out := []api.ConfigData{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value := set[name]
		out = append(out, api.ConfigData{Name: name, Value: &value})
	}
	return out
}

// alterations writes changes as REST takes them: those set, then those put back to their default.
func alterations(set map[string]string, remove []string) []api.AlterConfig {
	var out []api.AlterConfig
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, op := set[name], api.OperationSet
		out = append(out, api.AlterConfig{Name: name, Value: &value, Operation: &op})
	}
	for _, name := range remove {
		op := api.OperationDelete
		out = append(out, api.AlterConfig{Name: name, Operation: &op})
	}
	return out
}
