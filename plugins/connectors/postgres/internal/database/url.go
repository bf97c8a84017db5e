package database

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const jdbcPrefix = "jdbc:postgresql:"

// jdbcNames are the parameters of JDBC URLs that have a counterpart, by what libpq calls them.
var jdbcNames = map[string]string{
	"user": "user", "password": "password", "sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert", "sslkey": "sslkey",
	"ApplicationName": "application_name", "currentSchema": "search_path", "connectTimeout": "connect_timeout", "options": "options",
	"gssEncMode": "", "ssl": "sslmode", "targetServerType": "target_session_attrs",
}

// jdbcServers are the values of targetServerType, as those of target_session_attrs.
var jdbcServers = map[string]string{
	"any": "any", "master": "primary", "primary": "primary", "slave": "standby", "secondary": "standby",
	"preferSlave": "prefer-standby", "preferSecondary": "prefer-standby",
}

// ToLibpq returns the URL of libpq that means what a URL does, which may be one of JDBC's. Ignored are the parameters that only
// mean something to the JDBC driver. Errors do not have the URL, which may have a password.
func ToLibpq(text string) (libpq string, ignored []string, err error) {
	switch {
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return text, nil, nil
	case !strings.HasPrefix(text, jdbcPrefix):
		return "", nil, errors.New("jdbc:postgresql://HOST:PORT/DATABASE or postgres://HOST:PORT/DATABASE is wanted")
	}
	place, query, _ := strings.Cut(strings.TrimPrefix(text, jdbcPrefix), "?")
	hosts := "localhost"
	if rest, ok := strings.CutPrefix(place, "//"); ok {
		hosts, place, _ = strings.Cut(rest, "/")
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, errors.New("the parameters behind ? are not encoded as in a URL")
	}
	params := url.Values{}
	for name, values := range given {
		value := values[len(values)-1]
		to, known := jdbcNames[name]
		switch {
		case !known || to == "":
			ignored = append(ignored, name)
			continue
		case name == "ssl" && (value == "true" || value == ""):
			if given.Has("sslmode") {
				continue
			}
			value = "verify-full"
		case name == "ssl":
			continue
		case name == "targetServerType":
			if value = jdbcServers[value]; value == "" {
				return "", nil, fmt.Errorf("there is no targetServerType %q", given.Get(name))
			}
		}
		params.Set(to, value)
	}
	slices.Sort(ignored)
	libpq = "postgres://" + hosts + "/" + strings.TrimPrefix(place, "/")
	if len(params) > 0 {
		libpq += "?" + params.Encode()
	}
	return libpq, ignored, nil
}
