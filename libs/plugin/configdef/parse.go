package configdef

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parse returns the value that a text stands for: bool, int64 for all integers, float64, []string, or string. The error
// reads on after the name of the key, and never has the text of a password.
func (k *Key) parse(text string) (any, error) {
	value, err := k.Type.parse(text)
	if err == nil {
		err = k.Valid.check(value)
	}
	switch {
	case err == nil:
		return value, nil
	case k.Type == Password:
		return nil, err
	}
	return nil, fmt.Errorf("is %q: %w", text, err)
}

func (t Type) parse(text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch t {
	case Boolean:
		switch strings.ToLower(trimmed) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, errors.New("true or false is wanted")
	case Short, Int, Long:
		bits := map[Type]int{Short: 16, Int: 32, Long: 64}[t]
		n, err := strconv.ParseInt(trimmed, 10, bits)
		if err != nil {
			return nil, fmt.Errorf("an integer of %d bits is wanted", bits)
		}
		return n, nil
	case Double:
		f, err := strconv.ParseFloat(trimmed, 64)
		if err != nil {
			return nil, errors.New("a number is wanted")
		}
		return f, nil
	case List:
		return elements(trimmed), nil
	}
	return trimmed, nil
}

func elements(text string) []string {
	if text == "" {
		return []string{}
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (r *Rule) checkItself(t Type) error {
	number := slices.Contains([]Type{Short, Int, Long, Double}, t)
	switch {
	case !number && (r.Min != nil || r.Max != nil):
		return errors.New("only numbers have a least and a largest value")
	case (number || t == Boolean) && (r.OneOf != nil || r.NonEmpty || r.Pattern != ""):
		return errors.New("only texts and lists have values to choose among, or a pattern")
	}
	if _, err := r.expression(); err != nil {
		return fmt.Errorf("its pattern: %w", err)
	}
	return nil
}

func (r *Rule) expression() (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + r.Pattern + ")$")
}

func (r *Rule) check(value any) error {
	switch v := value.(type) {
	case int64:
		return r.checkNumber(float64(v))
	case float64:
		return r.checkNumber(v)
	case []string:
		if r.NonEmpty && len(v) == 0 {
			return errors.New("at least one element is wanted")
		}
		for _, element := range v {
			if err := r.checkText(element); err != nil {
				return err
			}
		}
	case string:
		return r.checkText(v)
	}
	return nil
}

func (r *Rule) checkNumber(n float64) error {
	switch {
	case r.Min != nil && !(n >= *r.Min): // neither is NaN
		return fmt.Errorf("at least %v is wanted", *r.Min)
	case r.Max != nil && !(n <= *r.Max):
		return fmt.Errorf("at most %v is wanted", *r.Max)
	}
	return nil
}

func (r *Rule) checkText(text string) error {
	if r.NonEmpty && strings.TrimSpace(text) == "" {
		return errors.New("it must not be empty")
	}
	if r.OneOf != nil && !slices.ContainsFunc(r.OneOf, func(one string) bool {
		return text == one || r.IgnoreCase && strings.EqualFold(text, one)
	}) {
		return fmt.Errorf("one of %s is wanted", strings.Join(r.OneOf, ", "))
	}
	if r.Pattern == "" {
		return nil
	}
	expression, err := r.expression()
	if err != nil {
		return err
	}
	if !expression.MatchString(text) {
		return fmt.Errorf("a text like %s is wanted", r.Pattern)
	}
	return nil
}
