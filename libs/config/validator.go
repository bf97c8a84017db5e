package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Validator restricts the values of a key beyond its type. The zero value accepts everything.
type Validator struct {
	// Text names the accepted values for documentation, e.g. "[1,...]".
	Text string
	// Check is called with the trimmed text of a value that already has the key's type.
	Check func(text string) error
}

// AtLeast accepts numbers from least upward.
func AtLeast(least float64) Validator { return Between(least, math.Inf(1)) }

// Between accepts numbers from least to most, both included.
func Between(least, most float64) Validator {
	text := "[" + number(least) + ",..." + "]"
	if !math.IsInf(most, 1) {
		text = "[" + number(least) + ",...," + number(most) + "]"
	}
	return Validator{Text: text, Check: func(value string) error {
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
			return fmt.Errorf("not a number")
		case n < least:
			return fmt.Errorf("below the least value %s", number(least))
		case n > most:
			return fmt.Errorf("above the greatest value %s", number(most))
		}
		return nil
	}}
}

// Or accepts what v accepts, and the given word.
func Or(v Validator, word string) Validator {
	return Validator{Text: v.Text + " or " + word, Check: func(value string) error {
		if value == word {
			return nil
		}
		return v.Check(value)
	}}
}

// OneOf accepts exactly the given words.
func OneOf(words ...string) Validator {
	return Validator{Text: "[" + strings.Join(words, ", ") + "]", Check: func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return notOneOf(value, words)
	}}
}

// OneOfFold accepts the given words in any case.
func OneOfFold(words ...string) Validator {
	return Validator{Text: "(any case) [" + strings.Join(words, ", ") + "]", Check: func(value string) error {
		if slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, value) }) {
			return nil
		}
		return notOneOf(value, words)
	}}
}

// ListOf accepts lists whose elements are among the given words; repetitions are
// dropped by Normalize. An empty list is accepted only when emptyOK.
func ListOf(emptyOK bool, words ...string) Validator {
	return Validator{Text: "[" + strings.Join(words, ", ") + "]", Check: func(value string) error {
		elements := Elements(value)
		if len(elements) == 0 && !emptyOK {
			return fmt.Errorf("the list must not be empty; use some of %s", strings.Join(words, ", "))
		}
		for _, e := range elements {
			if !slices.Contains(words, e) {
				return notOneOf(e, words)
			}
		}
		return nil
	}}
}

// NonEmpty accepts every text but the empty one.
func NonEmpty() Validator {
	return Validator{Text: "non-empty", Check: func(value string) error {
		if value == "" {
			return fmt.Errorf("must not be empty")
		}
		return nil
	}}
}

func notOneOf(value string, words []string) error {
	if near := Nearest(value, slices.Values(words)); near != "" {
		return fmt.Errorf("not one of %s (did you mean %s?)", strings.Join(words, ", "), near)
	}
	return fmt.Errorf("not one of %s", strings.Join(words, ", "))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
