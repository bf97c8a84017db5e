package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

func (a *area) offsets() *cobra.Command {
	cmd := &cobra.Command{Use: "offsets", Short: "Show where connectors stand, and move or reset those that are stopped"}
	cmd.AddCommand(a.getOffsets(), a.setOffsets(), a.resetOffsets())
	return cmd
}

func (a *area) getOffsets() *cobra.Command {
	return &cobra.Command{
		Use:               "get CONNECTOR",
		Short:             "Show where a connector stands",
		Example:           "  cauce connector offsets get orders-to-s3",
		Args:              cobra.ExactArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runGetOffsets(cmd.Context(), args[0]) },
		ValidArgsFunction: a.complete(1),
	}
}

func (a *area) runGetOffsets(ctx context.Context, name string) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	list, err := c.Offsets(ctx, name)
	if err != nil {
		return fault(name, err)
	}
	document := map[string]any{"offsets": append([]rest.Offset{}, list...)}
	return a.session.Print(document, func() *output.Table {
		table := output.NewTable(output.Left("PARTITION"), output.Left("OFFSET"))
		for _, o := range list {
			table.Row(compact(o.Partition), compact(o.Offset))
		}
		return table
	})
}

func compact(text json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return string(text)
	}
	return b.String()
}

func (a *area) setOffsets() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "set CONNECTOR [PARTITION=OFFSET…]",
		Short: "Move where a stopped connector stands",
		Long: `Move where a stopped connector stands: for a sink by TOPIC:PARTITION=OFFSET, for a source by two JSON objects, whose fields are the
connector's own: offsets get shows them. null in the place of an offset forgets it. --file has what offsets get -o json prints.`,
		Example: `  cauce connector stop orders-to-s3 --wait
  cauce connector offsets set orders-to-s3 orders:0=1200 orders:1=null
  cauce connector offsets set lines '{"filename":"/tmp/lines.txt"}={"position":0}'
  cauce connector resume orders-to-s3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.readOffsets(file, args[1:])
			if err != nil {
				return err
			}
			return a.moveOffsets(cmd.Context(), args[0], func(ctx context.Context, c *rest.Client) (string, error) { return c.SetOffsets(ctx, args[0], list) })
		},
		ValidArgsFunction: a.complete(1),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the offsets from this `FILE`, or - for stdin")
	return cmd
}

func (a *area) resetOffsets() *cobra.Command {
	return &cobra.Command{
		Use:     "reset CONNECTOR",
		Short:   "Forget where a stopped connector stands, so that it begins anew",
		Example: "  cauce connector offsets reset orders-to-s3",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.moveOffsets(cmd.Context(), args[0], func(ctx context.Context, c *rest.Client) (string, error) { return c.ResetOffsets(ctx, args[0]) })
		},
		ValidArgsFunction: a.complete(1),
	}
}

func (a *area) moveOffsets(ctx context.Context, name string, move func(context.Context, *rest.Client) (string, error)) error {
	c, ctx, cancel, err := a.client(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	said, err := move(ctx, c)
	if err != nil {
		return fault(name, err)
	}
	return a.printChanged([]changed{{name, said}})
}

// readOffsets returns at least one offset: of a file, or of arguments.
func (a *area) readOffsets(file string, args []string) ([]rest.Offset, error) {
	if (file != "") == (len(args) > 0) {
		return nil, exit.Usagef("say which offsets, either by --file or by PARTITION=OFFSET")
	}
	if file != "" {
		text, err := readFile(a.session, file)
		if err != nil {
			return nil, err
		}
		var document struct{ Offsets []rest.Offset }
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, exit.Usagef("%s: %w", called(file), err)
		}
		if len(document.Offsets) == 0 {
			return nil, exit.Usagef("%s has no offsets", called(file))
		}
		return document.Offsets, nil
	}
	var list []rest.Offset
	for _, arg := range args {
		o, err := parseOffset(arg)
		if err != nil {
			return nil, exit.Usagef("%s: %w", arg, err)
		}
		list = append(list, o)
	}
	return list, nil
}

// parseOffset reads TOPIC:PARTITION=OFFSET, or two JSON values with = between them.
func parseOffset(text string) (rest.Offset, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		d := json.NewDecoder(strings.NewReader(text))
		var o rest.Offset
		if err := d.Decode(&o.Partition); err != nil {
			return o, fmt.Errorf("the partition is no JSON: %w", err)
		}
		rest, ok := strings.CutPrefix(strings.TrimSpace(text[d.InputOffset():]), "=")
		if !ok {
			return o, fmt.Errorf("there is no = behind the partition")
		}
		if err := json.Unmarshal([]byte(rest), &o.Offset); err != nil {
			return o, fmt.Errorf("the offset is no JSON: %w", err)
		}
		return o, nil
	}
	place, offset, ok := strings.Cut(text, "=")
	i := strings.LastIndexByte(place, ':')
	if !ok || i <= 0 {
		return rest.Offset{}, fmt.Errorf("TOPIC:PARTITION=OFFSET is wanted, or two JSON objects with = between them")
	}
	partition, err := strconv.ParseInt(place[i+1:], 10, 32)
	if err != nil || partition < 0 {
		return rest.Offset{}, fmt.Errorf("%q is no number of a partition", place[i+1:])
	}
	o := rest.Offset{Partition: marshal(map[string]any{"kafka_topic": place[:i], "kafka_partition": partition}), Offset: json.RawMessage("null")}
	if offset != "null" {
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil || n < 0 {
			return rest.Offset{}, fmt.Errorf("%q is no offset", offset)
		}
		o.Offset = marshal(map[string]any{"kafka_offset": n})
	}
	return o, nil
}

// marshal is of texts and numbers, which cannot fail.
func marshal(fields map[string]any) json.RawMessage {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return text
}
