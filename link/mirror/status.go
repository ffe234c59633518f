package mirror

import "fmt"

// LinkHealth is what a link is fit for now.
type LinkHealth uint8

// The healths of a link.
const (
	LinkUnknown     LinkHealth = iota // not probed yet
	LinkActive                        // the source answered when last asked
	LinkPaused                        // cluster.link.paused
	LinkUnavailable                   // out of reach past the availability threshold; heals by itself
	LinkFailed                        // credentials, TLS, wrong cluster or config; heals when they are put right
	numLinkHealths
)

var linkHealthNames = [numLinkHealths]string{
	LinkUnknown:     "UNKNOWN",
	LinkActive:      "ACTIVE",
	LinkPaused:      "PAUSED",
	LinkUnavailable: "UNAVAILABLE",
	LinkFailed:      "FAILED",
}

// String is link_state's name on REST.
func (h LinkHealth) String() string {
	if h < numLinkHealths {
		return linkHealthNames[h]
	}
	return fmt.Sprintf("HEALTH_%d", uint8(h))
}

// SourceHealth is whether one topic's partitions can be fetched.
type SourceHealth uint8

// The healths of a source topic.
const (
	SourceReachable SourceHealth = iota
	SourceUnavailable
	numSourceHealths
)

// shown is the name people and programs see.
var shown = [numStates]string{
	Active:             "ACTIVE",
	Paused:             "PAUSED",
	PendingStopped:     "PENDING_STOPPED",
	Stopping:           "PENDING_STOPPED",
	Stopped:            "STOPPED",
	PendingSynchronize: "PENDING_SYNCHRONIZE",
	PendingHandOver:    "PENDING_STOPPED",
	PendingMirror:      "PENDING_MIRROR",
	HandedOver:         "PENDING_MIRROR",
	PendingSetup:       "PENDING_SETUP_FOR_RESTORE",
	PendingRestore:     "PENDING_RESTORE",
	Reopening:          "PENDING_STOPPED",
	Failed:             "FAILED",
}

// The computed statuses: they speak of the link or the source, and are never stored.
const (
	StatusLinkPaused        = "LINK_PAUSED"
	StatusLinkFailed        = "LINK_FAILED"
	StatusSourceUnavailable = "SOURCE_UNAVAILABLE"
)

// Status is mirror_status as REST shows it. Only ACTIVE hides behind the link's
// and the source's troubles: every other state is somebody's order or the end
// of the road, and says more than they do.
func Status(topic State, link LinkHealth, source SourceHealth) string {
	if topic != Active {
		return shown[topic]
	}
	switch {
	case link == LinkPaused:
		return StatusLinkPaused
	case link == LinkFailed:
		return StatusLinkFailed
	case link == LinkUnavailable, source == SourceUnavailable:
		return StatusSourceUnavailable
	}
	return shown[topic]
}

// Statuses lists every status that can be shown, for filters and docs.
func Statuses() []string {
	var list []string
	seen := map[string]bool{}
	for _, name := range append(shown[:], StatusLinkPaused, StatusLinkFailed, StatusSourceUnavailable) {
		if !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	return list
}

// ParseStatus reads a status filter: any spelling that is in use (in lower case,
// with '-' for '_', and the long form of PENDING_RESTORE).
func ParseStatus(text string) (string, error) {
	up := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case c == '-':
			c = '_'
		}
		up = append(up, c)
	}
	name := string(up)
	if name == "PENDING_RESTORE_MIRROR" {
		name = "PENDING_RESTORE"
	}
	for _, known := range Statuses() {
		if known == name {
			return name, nil
		}
	}
	return "", fmt.Errorf("mirror status %q is not one of %v", text, Statuses())
}
