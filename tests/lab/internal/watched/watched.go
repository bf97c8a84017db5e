// Package watched has what the experiments on lag share: a node, and what it says of how a group comes along.
package watched

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Status is how a group comes along, in the words of the metrics. Nothing is said until enough was seen.
type Status struct {
	Group      string
	Partitions map[int32]string
}

var (
	ofGroup     = regexp.MustCompile(`^cauce_consumergroup_status\{consumergroup="([^"]*)",.*status="([A-Z_]+)"\} 1$`)
	ofPartition = regexp.MustCompile(`^cauce_consumergroup_partition_status\{consumergroup="([^"]*)",.*partition="([0-9]+)",status="([A-Z_]+)".*\} 1$`)
)

// Look asks the node how a group of one topic comes along.
func (n *Node) Look(ctx context.Context, group string) (Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/metrics", nil)
	if err != nil {
		return Status{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Status{}, err
	}
	text, err := io.ReadAll(response.Body)
	if err = cmp.Or(err, response.Body.Close()); err != nil {
		return Status{}, err
	}
	s := Status{Group: "-", Partitions: map[int32]string{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := ofGroup.FindStringSubmatch(line); m != nil && m[1] == group {
			s.Group = m[2]
		}
		if m := ofPartition.FindStringSubmatch(line); m != nil && m[1] == group {
			partition, err := strconv.ParseInt(m[2], 10, 32)
			if err != nil {
				return Status{}, fmt.Errorf("%s: %w", line, err)
			}
			s.Partitions[int32(partition)] = m[3]
		}
	}
	return s, nil
}
