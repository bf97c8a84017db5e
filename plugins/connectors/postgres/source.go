package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/position"
)

// Source reads tables, or what a query returns, and goes on to read what is new in them.
type Source struct{}

// Info names it "postgres-source".
func (Source) Info() plugin.Info {
	return plugin.Info{Name: "postgres-source", Version: "1.0.0",
		Doc:     "Reads tables of PostgreSQL, or a query, again and again: all of it, or what is new by a number that grows, a time of change, or both.",
		Aliases: []string{"io.confluent.connect.jdbc.JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"}}
}

// Definition is the keys of its configuration.
func (Source) Definition() configdef.Definition { return sourceDefinition }

// Validate finds keys that do not go together, hides those that mean nothing in a mode, and recommends tables.
func (Source) Validate(ctx context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	findings := checkSource(v)
	for _, name := range unsupported {
		if config[name] != "" {
			findings = append(findings, configdef.Finding{Name: name, Errors: []string{name + " is not supported"}})
		}
	}
	return append(findings, checkConnection(ctx, databaseOf(v), func(ctx context.Context, conn *pgconn.PgConn) []configdef.Finding {
		tables, err := listTables(ctx, conn, v)
		if err != nil && !database.IsFromServer(err) {
			return nil // it is found already
		}
		if err != nil {
			return []configdef.Finding{{Name: whitelistKey, Errors: []string{err.Error()}}}
		}
		names := make([]string, len(tables))
		for i, table := range tables {
			names[i] = table.String()
		}
		return []configdef.Finding{{Name: whitelistKey, Recommended: names}, {Name: blacklistKey, Recommended: names}}
	})...), nil
}

func checkSource(v configdef.Values) []configdef.Finding {
	var findings []configdef.Finding
	wrong := func(name, format string, args ...any) {
		findings = append(findings, configdef.Finding{Name: name, Errors: []string{fmt.Sprintf(format, args...)}})
	}
	mode, query := position.Mode(v.String(modeKey)), queryOf(v)
	var lists []string
	for _, name := range []string{whitelistKey, blacklistKey, includeKey, excludeKey} {
		if len(v.List(name)) > 0 {
			lists = append(lists, name)
		}
	}
	for _, name := range []string{includeKey, excludeKey} {
		if _, err := patterns(v.List(name)); err != nil {
			wrong(name, "%s: %v", name, err)
		}
	}
	if len(lists) > 1 && !slices.Equal(lists, []string{includeKey, excludeKey}) {
		wrong(lists[1], "%s do not go together", strings.Join(lists, " and "))
	}
	if slices.Equal(lists, []string{excludeKey}) {
		wrong(excludeKey, "%s leaves out tables of %s, which is empty", excludeKey, includeKey)
	}
	if v.String(queryKey) != "" && v.String(maskedQueryKey) != "" {
		wrong(maskedQueryKey, "%s and %s do not go together", queryKey, maskedQueryKey)
	}
	if query != "" && len(lists) > 0 {
		wrong(queryKey, "%s reads no tables besides: it does not go with %s", queryKey, strings.Join(lists, " and "))
	}
	if mode.HasTimestamp() && len(v.List(timestampKey)) == 0 {
		wrong(timestampKey, "%s is required in mode %s", timestampKey, mode)
	}
	if slices.Contains(v.List(timestampKey), "") {
		wrong(timestampKey, "%s has an empty element", timestampKey)
	}
	if mode.HasIncrementing() && query != "" && v.String(incrementingKey) == "" {
		wrong(incrementingKey, "%s is required with %s", incrementingKey, queryKey)
	}
	hide := func(hidden bool, names ...string) {
		for _, name := range names {
			if hidden {
				findings = append(findings, configdef.Finding{Name: name, Hidden: true})
			}
		}
	}
	hide(!mode.HasIncrementing(), incrementingKey, firstNumberKey)
	hide(!mode.HasTimestamp(), timestampKey, delayKey, firstTimeKey, firstTimeMsKey)
	hide(mode == position.Bulk || query != "", nonNullKey)
	hide(query != "", whitelistKey, blacklistKey, includeKey, excludeKey, schemaKey, typesKey, tablePollKey)
	return findings
}

// listTables returns the tables that are to be read, in order.
func listTables(ctx context.Context, conn *pgconn.PgConn, v configdef.Values) ([]ident.Name, error) {
	all, err := database.Tables(ctx, conn, v.List(typesKey), v.String(schemaKey))
	if err != nil {
		return nil, err
	}
	include, err := patterns(v.List(includeKey))
	if err != nil {
		return nil, err
	}
	exclude, err := patterns(v.List(excludeKey))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(table ident.Name) bool {
		if len(include) > 0 {
			return !matches(include, table) || matches(exclude, table)
		}
		if white := v.List(whitelistKey); len(white) > 0 {
			return !listed(white, table)
		}
		return listed(v.List(blacklistKey), table)
	}), nil
}

