package group

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
)

// readPlan reads the offsets for a group from a CSV file as --export and kafka-consumer-groups write it.
func readPlan(path, group string) (map[position.Partition]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", fromFile, err)
	}
	defer file.Close()
	plan, err := parsePlan(file, group)
	if err != nil {
		return nil, exit.Usagef("--%s %s: %w", fromFile, path, err)
	}
	return plan, nil
}

// parsePlan takes lines topic,partition,offset, and those of group,topic,partition,offset that are for the group.
func parsePlan(r io.Reader, group string) (map[position.Partition]int64, error) {
	reader := csv.NewReader(r)
	reader.TrimLeadingSpace = true
	reader.ReuseRecord = true
	reader.FieldsPerRecord = 0 // all lines are like the first
	plan := make(map[position.Partition]int64)
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		switch {
		case len(fields) == 4 && fields[0] != group:
			continue
		case len(fields) == 4:
			fields = fields[1:]
		case len(fields) != 3:
			return nil, fmt.Errorf("line %d: must be topic,partition,offset or group,topic,partition,offset", line)
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		if err != nil || partition < 0 {
			return nil, fmt.Errorf("line %d: %q is no partition", line, fields[1])
		}
		offset, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("line %d: %q is no offset", line, fields[2])
		}
		p := position.Partition{Topic: fields[0], ID: int32(partition)}
		if _, again := plan[p]; again {
			return nil, fmt.Errorf("line %d: %s is there twice", line, p)
		}
		plan[p] = offset
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("holds no offset for group %q", group)
	}
	return plan, nil
}

// writePlan writes what readPlan reads.
func writePlan(w io.Writer, moves []move) error {
	writer := csv.NewWriter(w)
	for _, m := range moves {
		if err := writer.Write([]string{m.Topic, strconv.Itoa(int(m.Partition)), strconv.FormatInt(m.Offset, 10)}); err != nil {
			return err
		}
	}
	writer.Flush()
	return writer.Error()
}
