package rest

import (
	"net/http"
	"strconv"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/rest/api"
)

// eventsMost is how many events one answer has.
const eventsMost = 1000

// listEvents shows what happened lately: an addition of hawser, for the console's timeline.
func listEvents(c *call) error {
	after, err := c.queryNumber("after", 0)
	if err != nil {
		return err
	}
	limit, err := c.queryNumber("limit", 100)
	if err != nil {
		return err
	}
	var out []api.Event
	if c.Timeline != nil {
		for _, e := range c.Timeline.After(after, int(min(max(limit, 1), eventsMost))) {
			out = append(out, eventJSON(e))
		}
	}
	return list(c, api.KindEventList, c.self("events"), out)
}

func eventJSON(e event.Entry) api.Event {
	return api.Event{Sequence: e.Seq, TimeMs: e.At.UnixMilli(), Name: e.Name, Level: e.Level, Text: e.Text, LinkName: e.Link,
		TopicName: e.Topic, PartitionID: e.Partition}
}

// queryNumber reads a whole number of the query, at least 0; absent is otherwise.
func (c *call) queryNumber(name string, otherwise int64) (int64, error) {
	query := c.r.URL.Query()
	if !query.Has(name) {
		return otherwise, nil
	}
	text := query.Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &failure{status: http.StatusBadRequest, code: 400, text: "The query " + name + " is a whole number from 0, not '" + text + "'."}
	}
	return n, nil
}
