// Package postgres has the connectors between tables of PostgreSQL and topics. They read the configurations of the JDBC
// connectors of Confluent and Aiven, give the same schemas, and keep the same offsets.
package postgres

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // images have no zones of their own

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
)

// The keys that both connectors have.
const (
	urlKey      = "connection.url"
	userKey     = "connection.user"
	passwordKey = "connection.password"
	zoneKey     = "db.timezone"
	typesKey    = "table.types"
)

// validateLimit bounds how long a validation waits for the database.
const validateLimit = 5 * time.Second

func connectionKeys(group string, dependents ...string) configdef.Definition {
	return configdef.Definition{
		{Name: urlKey, Type: configdef.String, Required: true, Importance: configdef.High, Group: group, Order: 1, Width: configdef.LongWidth,
			DisplayName: "URL", Dependents: dependents, Valid: configdef.Rule{NonEmpty: true},
			Doc: "Where the database is: `jdbc:postgresql://host:port/database?…` or `postgres://host:port/database?…`, with parameters of the JDBC driver or of libpq, such as `sslmode`."},
		{Name: userKey, Type: configdef.String, Importance: configdef.High, Group: group, Order: 2, Width: configdef.MediumWidth, DisplayName: "User",
			Doc: "The user, if not the one of the URL."},
		{Name: passwordKey, Type: configdef.Password, Importance: configdef.High, Group: group, Order: 3, Width: configdef.MediumWidth, DisplayName: "Password",
			Doc: "The password, if not the one of the URL."},
		{Name: zoneKey, Type: configdef.String, Default: new("UTC"), Importance: configdef.Medium, Group: group, Order: 4, Width: configdef.MediumWidth,
			DisplayName: "Time zone", Doc: "The zone in which `timestamp` columns, those without a zone, are meant: a name such as `Europe/Madrid`."},
	}
}

func databaseOf(v configdef.Values) database.Config {
	return database.Config{URL: v.String(urlKey), User: v.String(userKey), Password: v.String(passwordKey), TimeZone: v.String(zoneKey)}
}

func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("there is no time zone %q", name)
	}
	return time.LoadLocation(name)
}

// checkConnection finds what is wrong with how to connect, and has a look at the database if it can be reached: one that
// cannot be reached now is no fault of the configuration.
func checkConnection(ctx context.Context, c database.Config, look func(context.Context, *pgconn.PgConn) []configdef.Finding) []configdef.Finding {
	if _, err := loadZone(c.TimeZone); err != nil {
		return []configdef.Finding{{Name: zoneKey, Errors: []string{zoneKey + ": " + err.Error()}}}
	}
	if _, _, err := c.Parse(); err != nil {
		return []configdef.Finding{{Name: urlKey, Errors: []string{urlKey + ": " + err.Error()}}}
	}
	ctx, cancel := context.WithTimeout(ctx, validateLimit)
	defer cancel()
	conn, err := c.Connect(ctx)
	if err != nil {
		if !database.Misplaced(err) {
			return nil
		}
		return []configdef.Finding{{Name: urlKey, Errors: []string{urlKey + ": " + err.Error()}}}
	}
	defer database.Close(conn)
	return look(ctx, conn)
}
