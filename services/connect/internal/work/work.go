// Package work names what a worker runs: connectors and their tasks.
package work

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Instance is the task number that stands for the connector itself, as in Kafka's protocol.
const Instance int32 = -1

// Item is a connector or one of its tasks.
type Item struct {
	Connector string
	// Task is counted from 0, or Instance.
	Task int32
}

// Connector is the item of a connector itself.
func Connector(name string) Item { return Item{name, Instance} }

// Tasks are the items of a connector's tasks 0 to n−1.
func Tasks(connector string, n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{connector, int32(i)}
	}
	return items
}

// IsTask tells a task from a connector.
func (i Item) IsTask() bool { return i.Task != Instance }

// String is Kafka's name of a task, connector-task, and the connector's own name otherwise.
func (i Item) String() string {
	if !i.IsTask() {
		return i.Connector
	}
	return i.Connector + "-" + strconv.Itoa(int(i.Task))
}

// ParseTask is the task of such a name. What follows the last hyphen is the number, since a connector's name may have hyphens too.
func ParseTask(name string) (Item, bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return Item{}, false
	}
	n, err := strconv.ParseInt(name[at+1:], 10, 32)
	if err != nil || n < 0 {
		return Item{}, false
	}
	return Item{name[:at], int32(n)}, true
}

// Compare orders items by connector, each before its tasks.
func (i Item) Compare(o Item) int {
	return cmp.Or(strings.Compare(i.Connector, o.Connector), cmp.Compare(i.Task, o.Task))
}

// Sort puts items in order and drops repetitions. It works in place.
func Sort(items []Item) []Item {
	slices.SortFunc(items, Item.Compare)
	return slices.Compact(items)
}
