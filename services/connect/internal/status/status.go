// Package status is the status topic of a group of Connect workers: what state each connector and task is in and which topics each connector
// has used, as records in Apache Kafka's format and as the table that they make.
//
// Every worker writes the topic, and a worker that was cut off may write late. Each status has the generation of the group in
// which its worker was given the work, and a worker writes safely, that is only where no other worker has written in a later one.
package status

import (
	"maps"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// State is what a connector or task is in, by the name that REST and the topic have.
type State string

// The states.
const (
	Unassigned State = "UNASSIGNED"
	Running    State = "RUNNING"
	Paused     State = "PAUSED"
	// Failed lasts until a restart or another configuration.
	Failed     State = "FAILED"
	Restarting State = "RESTARTING"
	// Stopped is a state of connectors only.
	Stopped State = "STOPPED"
)

var states = []State{Unassigned, Running, Paused, Failed, Restarting, Stopped}

// Status is one connector's or task's.
type Status struct {
	State State
	// Trace says why it failed, empty otherwise.
	Trace string
	// WorkerID is the host:port that the worker advertises.
	WorkerID string
	// Generation is that of the group, as the worker knew it.
	Generation int32
	// Version is the plugin's (KIP-891), empty where it is not known.
	Version string
}

// Topic is a topic that a connector has used (KIP-558).
type Topic struct {
	Name, Connector string
	// Task is the number of the task that was seen to use it first, DiscoveredMs when, in ms since 1970.
	Task         int32
	DiscoveredMs int64
}

// Table is the newest status of everything. It is not safe for concurrent use.
type Table struct {
	// statuses and topics are by connector; tasks by number, the connector itself being work.Instance.
	statuses map[string]map[int32]Status
	topics   map[string]map[string]Topic
}

// New is the table before the first record.
func New() *Table {
	return &Table{statuses: map[string]map[int32]Status{}, topics: map[string]map[string]Topic{}}
}

// Get is the status of a connector or task.
func (t *Table) Get(item work.Item) (Status, bool) {
	s, ok := t.statuses[item.Connector][item.Task]
	return s, ok
}

// Items are all that have a status, in order. Those that are no longer configured are for the leader to remove.
func (t *Table) Items() []work.Item {
	var items []work.Item
	for connector := range t.statuses {
		items = append(items, t.of(connector)...)
	}
	return work.Sort(items)
}

// Tasks are the tasks of a connector that have a status, in order.
func (t *Table) Tasks(connector string) []work.Item {
	tasks := slices.DeleteFunc(t.of(connector), func(i work.Item) bool { return !i.IsTask() })
	return work.Sort(tasks)
}

func (t *Table) of(connector string) []work.Item {
	var items []work.Item
	for task := range t.statuses[connector] {
		items = append(items, work.Item{Connector: connector, Task: task})
	}
	return items
}

// Topics are those that a connector has used since they were last reset, by name.
func (t *Table) Topics(connector string) []Topic {
	return slices.SortedFunc(maps.Values(t.topics[connector]), func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
}

// Uses says whether a connector has used a topic since its topics were last reset.
func (t *Table) Uses(connector, topic string) bool {
	_, ok := t.topics[connector][topic]
	return ok
}

// Users are the connectors that have used a topic, sorted.
func (t *Table) Users() []string { return slices.Sorted(maps.Keys(t.topics)) }

// MayWrite says whether writing a status is safe: no other worker has written one in a later generation.
func (t *Table) MayWrite(item work.Item, s Status) bool {
	now, ok := t.Get(item)
	return !ok || now.WorkerID == s.WorkerID || now.Generation <= s.Generation
}
