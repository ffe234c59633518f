package sim

import "github.com/hawserio/hawser/link/mirror"

// turn is the reversal or restore that a topic is in or was in last.
type turn struct {
	id   string
	over bool
}

func (s *shell) carryOutTurn(e mirror.Effect) bool { return true }

func (s *shell) askTurnAgain() bool { return false }
