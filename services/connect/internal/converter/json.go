package converter

import (
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The keys of JsonConverter.
const (
	schemasEnable     = "schemas.enable"
	schemasCacheSize  = "schemas.cache.size"
	schemaContent     = "schema.content"
	decimalFormat     = "decimal.format"
	replaceNull       = "replace.null.with.default"
	decimalAsNumber   = "NUMERIC"
	maxSchemasCached  = 1_000_000
	schemasCachedText = "1000"
)

var jsonDefinition = configdef.Definition{
	{
		Name: schemasEnable, Type: configdef.Boolean, Default: new("true"), Importance: configdef.High, Group: "Schemas", Order: 0, Width: configdef.MediumWidth, DisplayName: "Enable Schemas",
		Doc: "Whether each text is an object of a schema and a payload. Without, it is the payload alone.",
	},
	{
		Name: schemasCacheSize, Type: configdef.Int, Default: new(schemasCachedText), Importance: configdef.High, Group: "Schemas", Order: 1, Width: configdef.MediumWidth, DisplayName: "Schema Cache Size",
		Doc:   "How many schemas are kept in each direction, so that they need not be translated again.",
		Valid: configdef.Rule{Min: new(0.0), Max: new(float64(maxSchemasCached))},
	},
	{
		Name: schemaContent, Type: configdef.String, Importance: configdef.High, Group: "Schemas", Order: 2, Width: configdef.MediumWidth, DisplayName: "Schema Content",
		Doc: "The schema of all texts, in JSON, which then are read as payloads alone. It needs " + schemasEnable + ".",
	},
	{
		Name: decimalFormat, Type: configdef.String, Default: new("BASE64"), Importance: configdef.Low, Group: "Serialization", Order: 0, Width: configdef.MediumWidth, DisplayName: "Decimal Format",
		Doc:   "How decimals are written: BASE64 of their unscaled bytes, or NUMERIC. Both are read.",
		Valid: configdef.Rule{OneOf: []string{"BASE64", decimalAsNumber}, IgnoreCase: true},
	},
	{
		Name: replaceNull, Type: configdef.Boolean, Default: new("true"), Importance: configdef.Low, Group: "Serialization", Order: 1, Width: configdef.MediumWidth, DisplayName: "Replace null with default",
		Doc: "Whether the default of a field takes the place of its null.",
	},
}

// jsonConverter is JsonConverter.
//
// What Java takes silently for something else, it refuses: a payload of another type than its schema's, which there becomes
// zero, false or null, a number that does not fit its type, which there loses its high bits, and anything behind the text.
type jsonConverter struct {
	schemas bool
	// content is the schema of all texts that are read, or nil.
	content     *data.Schema
	numeric     bool
	replaceNull bool
	// written are the texts of schemas, read the schemas of texts. Each holds at most cached.
	written map[*data.Schema][]byte
	read    map[string]*data.Schema
	cached  int
}

func newJSON(v configdef.Values, use Use) (Converter, error) {
	c := &jsonConverter{
		schemas: v.Bool(schemasEnable), numeric: foldEqual(v.String(decimalFormat), decimalAsNumber), replaceNull: v.Bool(replaceNull),
		written: map[*data.Schema][]byte{}, read: map[string]*data.Schema{}, cached: int(v.Int(schemasCacheSize)),
	}
	if content := v.String(schemaContent); content != "" {
		r := reader{text: []byte(content)}
		s, err := c.readSchema(&r, 0)
		if err == nil {
			err = r.end()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", schemaContent, err)
		}
		c.content = s
	}
	return c, nil
}

// keep adds to a cache that has room for size entries, which are all dropped when it is full.
func keep[K comparable, V any](cache map[K]V, size int, key K, value V) {
	if size == 0 {
		return
	}
	if len(cache) >= size {
		clear(cache)
	}
	cache[key] = value
}

func (c *jsonConverter) Encode(_ string, v data.Value) ([]byte, error) {
	if v.Schema == nil && v.V == nil {
		return nil, nil
	}
	var dst []byte
	if c.schemas {
		dst = append(dst, `{"schema":`...)
		schema, err := c.schemaText(v.Schema)
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, schema...), `,"payload":`...)
	}
	dst, err := c.write(dst, v.Schema, v.V, 0)
	if err != nil {
		return nil, err
	}
	if c.schemas {
		dst = append(dst, '}')
	}
	return dst, nil
}

func (c *jsonConverter) Decode(_ string, b []byte) (data.Value, error) {
	if b == nil {
		return data.Value{}, nil
	}
	r := reader{text: b}
	var v data.Value
	var err error
	switch {
	case c.schemas && c.content == nil:
		v, err = c.readEnvelope(&r)
	case !c.schemas && r.peek() == 0 && r.at == len(b): // blanks
		return data.Value{}, nil
	default:
		if c.schemas {
			v.Schema = c.content
		}
		v.V, err = c.readValue(&r, v.Schema, 0)
	}
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return data.Value{}, fmt.Errorf("JSON at byte %d: %w", r.at, err)
	}
	return v, nil
}

// readEnvelope reads an object of exactly a schema and a payload, in any order.
func (c *jsonConverter) readEnvelope(r *reader) (data.Value, error) {
	const want = `an object of "schema" and "payload" is wanted, as ` + schemasEnable + ` is on`
	if r.peek() != '{' {
		return data.Value{}, errors.New(want)
	}
	var schema, payload *reader
	err := r.members(func(name string) error {
		begin := r.at
		if err := r.skip(0); err != nil {
			return err
		}
		part := &reader{text: r.text[:r.at], at: begin}
		switch {
		case name == "schema" && schema == nil:
			schema = part
		case name == "payload" && payload == nil:
			payload = part
		default:
			return fmt.Errorf(want+", not %.40q", name)
		}
		return nil
	})
	if err != nil {
		return data.Value{}, err
	}
	if schema == nil || payload == nil {
		return data.Value{}, errors.New(want)
	}
	s, err := c.cachedSchema(schema)
	if err != nil {
		return data.Value{}, fmt.Errorf("schema: %w", err)
	}
	value, err := c.readValue(payload, s, 0)
	if err != nil {
		return data.Value{}, fmt.Errorf("payload: %w", err)
	}
	return data.Value{Schema: s, V: value}, nil
}

func (c *jsonConverter) cachedSchema(r *reader) (*data.Schema, error) {
	if s, ok := c.read[string(r.text[r.at:])]; ok {
		return s, nil
	}
	key := string(r.text[r.at:])
	s, err := c.readSchema(r, 0)
	if err == nil {
		keep(c.read, c.cached, key, s)
	}
	return s, err
}
