package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

// View is a cluster between two looks at it. Rates are per second.
type View struct {
	Cluster       string    `json:"cluster_id"`
	At            time.Time `json:"at"`
	Seconds       float64   `json:"seconds"` // between the two looks
	RecordsIn     float64   `json:"records_in"`
	Partitions    int       `json:"partitions"`
	WithoutLeader int       `json:"without_leader"`
	OutOfSync     int       `json:"out_of_sync"` // replicas
	Nodes         []Node    `json:"nodes"`
	Topics        []Topic   `json:"topics"` // without those of the cluster itself, the busiest first
	Groups        []Group   `json:"groups"` // the furthest behind first
}

// Node is what one node has. RecordsIn is what partitions that it leads get.
type Node struct {
	ID        int32   `json:"id"`
	Address   string  `json:"address"`
	Replicas  int     `json:"replicas"`
	Leads     int     `json:"leads"`
	RecordsIn float64 `json:"records_in"`
}

// Topic is what is written to a topic. Hottest is the partition that gets most, and Share which part of the topic's records; -1
// and 0 where nothing is written.
type Topic struct {
	Topic      string  `json:"topic"`
	Partitions int     `json:"partitions"`
	Records    int64   `json:"records"` // between the starts and ends of its logs, deleted and compacted ones included
	RecordsIn  float64 `json:"records_in"`
	Hottest    int32   `json:"hottest_partition"`
	Share      float64 `json:"hottest_share"`
}

// Group is how a group comes along: what it commits, and by how much its lag grows.
type Group struct {
	Group     string  `json:"group"`
	State     string  `json:"state"`
	Lag       int64   `json:"lag"`
	Committed float64 `json:"committed"`
	LagGrows  float64 `json:"lag_grows"`
}

// viewOf is what happened between two looks. Something that only the later one has counts as at rest.
func viewOf(before, after *sample) View {
	v := View{
		Cluster: after.cluster, At: after.at.UTC().Truncate(time.Millisecond), Seconds: after.at.Sub(before.at).Seconds(), Partitions: len(after.partitions),
		Nodes: []Node{}, Topics: []Topic{}, Groups: []Group{},
	}
	nodes := map[int32]*Node{}
	for _, n := range after.nodes {
		nodes[n.id] = &Node{ID: n.id, Address: n.address}
	}
	topics := map[string]*Topic{}
	most := map[string]float64{}
	for at, p := range after.partitions {
		in := v.rate(before.written(at), after.written(at))
		v.RecordsIn += in
		v.OutOfSync += len(p.replicas) - p.inSync
		for _, r := range p.replicas {
			if n := nodes[r]; n != nil {
				n.Replicas++
			}
		}
		if n := nodes[p.leader]; n != nil {
			n.Leads++
			n.RecordsIn += in
		}
		if p.leader < 0 {
			v.WithoutLeader++
		}
		if p.internal {
			continue
		}
		t := topics[at.topic]
		if t == nil {
			t = &Topic{Topic: at.topic, Hottest: -1}
			topics[at.topic] = t
		}
		t.Partitions++
		t.Records += max(0, p.end-max(p.start, 0))
		t.RecordsIn += in
		if in > most[at.topic] || in > 0 && in == most[at.topic] && at.id < t.Hottest {
			most[at.topic], t.Hottest = in, at.id
		}
	}
	for name, t := range topics {
		if t.RecordsIn > 0 {
			t.Share = most[name] / t.RecordsIn
		}
		v.Topics = append(v.Topics, *t)
	}
	for _, n := range nodes {
		v.Nodes = append(v.Nodes, *n)
	}
	for id := range after.groups {
		v.Groups = append(v.Groups, v.group(id, before, after))
	}
	slices.SortFunc(v.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(v.Topics, func(a, b Topic) int {
		return cmp.Or(cmp.Compare(b.RecordsIn, a.RecordsIn), cmp.Compare(a.Topic, b.Topic))
	})
	slices.SortFunc(v.Groups, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Group, b.Group)) })
	return v
}

