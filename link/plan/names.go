package plan

import (
	"fmt"

	"github.com/hawserio/hawser/kafka"
)

// LinkNameMax is the longest name of a link, in bytes.
const LinkNameMax = 200

// PrefixMax is the longest prefix: what leaves room for a one-letter topic.
const PrefixMax = kafka.TopicNameMax - 1

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

func checkBytes(what, name string) error {
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("%s %q may hold only ASCII letters, digits, '.', '_' and '-'", what, name)
		}
	}
	return nil
}

// CheckLinkName says why a name cannot be a link's (case C69). '-' stands for all
// links in a URL.
func CheckLinkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the link name is empty: give one of 1 to %d characters", LinkNameMax)
	case len(name) > LinkNameMax:
		return fmt.Errorf("the link name is %d characters long, at most %d are allowed", len(name), LinkNameMax)
	case name == "." || name == ".." || name == "-":
		return fmt.Errorf("the link name %q is not allowed: it means something else in a URL", name)
	}
	return checkBytes("the link name", name)
}

// CheckPrefix says why a text cannot be a link's prefix; empty is no prefix.
func CheckPrefix(prefix string) error {
	if len(prefix) > PrefixMax {
		return fmt.Errorf("cluster.link.prefix is %d characters long: with a topic's name it would be longer than the %d a topic may have",
			len(prefix), kafka.TopicNameMax)
	}
	return checkBytes("cluster.link.prefix", prefix)
}

// MirrorName is the mirror's name for a source topic (cases C46, C52). given is what
// the order says, empty where it says nothing.
func MirrorName(prefix, source, given string) (string, error) {
	if err := kafka.CheckTopicName(source); err != nil {
		return "", err
	}
	want := prefix + source
	switch {
	case prefix == "" && given != "" && given != want:
		return "", kafka.Errorf(kafka.UnsupportedVersion, "Topic renaming for mirroring not yet supported: the link has no prefix, so "+
			"the mirror topic must be named '%s' like its source, not '%s'.", want, given)
	case prefix != "" && given == "":
		return "", kafka.Errorf(kafka.InvalidRequest, "The link has the prefix '%s': give both names; the mirror topic of '%s' must "+
			"be named '%s'.", prefix, source, want)
	case given != "" && given != want:
		return "", kafka.Errorf(kafka.InvalidRequest,
			"The mirror topic's name '%s' does not fit the link's prefix '%s': it must be '%s'.", given, prefix, want)
	}
	if err := kafka.CheckTopicName(want); err != nil {
		return "", err
	}
	return want, nil
}
