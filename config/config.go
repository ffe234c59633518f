// Package config is one table of keys for each kind of thing that is configured:
// broker, topic, link. The table gives parser, validation, DescribeConfigs,
// REST, CLI help and docs. It knows no files and no services.
package config

import "time"

// Type is how a value is written.
type Type int8

// The types, with the numbers of DescribeConfigs (KIP-569).
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// Key is one row.
type Key struct {
	Name      string
	Type      Type
	Default   string                   // as written; meaningless where Unset
	Unset     bool                     // has no default: null
	Fixed     bool                     // cannot be changed after creation (a link's mode, a broker's listener)
	Sensitive bool                     // never shown: Type Password and the like
	Check     func(value string) error // beyond the type; nil for none. Its error says what is allowed
	Doc       string                   // a sentence or two of our own, with the unit
	BrokerKey string                   // for a topic key: the broker key that is its default (synonym), as log.retention.ms; "" for none
}

// Table is the keys of one kind, sorted by name.
type Table struct{ tableImpl }

// Tables. Names, types, defaults and allowed values are Kafka's, and
// link-semantics' for links.
var (
	Broker *Table
	Topic  *Table
	Link   *Table
)

// Key finds a row.
func (t *Table) Key(name string) (Key, bool) { panic("config: to be built") }

// Keys is all rows, by name.
func (t *Table) Keys() []Key { panic("config: to be built") }

// Check says everything that is wrong with the values that were set: unknown
// names (with the nearest known one), wrong types, values not allowed. One error
// lists all faults, a line each; nil if there are none.
func (t *Table) Check(set map[string]string) error { panic("config: to be built") }

// Values reads what was set over the defaults. Layers are looked through in
// order; the first that has the name wins. It must have passed Check.
func (t *Table) Values(layers ...map[string]string) Values { panic("config: to be built") }

// Values is a complete set; the methods panic for names that are not in the table.
type Values struct{ valuesImpl }

func (v Values) Text(name string) string          { panic("config: to be built") }
func (v Values) Bool(name string) bool            { panic("config: to be built") }
func (v Values) Int(name string) int64            { panic("config: to be built") }
func (v Values) Float(name string) float64        { panic("config: to be built") }
func (v Values) Millis(name string) time.Duration { panic("config: to be built") } // of a key in ms; -1 is -1ns
func (v Values) List(name string) []string        { panic("config: to be built") }

type tableImpl struct{}
type valuesImpl struct{}
