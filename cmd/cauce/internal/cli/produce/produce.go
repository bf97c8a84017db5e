// Package produce holds `cauce produce`.
package produce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/keyvalue"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const long = `Write records: the VALUEs given, or one for each line of stdin or of --file.

Separators may contain \n, \t, \0 and \xHH. A line is [HEADERS SEPARATOR] [KEY SEPARATOR] VALUE, as far
as --headers-separator and --key-separator say; headers are name=value,name=value. With --input json
a line is an object as cauce consume -o json prints it.

The first record that fails ends the command; what was acknowledged until then is in the report.`

const example = `  cauce produce orders hello world
  echo 'k1:v1' | cauce produce orders --key-separator :
  cauce produce orders --file orders.txt --compression zstd --acks 1
  cauce produce orders tick --count 100 --rate 10
  cauce consume orders -o json | cauce produce copy --input json`

type production struct {
	session          *session.Session
	tuning           Tuning
	file             string
	input            string
	delimiter        string
	keySeparator     string
	headersSeparator string
	null             string
	key              string
	headers          keyvalue.List
	partition        int32
	keepPartitions   bool
	count            int64
	rate             float64
	create           bool
	quiet            bool

	keyGiven, nullGiven bool
}

// Command returns `cauce produce`.
func Command(s *session.Session) *cobra.Command {
	p := &production{session: s}
	cmd := &cobra.Command{
		Use:     "produce TOPIC [VALUE…]",
		Short:   "Write records",
		Long:    long,
		Example: example,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.keyGiven, p.nullGiven = cmd.Flags().Changed("key"), cmd.Flags().Changed("null")
			return p.run(cmd.Context(), args[0], args[1:])
		},
		ValidArgsFunction: s.CompleteTopics(1),
	}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	p.tuning.Bind(cmd.Flags())
	p.bind(cmd)
	return cmd
}

func (p *production) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "file", "f", "", "read records from this `FILE` instead of stdin")
	flags.StringVar(&p.input, "input", "lines", "how the input becomes records: `lines|json|whole`")
	flags.StringVarP(&p.delimiter, "delimiter", "D", `\n`, "what ends a record of the input")
	flags.StringVarP(&p.keySeparator, "key-separator", "K", "", "what stands between key and value; none: no keys")
	flags.StringVar(&p.headersSeparator, "headers-separator", "", "what stands between headers and the rest; none: no headers")
	flags.StringVarP(&p.null, "null", "Z", "", "keys, values and headers that are this `TEXT` are null; may be empty")
	flags.StringVarP(&p.key, "key", "k", "", "the key of records that bring none")
	flags.VarP(&p.headers, "header", "H", "add the header `name=value` to every record; may be repeated")
	flags.Int32VarP(&p.partition, "partition", "p", -1, "write to partition `N` (-1: chosen by key)")
	flags.BoolVar(&p.keepPartitions, "keep-partitions", false, "with --input json: write to the partition that each object names")
	flags.Int64VarP(&p.count, "count", "n", 0, "stop after `N` records; VALUEs are repeated until then")
	flags.Float64Var(&p.rate, "rate", 0, "write at most `N` records a second")
	flags.BoolVar(&p.create, "create", false, "create the topic, with the cluster's defaults, if it does not exist")
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "do not print the report")
}

func (p *production) run(ctx context.Context, topic string, values []string) error {
	layout, err := p.layout()
	if err != nil {
		return err
	}
	options, err := p.options(topic)
	if err != nil {
		return err
	}
	records, closeInput, err := p.open(layout, values)
	if err != nil {
		return err
	}
	defer closeInput()
	client, err := p.session.Connect(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.prepare(ctx, client, topic); err != nil {
		return err
	}
	sender := newSender(ctx, client, topic, p.rate, p.tuning.acknowledged())
	defer sender.stop()
	err = sender.run(ctx, p.complete(records))
	flushed := sender.flush(p.session.Timeout)
	return errors.Join(p.report(sender.tally()), err, flushed)
}

func (p *production) options(topic string) ([]kgo.Opt, error) {
	if p.count < 0 {
		return nil, exit.Usagef("--count %d: must be positive", p.count)
	}
	if p.rate < 0 {
		return nil, exit.Usagef("--rate %v: must be positive", p.rate)
	}
	if p.keepPartitions && (p.input != "json" || p.partition >= 0) {
		return nil, exit.Usagef("--keep-partitions: needs --input json and no --partition")
	}
	options, err := p.tuning.Options()
	if err != nil {
		return nil, err
	}
	if p.partition >= 0 || p.keepPartitions {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return append(options, kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(p.session.Timeout), kgo.AllowIdempotentProduceCancellation()), nil
}

func (p *production) layout() (layout, error) {
	l := layout{json: p.input == "json"}
	if p.nullGiven {
		l.null = &p.null
	}
	for _, s := range []struct {
		flag, text string
		to         *string
	}{
		{"delimiter", p.delimiter, &l.delimiter},
		{"key-separator", p.keySeparator, &l.keySeparator},
		{"headers-separator", p.headersSeparator, &l.headersSeparator},
	} {
		text, err := format.Unescape(s.text)
		if err != nil {
			return layout{}, exit.Usagef("--%s: %w", s.flag, err)
		}
		*s.to = text
	}
	switch p.input {
	case "lines", "json":
		if l.delimiter == "" {
			return layout{}, exit.Usagef("--delimiter: may not be empty; for one record use --input whole")
		}
	case "whole":
		l.delimiter = ""
	default:
		return layout{}, exit.Usagef("--input %q: must be lines, json or whole", p.input)
	}
	return l, nil
}

// open returns the records to send before the flags that apply to all of them.
func (p *production) open(l layout, values []string) (records iter.Seq2[*kgo.Record, error], closeInput func(), err error) {
	switch {
	case len(values) > 0 && p.file != "":
		return nil, nil, exit.Usagef("--file: cannot be combined with VALUEs")
	case len(values) > 0:
		return l.repeated(values, p.count > 0), func() {}, nil
	case p.file != "" && p.file != "-":
		file, err := os.Open(p.file)
		if err != nil {
			return nil, nil, err
		}
		return l.records(file), func() { file.Close() }, nil
	}
	return l.records(p.session.In), func() {}, nil
}

// complete applies --count, --key, --header and --partition.
func (p *production) complete(records iter.Seq2[*kgo.Record, error]) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		n := int64(0)
		for record, err := range records {
			if err != nil {
				yield(nil, err)
				return
			}
			if p.keyGiven && record.Key == nil {
				record.Key = []byte(p.key)
			}
			for name, value := range p.headers.All() {
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			}
			if !p.keepPartitions {
				record.Partition = p.partition
			}
			if n++; !yield(record, nil) || n == p.count {
				return
			}
		}
	}
}

// prepare makes sure that the topic and the partition exist, so that a typing error is told at once.
func (p *production) prepare(ctx context.Context, client *kgo.Client, topic string) error {
	ctx, cancel := p.session.Bounded(ctx)
	defer cancel()
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("topic %q: %w", topic, exit.Answer(err, ""))
	}
	detail := details[topic]
	switch {
	case errors.Is(detail.Err, kerr.UnknownTopicOrPartition) && p.create:
		answer, err := admin.CreateTopic(ctx, -1, -1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %q: %w", topic, exit.Answer(err, answer.ErrMessage))
		}
		return nil
	case detail.Err != nil:
		return fmt.Errorf("topic %q: %w", topic, exit.Answer(detail.Err, ""))
	}
	if _, ok := detail.Partitions[p.partition]; p.partition >= 0 && !ok {
		return position.NoPartition(topic, p.partition, len(detail.Partitions))
	}
	return nil
}
