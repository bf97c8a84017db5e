package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/tests/conformance/internal/program"
	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Driver is a client in another language. Its program answers reading with "COUNT:SHA256" for every partition.
type Driver struct {
	*program.Program
	name   string
	writes workload.Shape
}

// NewDriver starts a driver program. The shape is what the client cannot write; every driver reads everything.
func NewDriver(name string, writes workload.Shape, path string, args ...string) (*Driver, error) {
	p, err := program.Start("the driver of "+name, path, args...)
	if err != nil {
		return nil, err
	}
	return &Driver{Program: p, name: name, writes: writes}, nil
}

func (d *Driver) Name() string           { return d.name }
func (d *Driver) Codecs() []string       { return Codecs }
func (d *Driver) Writes() workload.Shape { return d.writes }
func (d *Driver) Reads() workload.Shape  { return workload.Shape{} }

func (d *Driver) CreateTopic(ctx context.Context, topic string, partitions int) error {
	_, err := d.Call(ctx, "create", topic, strconv.Itoa(partitions))
	return err
}

func (d *Driver) Produce(ctx context.Context, j Job) error {
	_, err := d.Call(ctx, "produce", j.Topic, strconv.Itoa(j.Partitions), strconv.Itoa(j.Records), j.Codec, j.Acks)
	return err
}

func (d *Driver) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	fields, err := d.Call(ctx, "consume", j.Topic, strconv.Itoa(j.Partitions), strconv.Itoa(j.Records))
	if err != nil {
		return nil, err
	}
	out := make([]workload.PartitionDigest, len(fields))
	for i, f := range fields {
		count, sum, _ := strings.Cut(f, ":")
		if out[i].Records, err = strconv.Atoi(count); err != nil {
			return nil, fmt.Errorf("%s driver answered %q", d.name, f)
		}
		out[i].SHA256 = sum
	}
	return out, nil
}
