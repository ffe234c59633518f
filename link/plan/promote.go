package plan

import (
	"fmt"

	"github.com/hawserio/hawser/internal/plant"
)

// PromoteFacts is how far a mirror is from its source when promote asks.
type PromoteFacts struct {
	Topic            string
	Judged           Judged // what stands in its partitions' way
	DataLevel        bool   // the source had nothing more, and nothing open, under its present epoch
	DataText         string // what it had
	SourcePartitions int32  // 0 where it could not be asked
	MirrorPartitions int32
	ConfigProblems   []Problem // reading or taking over configs
	ConfigsChanged   bool      // something was taken over just now: look again
	OffsetsWanted    bool      // consumer.offset.sync.enable
	OffsetsDone      bool      // a sync that began after the data was level has ended
	OffsetProblems   []Problem // of that sync, as far as they concern this topic
}

// PromoteObstacles lists what promote still waits for; none means that it may stop the mirror. Data comes
// first: configs and offsets are compared once it is level (rule G2).
func PromoteObstacles(f PromoteFacts) []Problem {
	var list []Problem
	if f.Judged.Judgement != Well {
		list = append(list, f.Judged.Problem)
	}
	if !f.DataLevel && !plant.On("promote-unchecked") {
		text := f.DataText
		if text == "" {
			text = "the mirror is not level with its source"
		}
		list = append(list, Problem{codeLag, text})
	}
	list = append(list, f.ConfigProblems...)
	if f.SourcePartitions > 0 && f.SourcePartitions != f.MirrorPartitions {
		code := codeLag
		if f.SourcePartitions < f.MirrorPartitions {
			code = codePartitionsFewer
		}
		list = append(list, Problem{code, fmt.Sprintf("the source topic has %d partitions, the mirror %d", f.SourcePartitions,
			f.MirrorPartitions)})
	}
	if f.ConfigsChanged {
		list = append(list, Problem{codeLag, "configs of the source topic were taken over just now"})
	}
	list = append(list, f.OffsetProblems...)
	if f.OffsetsWanted && !f.OffsetsDone && len(list) == 0 {
		list = append(list, Problem{codeLag, "group offsets are being synced"})
	}
	return list
}
