package position

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Partition names what an offset is about, in the words of the JDBC connectors: a table, or the query.
type Partition struct {
	Protocol string `json:"protocol,omitempty"`
	Table    string `json:"table,omitempty"`
	Query    string `json:"query,omitempty"`
}

// QueryPartition is the one of a query.
var QueryPartition = Partition{Query: "query"}

// TablePartitions are those under which the offset of a table may be. The first is the one to store it under. The others are
// those of a JDBC connector whose driver tells the database, too, and of one that is older than 2018.
func TablePartitions(database, schema, table string) []Partition {
	return []Partition{
		{Protocol: "1", Table: schema + "." + table},
		{Protocol: "1", Table: database + "." + schema + "." + table},
		{Table: table},
	}
}

// ParsePartition reads what users name a partition by.
func ParsePartition(text []byte) (Partition, error) {
	var p Partition
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&p)
	tables := p.Table != "" && p.Query == "" && (p.Protocol == "1" || p.Protocol == "")
	if err != nil || !tables && p != QueryPartition {
		return Partition{}, fmt.Errorf(`partition %.200s: {"protocol": "1", "table": "SCHEMA.TABLE"} or {"query": "query"} is wanted`, text)
	}
	return p, nil
}
