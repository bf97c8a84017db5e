package configkeys

import (
	"fmt"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
)

// Markdown returns docs/configuration.md.
func Markdown() string {
	_ = Broker() // fills in the update modes
	var b strings.Builder
	b.WriteString(markdownHead)
	b.WriteString("\n## Node keys\n")
	for _, s := range brokerSections {
		fmt.Fprintf(&b, "\n### %s\n\n%s", s.title, sectionHeads[s.title])
		writeTable(&b, s.keys, true)
	}
	b.WriteString("\n## Topic keys\n\n" + topicHead + "\n")
	writeTable(&b, topicKeys, false)
	b.WriteString("\n## Group keys\n\n" + groupHead + "\n")
	writeTable(&b, groupOverrideKeys, false)
	b.WriteString("\n## Client metrics keys\n\n" + clientMetricsHead + "\n")
	writeTable(&b, clientMetricsKeys, false)
	return b.String()
}

const markdownHead = `# Configuration

<!-- Generated from libs/kafka/configkeys by "make docs"; edit the tables there. -->

Every program of Cauce reads the same keys, the later layer winning:

1. the defaults below,
2. a Java .properties file given with ` + "`--config FILE`" + `; a server.properties of Kafka works,
3. the environment in the style of the apache/kafka image: ` + "`KAFKA_`" + ` and the key in capitals, ` + "`_` for `.`, `__` for `_`, `___` for `-`" + `,
   and ` + "`CLUSTER_ID`" + `; num.partitions is ` + "`KAFKA_NUM_PARTITIONS`" + `,
4. the environment, spelled alike with ` + "`CAUCE_`" + `: ` + "`CAUCE_NUM_PARTITIONS`" + `,
5. flags: ` + "`--set key=value`" + `, may be repeated, and the short forms ` + "`--data-dir`, `--listen`, `--admin`" + `.

A key that is not listed here, or a value that its key does not accept, is refused at the start by name, with the place it
was read from and the nearest key there is; all faults are reported at once. Only a variable ` + "`KAFKA_*`" + ` that
names no key is passed over, with a warning: compose files made for Kafka set many that are for its JVM. A key that belongs to one listener may be
written as ` + "`listener.name.<listener>.<key>`" + `.

*Change*: *restart* keys are read at the start. *Cluster* keys can be changed while nodes run, for one node or for all of
them, *node* keys for one node (` + "`kafka-configs --entity-type brokers`" + `).
Keys marked **†** are accepted, so that files and tools made for Kafka work, and change nothing in this version.
`

var sectionHeads = map[string]string{
	"Connect": "Every key of Kafka's Connect workers with `connect.` before it, such as `connect.group.id`, `connect.key.converter` or `connect.producer.linger.ms`,\n" +
		"configures a Connect worker, which checks it at its start ([services/connect.md](services/connect.md)). Beside those:\n\n",
}

const topicHead = `Set when a topic is created, or with ` + "`kafka-configs --entity-type topics`" + `. What a topic does not override follows the node
keys in the last column, in that order.
`

const groupHead = `Set with ` + "`kafka-configs --entity-type groups`" + `. What a group does not override follows the node key in the last column.
`

const clientMetricsHead = `Set with ` + "`kafka-configs --entity-type client-metrics`" + `.
`

func writeTable(b *strings.Builder, keys []config.Key, node bool) {
	last := "Follows"
	if node {
		last = "Change"
	}
	fmt.Fprintf(b, "| Key | Type | Default | Accepts | Meaning | %s |\n|---|---|---|---|---|---|\n", last)
	for _, k := range keys {
		if k.Internal {
			continue
		}
		mark, follows := "", strings.Join(defaultsOf(k.Name), ", ")
		if node {
			follows = changeWords[k.Update]
		}
		if unused[k.Name] {
			mark = " **†**"
		}
		def := "`" + k.Default + "`"
		switch {
		case k.Null:
			def = "unset"
		case k.Default == "":
			def = "empty"
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s | %s |\n", k.Name, mark, k.Type, def, escapeCell(k.Valid.Text), escapeCell(k.Doc), follows)
	}
}

var changeWords = map[config.UpdateMode]string{config.ReadOnly: "restart", config.PerBroker: "node", config.ClusterWide: "cluster"}

// defaultsOf names the node keys that a topic or group key follows.
func defaultsOf(name string) []string {
	var names []string
	for _, s := range topicSynonyms[name] {
		names = append(names, s.name)
	}
	if synonym, ok := groupSynonym(name); ok && names == nil {
		names = []string{synonym}
	}
	return names
}

func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
