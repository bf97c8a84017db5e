package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

// decode reads a body that is one JSON value. Where it is to be an object of certain fields, it has no others: Go by itself takes Name for name.
func decode(body []byte, to any, fields ...string) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		if err == io.EOF {
			return fmt.Errorf("%w: there is no body", herder.ErrInvalid)
		}
		return fmt.Errorf("%w: body: %w", herder.ErrInvalid, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: body: more than one JSON value", herder.ErrInvalid)
	}
	if len(fields) == 0 {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("%w: body: %w", herder.ErrInvalid, err)
	}
	for name := range object {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("%w: body: the field %q is not among %s", herder.ErrInvalid, name, strings.Join(fields, ", "))
		}
	}
	return nil
}

// settings is a configuration as clients send it: numbers and booleans are taken as their text, and null is kept apart.
type settings map[string]*string

// UnmarshalJSON reads an object of texts, numbers, booleans and nulls.
func (s *settings) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if raw == nil {
		return nil
	}
	*s = make(settings, len(raw))
	for key, value := range raw {
		text := string(value)
		switch value[0] {
		case 'n':
			(*s)[key] = nil
			continue
		case '{', '[':
			return fmt.Errorf("the value of %q is neither text nor number nor boolean", key)
		case '"':
			if err := json.Unmarshal(value, &text); err != nil {
				return err
			}
		}
		(*s)[key] = &text
	}
	return nil
}

// config is a configuration without nulls.
func (s settings) config() (configs.Config, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: there is no configuration", herder.ErrInvalid)
	}
	c := make(configs.Config, len(s))
	for key, value := range s {
		if value == nil {
			return nil, fmt.Errorf("%w: the value of %q is null", herder.ErrInvalid, key)
		}
		c[key] = *value
	}
	return c, nil
}

func decodeConfig(body []byte) (configs.Config, error) {
	var s settings
	if err := decode(body, &s); err != nil {
		return nil, err
	}
	return s.config()
}

// creation is the body that makes a connector (KIP-980).
type creation struct {
	Name    *string  `json:"name"`
	Config  settings `json:"config"`
	Initial *string  `json:"initial_state"`
}

// initial is the target state that a creation asks for.
func (c creation) initial() (configs.Target, error) {
	if c.Initial == nil {
		return configs.Started, nil
	}
	switch strings.ToUpper(*c.Initial) {
	case "RUNNING":
		return configs.Started, nil
	case "PAUSED":
		return configs.Paused, nil
	case "STOPPED":
		return configs.Stopped, nil
	}
	return 0, fmt.Errorf("%w: initial_state %q is not RUNNING, PAUSED or STOPPED", herder.ErrInvalid, *c.Initial)
}

type offsetsBody struct {
	Offsets []offsetBody `json:"offsets"`
}

type offsetBody struct {
	Partition map[string]any `json:"partition"`
	Offset    map[string]any `json:"offset"`
}

// decodeOffsets reads entries, at least one.
func decodeOffsets(body []byte) ([]offsets.Entry, error) {
	var parsed struct {
		Offsets []json.RawMessage `json:"offsets"`
	}
	if err := decode(body, &parsed, "offsets"); err != nil {
		return nil, err
	}
	if len(parsed.Offsets) == 0 {
		return nil, fmt.Errorf("%w: there are no offsets", herder.ErrInvalid)
	}
	var entries []offsets.Entry
	for _, text := range parsed.Offsets {
		var o struct {
			Partition json.RawMessage `json:"partition"`
			Offset    json.RawMessage `json:"offset"`
		}
		if err := decode(text, &o, "partition", "offset"); err != nil {
			return nil, err
		}
		partition, err := primitives(o.Partition)
		if err != nil {
			return nil, fmt.Errorf("%w: partition: %w", herder.ErrInvalid, err)
		}
		if partition == nil {
			return nil, fmt.Errorf("%w: an offset has no partition", herder.ErrInvalid)
		}
		offset, err := primitives(o.Offset)
		if err != nil {
			return nil, fmt.Errorf("%w: offset: %w", herder.ErrInvalid, err)
		}
		entries = append(entries, offsets.Entry{Partition: partition, Offset: offset})
	}
	return entries, nil
}

// primitives reads an object of texts, numbers, booleans and nulls; nil for null.
func primitives(raw json.RawMessage) (offsets.Map, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return offsets.ParseMap(raw)
}
