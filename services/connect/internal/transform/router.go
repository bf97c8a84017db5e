package transform

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/javadate"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
)

var regexRouterDefinition = configdef.Definition{
	{Name: "regex", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "The regular expression, of Java's kind, that the whole topic is to match."},
	{Name: "replacement", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "The new topic. $1 or ${name} is a group of the expression."},
}

// regexRouter is RegexRouter. As in Kafka the whole topic must match, but what is replaced is the first part of it that does.
type regexRouter struct {
	pattern     *javaregex.Pattern
	replacement *javaregex.Replacement
}

func newRegexRouter(v configdef.Values, _ side) (Transform, error) {
	pattern, err := javaregex.Compile(v.String("regex"))
	if err != nil {
		return nil, fmt.Errorf("regex: %w", err)
	}
	replacement, err := pattern.Replacement(v.String("replacement"))
	if err != nil {
		return nil, fmt.Errorf("replacement: %w", err)
	}
	return regexRouter{pattern, replacement}, nil
}

func (t regexRouter) Apply(r data.Record) (data.Record, bool, error) {
	if t.pattern.Matches(r.Topic) {
		r.Topic = t.replacement.First(r.Topic)
	}
	return r, false, nil
}

var timestampRouterDefinition = configdef.Definition{
	{
		Name: "topic.format", Type: configdef.String, Default: new("${topic}-${timestamp}"), Importance: configdef.High,
		Doc: "The new topic, in which ${topic} is the old one and ${timestamp} the record's timestamp.",
	},
	{
		Name: "timestamp.format", Type: configdef.String, Default: new("yyyyMMdd"), Importance: configdef.High,
		Doc: "How the timestamp is written, as a pattern of Java's SimpleDateFormat, in UTC.",
	},
}

// timestampRouter is TimestampRouter.
type timestampRouter struct {
	topic     string
	timestamp *javadate.Format
}

func newTimestampRouter(v configdef.Values, _ side) (Transform, error) {
	format, err := javadate.Compile(v.String("timestamp.format"))
	return timestampRouter{v.String("topic.format"), format}, err
}

func (t timestampRouter) Apply(r data.Record) (data.Record, bool, error) {
	if r.TimestampMs == data.NoTimestamp {
		return r, false, errors.New("TimestampRouter: the record has no timestamp")
	}
	timestamp := t.timestamp.Format(time.UnixMilli(r.TimestampMs))
	r.Topic = strings.NewReplacer("${topic}", r.Topic, "${timestamp}", timestamp).Replace(t.topic)
	return r, false, nil
}
