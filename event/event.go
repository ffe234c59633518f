// Package event is what happened, as values: a link failed, a mirror stopped, a
// log was cut at recovery. link, partition and broker emit them; each becomes one
// log line, one count and one entry of the console's timeline. It knows nothing
// of how things come about and decides nothing.
package event

import (
	"context"
	"log/slog"

	"github.com/hawserio/hawser/kafka"
)

// Event is one thing that happened. String is a sentence for people.
type Event interface {
	String() string
	// Line is the same for programs.
	Line() Line
}

// Line is an event for log, metric and timeline. Fields that say nothing are
// "", -1, kafka.NoOffset and kafka.NoEpoch.
type Line struct {
	Name      string     // of the kind, as mirror_state_changed; never changes
	Level     slog.Level // Info, or Warn where an operator should look
	Link      string
	Topic     string
	Partition int32
	Offset    kafka.Offset
	Epoch     kafka.LeaderEpoch
	More      []slog.Attr
}

// line begins a Line of which only the kind is known.
func line(name string, level slog.Level) Line {
	return Line{Name: name, Level: level, Partition: -1, Offset: kafka.NoOffset, Epoch: kafka.NoEpoch}
}

func (l Line) of(link, topic string) Line {
	l.Link, l.Topic = link, topic
	return l
}

func (l Line) in(partition int32) Line {
	l.Partition = partition
	return l
}

func (l Line) at(offset kafka.Offset, epoch kafka.LeaderEpoch) Line {
	l.Offset, l.Epoch = offset, epoch
	return l
}

func (l Line) with(more ...slog.Attr) Line {
	l.More = more
	return l
}

// Attrs is the fields that say something, under their fixed keys.
func (l Line) Attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("event", l.Name)}
	if l.Link != "" {
		attrs = append(attrs, slog.String("link", l.Link))
	}
	if l.Topic != "" {
		attrs = append(attrs, slog.String("topic", l.Topic))
	}
	if l.Partition >= 0 {
		attrs = append(attrs, slog.Int64("partition", int64(l.Partition)))
	}
	if l.Offset != kafka.NoOffset {
		attrs = append(attrs, slog.Int64("offset", int64(l.Offset)))
	}
	if l.Epoch != kafka.NoEpoch {
		attrs = append(attrs, slog.Int64("epoch", int64(l.Epoch)))
	}
	return append(attrs, l.More...)
}

// Sink takes events. Emit must not block and may be called by many at once.
type Sink interface {
	Emit(Event)
}

// Log is a sink that writes one line per event.
func Log(logger *slog.Logger) Sink { return logSink{logger} }

type logSink struct{ log *slog.Logger }

func (s logSink) Emit(e Event) {
	l := e.Line()
	s.log.LogAttrs(context.Background(), l.Level, e.String(), l.Attrs()...)
}

// All is a sink that hands each event to every one of sinks, in order.
func All(sinks ...Sink) Sink { return allSinks(sinks) }

type allSinks []Sink

func (s allSinks) Emit(e Event) {
	for _, sink := range s {
		sink.Emit(e)
	}
}

// Discard is a sink that drops everything.
var Discard Sink = allSinks(nil)
