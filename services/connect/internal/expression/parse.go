package expression

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

// maxDepth bounds parentheses within parentheses, and negations.
const maxDepth = 100

// kind is what a token is.
type kind int

const (
	end kind = iota
	word
	quoted // a name in backticks
	text
	number
	operator
)

type token struct {
	kind kind
	text string
	at   int
}

// parser reads an expression from its front; token is the next one.
type parser struct {
	text  string
	at    int
	token token
	depth int
}

var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", ".", "-"}

func (p *parser) all() (eval, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	e, err := p.or()
	if err == nil && p.token.kind != end {
		err = p.unexpected()
	}
	return e, err
}

func (p *parser) unexpected() error {
	if p.token.kind == end {
		return errors.New("it breaks off")
	}
	return fmt.Errorf("%q is not expected", p.token.text)
}

// next reads the next token.
func (p *parser) next() error {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	p.token = token{at: p.at}
	if p.at == len(p.text) {
		return nil
	}
	rest := p.text[p.at:]
	switch c := rest[0]; {
	case c == '\'' || c == '"':
		return p.quote(text)
	case c == '`':
		return p.quote(quoted)
	case c >= '0' && c <= '9':
		p.take(number, digits(rest))
		return nil
	case letter(c):
		size := 1
		for size < len(rest) && (letter(rest[size]) || rest[size] >= '0' && rest[size] <= '9') {
			size++
		}
		p.take(word, size)
		return nil
	}
	for _, o := range operators {
		if strings.HasPrefix(rest, o) {
			p.take(operator, len(o))
			return nil
		}
	}
	p.token = token{operator, rest[:1], p.at}
	return p.unexpected()
}

func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// digits returns the size of the number that a text begins with.
func digits(s string) int {
	size := 0
	for size < len(s) {
		c := s[size]
		exponent := size > 0 && s[size-1]|0x20 == 'e' && (c == '+' || c == '-')
		if !(c >= '0' && c <= '9' || c == '.' || c|0x20 == 'e' || exponent) {
			break
		}
		size++
	}
	return size
}

func (p *parser) take(k kind, size int) {
	p.token = token{k, p.text[p.at : p.at+size], p.at}
	p.at += size
}

// quote reads up to the closing quote. A backslash before it, or before a backslash, makes that part of the text.
func (p *parser) quote(k kind) error {
	mark := p.text[p.at]
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		c := p.text[i]
		if c == mark {
			p.token = token{k, b.String(), p.at}
			p.at = i + 1
			return nil
		}
		if c == '\\' && i+1 < len(p.text) && (p.text[i+1] == mark || p.text[i+1] == '\\') {
			i++
			c = p.text[i]
		}
		b.WriteByte(c)
	}
	return errors.New("a quote is not closed")
}