// patterns returns expressions that match whole names.
func patterns(texts []string) ([]*regexp.Regexp, error) {
	all := make([]*regexp.Regexp, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = regexp.Compile("^(?:" + text + ")$"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func matches(patterns []*regexp.Regexp, table ident.Name) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(table.String()) })
}

// listed says whether a list has a table: by its name, with its schema, or with its database too, quoted or not.
func listed(list []string, table ident.Name) bool {
	return slices.ContainsFunc(list, func(element string) bool {
		if element == table.Table() {
			return true
		}
		name, err := ident.ParseName(element)
		if err != nil {
			return false
		}
		if len(name) == 3 {
			name = name[1:]
		}
		return slices.Equal(name, table) || len(name) == 1 && name[0] == table.Table()
	})
}

// TaskConfigs spreads the tables over tasks. A query is for one task.
func (Source) TaskConfigs(ctx context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	if queryOf(v) != "" {
		return []map[string]string{config}, nil
	}
	tables, err := lookForTables(ctx, v)
	if database.Passes(err) {
		return nil, plugin.Retriable(err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkTopics(tables); err != nil {
		return nil, err
	}
	if len(tables) == 0 {
		slog.WarnContext(ctx, "no table to read", whitelistKey, v.List(whitelistKey), blacklistKey, v.List(blacklistKey), schemaKey, v.String(schemaKey))
	}
	shares := make([][]ident.Name, max(min(maxTasks, len(tables)), 1))
	for i, table := range tables {
		shares[i%len(shares)] = append(shares[i%len(shares)], table)
	}
	configs := make([]map[string]string, len(shares))
	for i, share := range shares {
		text, err := json.Marshal(share)
		if err != nil {
			return nil, err
		}
		configs[i] = maps.Clone(config)
		configs[i][tablesKey] = string(text)
	}
	return configs, nil
}

// checkTopics refuses two tables whose rows would go to one topic.
func checkTopics(tables []ident.Name) error {
	schemas := map[string][]string{}
	for _, table := range tables {
		schemas[table.Table()] = append(schemas[table.Table()], table.String())
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if same := schemas[name]; len(same) > 1 {
			return fmt.Errorf("topics are named after tables without their schema: of %s only one can be read, so name it in %s, or its schema in %s",
				strings.Join(same, ", "), whitelistKey, schemaKey)
		}
	}
	return nil
}

// Watch lists the tables every table.poll.interval.ms. A database that cannot be asked is asked again.
func (Source) Watch(ctx context.Context, config map[string]string, changed func()) error {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return err
	}
	if queryOf(v) != "" {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(v.Millis(tablePollKey))
	defer ticker.Stop()
	// The first list counts as a change: tables may have come since the tasks were divided.
	for known, last := []ident.Name(nil), false; ; {
		tables, err := lookForTables(ctx, v)
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "could not list the tables", "error", err)
		}
		if err == nil && (!last || !slices.EqualFunc(known, tables, slices.Equal[ident.Name])) {
			known, last = tables, true
			changed()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func lookForTables(ctx context.Context, v configdef.Values) ([]ident.Name, error) {
	conn, err := databaseOf(v).Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer database.Close(conn)
	return listTables(ctx, conn, v)
}

// Guarantees says that rows come once where their offset tells them apart: not in mode bulk, which reads all again, and not by
// the time of change alone in a query, of which no key is known.
func (Source) Guarantees(config map[string]string) plugin.Guarantees {
	mode := position.Mode(strings.TrimSpace(config[modeKey]))
	return plugin.Guarantees{ExactlyOnce: mode.HasIncrementing() || mode.HasTimestamp() && config[queryKey] == "" && config[maskedQueryKey] == ""}
}

// AlterOffsets refuses offsets that no table or query can have in the mode. There are no offsets besides Cauce's.
func (Source) AlterOffsets(_ context.Context, config map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	mode := position.Mode(strings.TrimSpace(config[modeKey]))
	for _, o := range offsets {
		if _, err := position.ParsePartition(o.Partition); err != nil {
			return false, err
		}
		if o.Offset == nil {
			continue
		}
		var at position.Offset
		err := json.Unmarshal(o.Offset, &at)
		if err == nil {
			err = at.Check(mode)
		}
		if err != nil {
			return false, fmt.Errorf("offset %.200s of %s: %w", o.Offset, o.Partition, err)
		}
	}
	return true, nil
}

// NewSourceTask returns a task.
func (Source) NewSourceTask() plugin.SourceTask { return &sourceTask{} }
