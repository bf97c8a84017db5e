package connector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/config"
)

// fileMaxBytes bounds what is read of a file.
const fileMaxBytes = 16 << 20

// readFile returns the text of a file, or of stdin for "-".
func readFile(s *session.Session, path string) ([]byte, error) {
	in := s.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, fileMaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", called(path), err)
	case len(text) > fileMaxBytes:
		return nil, exit.Usagef("%s is larger than %d bytes", called(path), fileMaxBytes)
	}
	return text, nil
}

func called(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

// creation is a connector as a file describes it. The name and the initial state may be empty.
type creation struct {
	name, initial string
	config        rest.Config
}

// readCreation reads a file: JSON as for POST /connectors, JSON of the configuration alone, or a .properties file.
func readCreation(s *session.Session, path string) (creation, error) {
	text, err := readFile(s, path)
	if err != nil {
		return creation{}, err
	}
	c, err := parseCreation(text)
	if err != nil {
		return creation{}, exit.Usagef("%s: %w", called(path), err)
	}
	return c, nil
}

func parseCreation(text []byte) (creation, error) {
	if !utf8.Valid(text) {
		return creation{}, errors.New("its text is not UTF-8")
	}
	text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("\ufeff"))
	if !bytes.HasPrefix(text, []byte("{")) {
		properties, err := config.ParseProperties(string(text))
		if err == nil && len(properties) == 0 {
			err = errors.New("there is no configuration in it")
		}
		return creation{name: properties["name"], config: properties}, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return creation{}, fmt.Errorf("not JSON: %w", err)
	}
	if nested, ok := fields["config"]; ok && bytes.HasPrefix(bytes.TrimSpace(nested), []byte("{")) {
		return parseNested(fields, nested)
	}
	config, err := settings(fields)
	return creation{name: config["name"], config: config}, err
}

// parseNested reads what POST /connectors takes.
func parseNested(fields map[string]json.RawMessage, nested json.RawMessage) (creation, error) {
	var c creation
	for field, value := range fields {
		var err error
		switch field {
		case "name":
			err = json.Unmarshal(value, &c.name)
		case "initial_state":
			err = json.Unmarshal(value, &c.initial)
		case "config":
			var inner map[string]json.RawMessage
			if err = json.Unmarshal(nested, &inner); err == nil {
				c.config, err = settings(inner)
			}
		default:
			err = errors.New("there are name, config and initial_state besides")
		}
		if err != nil {
			return creation{}, fmt.Errorf("field %q: %w", field, err)
		}
	}
	if c.name == "" {
		c.name = c.config["name"]
	}
	return c, nil
}

// settings takes numbers and booleans as their text, as workers do.
func settings(fields map[string]json.RawMessage) (rest.Config, error) {
	config := rest.Config{}
	for key, value := range fields {
		switch value[0] {
		case '"':
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, fmt.Errorf("%q: %w", key, err)
			}
			config[key] = text
		case '{', '[', 'n':
			return nil, fmt.Errorf("the value of %q is neither text nor number nor boolean", key)
		default:
			config[key] = strings.TrimSpace(string(value))
		}
	}
	return config, nil
}
