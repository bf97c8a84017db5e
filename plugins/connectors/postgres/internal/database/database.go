// Package database is what the connectors know of PostgreSQL itself: connections by URL, which faults pass, and what tables
// there are.
package database

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// connectLimit bounds a try to connect where the URL does not.
const connectLimit = 10 * time.Second

// Config says where the database is.
type Config struct {
	// URL is one of libpq's or JDBC's.
	URL string
	// User and Password replace those of the URL unless they are empty.
	User, Password string
	// TimeZone is the session's: the one in which timestamps without a zone are meant.
	TimeZone string
}

// Parse returns how to connect, and the parameters of the URL that mean nothing here. The error has no password.
func (c Config) Parse() (*pgconn.Config, []string, error) {
	text, ignored, err := ToLibpq(c.URL)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, nil, err
	}
	if c.User != "" {
		parsed.User = c.User
	}
	if c.Password != "" {
		parsed.Password = c.Password
	}
	if parsed.ConnectTimeout == 0 {
		parsed.ConnectTimeout = connectLimit
	}
	p := parsed.RuntimeParams
	if p["application_name"] == "" {
		p["application_name"] = "cauce"
	}
	p["client_encoding"], p["datestyle"], p["timezone"] = "UTF8", "ISO", c.TimeZone
	return parsed, ignored, nil
}

// Connect opens a connection.
func (c Config) Connect(ctx context.Context) (*pgconn.PgConn, error) {
	parsed, _, err := c.Parse()
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, parsed)
	return conn, FromServer(err)
}

// closeLimit bounds how long a connection takes to say goodbye.
const closeLimit = time.Second

// Close ends a connection, whatever it is at; nil is none.
func Close(conn *pgconn.PgConn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = conn.Close(ctx) // the socket is closed in any case
}

// fault is an error of a connection.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

// FromServer marks an error as one of a connection: others never pass. nil stays nil.
func FromServer(err error) error {
	if err == nil {
		return nil
	}
	return fault{err}
}

// IsFromServer says whether an error is one of a connection.
func IsFromServer(err error) bool { return errors.As(err, &fault{}) }

// Passes says whether what fails by an error of a connection may succeed later, on a new connection: the database could not
// be reached, is short of something, or has undone a transaction for the sake of another.
func Passes(err error) bool {
	var refused *pgconn.PgError
	var untrusted *tls.CertificateVerificationError
	switch {
	case !IsFromServer(err), errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &refused):
		code := refused.Code
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "40") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57") ||
			code == "25006" || code == "55P03" // a server that was primary, and a lock that another holds
	case errors.As(err, &untrusted):
		return false
	}
	return true
}

// Misplaced says whether an error is one of the configuration's: a server that refuses, or a host that is not known.
func Misplaced(err error) bool {
	var unknown *net.DNSError
	return err != nil && (!Passes(err) || errors.As(err, &unknown) && unknown.IsNotFound)
}

// OfData says whether the database has refused what a record holds, not how or when it is written.
func OfData(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	for _, class := range []string{"22", "23", "44", "P0001"} { // values, constraints, views' conditions, triggers that refuse
		if strings.HasPrefix(refused.Code, class) {
			return true
		}
	}
	return false
}

// Outdated says whether the database has refused a statement because a table is not as it was.
func Outdated(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "42703", "42P01", "0A000", "26000": // no such column, no such table, a plan that has changed, no such statement
		return true
	}
	return false
}

// query runs a statement whose parameters and results are texts, and returns all rows; nil is null.
func query(ctx context.Context, conn *pgconn.PgConn, sql string, params ...string) ([][][]byte, error) {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	result := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	return result.Rows, FromServer(result.Err)
}

// Exec runs a statement that returns nothing.
func Exec(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return FromServer(err)
}