// is says whether the next token is an operator, which it passes over.
func (p *parser) is(o string) (bool, error) {
	if p.token.kind != operator || p.token.text != o {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) or() (eval, error) { return p.joined("||", p.and, or) }

func (p *parser) and() (eval, error) { return p.joined("&&", p.not, and) }

func (p *parser) joined(by string, part func() (eval, error), join func(a, b eval) eval) (eval, error) {
	e, err := part()
	for err == nil {
		var more bool
		if more, err = p.is(by); err != nil || !more {
			break
		}
		var next eval
		next, err = part()
		e = join(e, next)
	}
	return e, err
}

func (p *parser) not() (eval, error) {
	negated, err := p.is("!")
	if err != nil || !negated {
		if err == nil {
			return p.comparison()
		}
		return nil, err
	}
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.not()
	return not(e), err
}

var comparisons = map[string]func(a, b any) (bool, error){
	"==": func(a, b any) (bool, error) { return equal(a, b), nil },
	"!=": func(a, b any) (bool, error) { return !equal(a, b), nil },
	"<":  ordered(func(c int) bool { return c < 0 }),
	"<=": ordered(func(c int) bool { return c <= 0 }),
	">":  ordered(func(c int) bool { return c > 0 }),
	">=": ordered(func(c int) bool { return c >= 0 }),
}

func (p *parser) comparison() (eval, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	switch compare, ok := comparisons[p.token.text]; {
	case p.token.kind == operator && ok:
		if err := p.next(); err != nil {
			return nil, err
		}
		right, err := p.operand()
		return compared(left, right, compare), err
	case p.token.kind == word && p.token.text == "in":
		return p.in(left)
	case p.token.kind == word && p.token.text == "matches":
		return p.matches(left)
	}
	return left, nil
}

func compared(left, right eval, compare func(a, b any) (bool, error)) eval {
	return func(r *data.Record) (any, error) {
		a, err := left(r)
		if err != nil {
			return nil, err
		}
		b, err := right(r)
		if err != nil {
			return nil, err
		}
		return compare(a, b)
	}
}

// in reads the list of literals behind in.
func (p *parser) in(left eval) (eval, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	if open, err := p.is("["); err != nil || !open {
		return nil, errors.Join(err, p.unexpected())
	}
	var list []any
	for first := true; ; first = false {
		if closed, err := p.is("]"); err != nil || closed {
			return compared(left, literal(list), func(a, list any) (bool, error) {
				for _, b := range list.([]any) {
					if equal(a, b) {
						return true, nil
					}
				}
				return false, nil
			}), err
		}
		if !first {
			if comma, err := p.is(","); err != nil || !comma {
				return nil, errors.Join(err, p.unexpected())
			}
		}
		v, ok, err := p.literal()
		if err != nil || !ok {
			return nil, errors.Join(err, p.unexpected())
		}
		list = append(list, v)
	}
}

func (p *parser) matches(left eval) (eval, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.token.kind != text {
		return nil, p.unexpected()
	}
	pattern, err := javaregex.Compile(p.token.text)
	if err != nil {
		return nil, err
	}
	return func(r *data.Record) (any, error) {
		v, err := left(r)
		if err != nil || v == nil {
			return false, err
		}
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s is no text to match", data.Kind(v))
		}
		return pattern.Matches(s), nil
	}, p.next()
}

func (p *parser) operand() (eval, error) {
	if v, ok, err := p.literal(); ok || err != nil {
		return literal(v), err
	}
	if open, err := p.is("("); err != nil || open {
		if err != nil {
			return nil, err
		}
		return p.group()
	}
	if p.token.kind != word {
		return nil, p.unexpected()
	}
	root := p.token.text
	e, ok := roots[root]
	if !ok && root != "header" {
		return nil, fmt.Errorf("%q is neither of key, value, header, topic, partition, offset and timestamp", root)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	for {
		dot, err := p.is(".")
		if err != nil {
			return nil, err
		}
		if !dot {
			if e == nil {
				return nil, errors.New("header needs a name, like header.name")
			}
			return e, nil
		}
		if p.token.kind != word && p.token.kind != quoted {
			return nil, p.unexpected()
		}
		if e == nil {
			e = header(p.token.text)
		} else {
			e = field(e, p.token.text)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) group() (eval, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if closed, err := p.is(")"); err != nil || !closed {
		return nil, errors.Join(err, p.unexpected())
	}
	return e, nil
}

// literal reads a literal, if one is next.
func (p *parser) literal() (v any, ok bool, err error) {
	sign := ""
	if minus, err := p.is("-"); err != nil {
		return nil, false, err
	} else if minus {
		if sign = "-"; p.token.kind != number {
			return nil, false, p.unexpected()
		}
	}
	switch {
	case p.token.kind == text:
		v = p.token.text
	case p.token.kind == number:
		if v, err = readNumber(sign + p.token.text); err != nil {
			return nil, false, err
		}
	case p.token.kind != word:
		return nil, false, nil
	case p.token.text == "true", p.token.text == "false":
		v = p.token.text == "true"
	case p.token.text != "null":
		return nil, false, nil
	}
	return v, true, p.next()
}

// readNumber reads a number: an int64 if it has neither point nor exponent and fits, else a decimal.
func readNumber(s string) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	return values.ParseDecimal(s)
}