// rate is by how much a number has grown each second; 0 where it is not known, or went back as something was made anew.
func (v *View) rate(before, after int64) float64 {
	if before < 0 || after < before || v.Seconds <= 0 {
		return 0
	}
	return float64(after-before) / v.Seconds
}

// written is the end of a partition; -1 if it is not known.
func (s *sample) written(at place) int64 {
	if p, ok := s.partitions[at]; ok {
		return p.end
	}
	return -1
}

func (v *View) group(id string, before, after *sample) Group {
	g := Group{Group: id, State: after.groups[id].state}
	var grown int64
	for at, committed := range after.groups[id].committed {
		end := after.written(at)
		if end < 0 {
			continue
		}
		lag := max(0, end-committed)
		g.Lag += lag
		was, ok := before.groups[id].committed[at]
		if !ok || before.written(at) < 0 {
			continue
		}
		g.Committed += v.rate(was, committed)
		grown += lag - max(0, before.written(at)-was)
	}
	if v.Seconds > 0 {
		g.LagGrows = float64(grown) / v.Seconds
	}
	return g
}

// write draws the view into so many columns and lines; 0 lines stand for as many as it takes.
func (v *View) write(w io.Writer, columns, lines int) error {
	var b strings.Builder
	head := fmt.Sprintf("%s  records in %s/s  nodes %d  partitions %d  without leader %d  replicas out of sync %d  cluster %s\n",
		v.At.Format(time.TimeOnly), number(v.RecordsIn), len(v.Nodes), v.Partitions, v.WithoutLeader, v.OutOfSync, v.Cluster)
	b.WriteString(cut(head, columns, 0))
	nodes := output.NewTable(output.Right("NODE"), output.Left("ADDRESS"), output.Right("LEADS"), output.Right("REPLICAS"), output.Right("IN/S"))
	for _, n := range v.Nodes {
		nodes.Row(n.ID, n.Address, n.Leads, n.Replicas, number(n.RecordsIn))
	}
	groups := output.NewTable(output.Left("GROUP"), output.Left("STATE"), output.Right("LAG"), output.Right("LAG GROWS/S"), output.Right("COMMITTED/S"))
	for _, g := range v.Groups {
		groups.Row(g.Group, g.State, g.Lag, number(g.LagGrows), number(g.Committed))
	}
	topics := output.NewTable(output.Left("TOPIC"), output.Right("PARTITIONS"), output.Right("RECORDS"), output.Right("IN/S"), output.Left("HOTTEST"))
	for _, t := range v.Topics {
		hottest := ""
		if t.Hottest >= 0 {
			hottest = fmt.Sprintf("%d (%.0f %%)", t.Hottest, 100*t.Share)
		}
		topics.Row(t.Topic, t.Partitions, t.Records, number(t.RecordsIn), hottest)
	}
	rooms := share(lines, len(v.Nodes), len(v.Groups), len(v.Topics))
	for i, table := range []*output.Table{nodes, groups, topics} {
		var text strings.Builder
		if err := table.Write(&text); err != nil {
			return err
		}
		b.WriteString("\n" + cut(text.String(), columns, rooms[i]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// share is how many rows each of three tables gets, given what each has: nodes a third at most, groups half of what is left.
func share(lines, nodes, groups, topics int) [3]int {
	// A line for the cluster, and for each table one that is blank, one with its titles, one that says what was left out.
	const frame = 1 + 3*3
	if lines == 0 {
		return [3]int{nodes, groups, topics}
	}
	room := max(lines-frame, 3)
	n := min(nodes, room/3)
	g := min(groups, max((room-n)/2, room-n-topics))
	return [3]int{n, g, min(topics, room-n-g)}
}

// cut keeps the titles and so many rows of a table, and of each line so many columns.
func cut(table string, columns, rows int) string {
	var b strings.Builder
	all := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	for i, line := range all {
		if i > rows {
			fmt.Fprintf(&b, "and %d more\n", len(all)-i)
			break
		}
		if runes := []rune(line); len(runes) > columns {
			line = string(runes[:columns-1]) + "…"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// number is a rate as people read it.
func number(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate > -10 && rate < 10:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
