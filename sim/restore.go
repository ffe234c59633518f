package sim

import "github.com/hawserio/hawser/kafka"

// restoreCut is what a restore does to one partition: meta.RestoreCut.
type restoreCut struct {
	to, tail, end kafka.Offset
	kept          bool
}

func (s *shell) setUpRestore(*record) {}

func (s *shell) restore(*record) {}

func (s *shell) release(*record) {}
