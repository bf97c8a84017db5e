package configkeys

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
)

var throttledReplica = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

// throttledReplicas accepts "*", nothing, or partition:node pairs (KIP-73).
var throttledReplicas = config.Validator{Text: "* or partition:node,...", Check: func(value string) error {
	if value == "*" {
		return nil
	}
	for _, e := range config.Elements(value) {
		if !throttledReplica.MatchString(e) {
			return fmt.Errorf("%q is not of the form partition:node", e)
		}
	}
	return nil
}}

var isoDuration = regexp.MustCompile(`^P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$`)

// offsetReset accepts where a share group begins (KIP-932, KIP-1106).
var offsetReset = config.Validator{Text: "[latest, earliest, by_duration:PnDTnHnMn.nS]", Check: func(value string) error {
	if slices.Contains([]string{"latest", "earliest"}, value) {
		return nil
	}
	duration, ok := strings.CutPrefix(value, "by_duration:")
	if !ok {
		return fmt.Errorf("not one of latest, earliest, by_duration:…")
	}
	if !isoDuration.MatchString(duration) || strings.HasSuffix(duration, "P") || strings.HasSuffix(duration, "T") {
		return fmt.Errorf("%q is not an ISO 8601 duration such as PT1H30M", duration)
	}
	return nil
}}
