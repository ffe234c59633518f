package kafka

import (
	"fmt"
	"slices"
	"strings"
)

// aclOperations are the operations of ACLs in Kafka's words, by their number in the protocol (AclOperation; the last one is KIP-939's).
var aclOperations = []string{"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
	"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}

// UnknownACLOperation begins the name of an operation that has a number and, here, no word.
const UnknownACLOperation = "UNKNOWN"

// ACLOperation is the word for an operation of ACLs: READ for 3. A number without one is told by its number, as UNKNOWN(99).
func ACLOperation(number int8) string {
	if number < 0 || int(number) >= len(aclOperations) {
		return fmt.Sprintf("%s(%d)", UnknownACLOperation, number)
	}
	return aclOperations[number]
}

// ParseACLOperation is the number of an operation's word. Case, dots, dashes and underscores do not matter.
func ParseACLOperation(word string) (int8, error) {
	if i := slices.Index(aclOperations, word); i >= 1 { // as every check of a stored rule asks
		return int8(i), nil
	}
	plain := func(s string) string {
		return strings.ToUpper(strings.NewReplacer(".", "", "_", "", "-", "").Replace(s))
	}
	i := slices.IndexFunc(aclOperations, func(known string) bool { return plain(known) == plain(strings.TrimSpace(word)) })
	if i < 1 {
		return 0, fmt.Errorf("operation %q is not one of %s", word, strings.Join(aclOperations[1:], ", "))
	}
	return int8(i), nil
}
