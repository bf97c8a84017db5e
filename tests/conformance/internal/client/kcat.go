package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/tests/conformance/internal/program"
	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Kcat is Debian's kcat with the librdkafka it comes with. It makes topics by writing to them, so they have one
// partition, and reads and writes whole streams of records divided by delimiters.
type Kcat struct{ path, bootstrap string }

// NewKcat returns a client that runs the kcat at path.
func NewKcat(path, bootstrap string) *Kcat { return &Kcat{path, bootstrap} }

func (k *Kcat) Name() string     { return "kcat" }
func (k *Kcat) Codecs() []string { return Codecs }

// Writes: kcat's headers and timestamps cannot differ by record, and -Z makes every empty field null.
func (k *Kcat) Writes() workload.Shape {
	return workload.Shape{NoHeaders: true, NoTimestamps: true, EmptyIsNull: true}
}

// Reads: %h joins headers in a way that cannot be taken apart.
func (k *Kcat) Reads() workload.Shape { return workload.Shape{NoHeaders: true} }

func (k *Kcat) Close() error { return nil }

// CreateTopic asks for the topic's metadata, which creates it where auto.create.topics.enable holds.
func (k *Kcat) CreateTopic(ctx context.Context, topic string, _ int) error {
	out, err := exec.CommandContext(ctx, k.path, "-L", "-b", k.bootstrap, "-t", topic).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kcat -L: %w\n%s", err, out)
	}
	return nil
}

// The delimiters hold bytes that no word of the workload has.
const (
	keyDelimiter    = "\x01K\x02"
	recordDelimiter = "\x01R\x02"
	// pipeFrom is the number of records from which they are piped in rather than read from a file.
	pipeFrom = 10_000
)

func (k *Kcat) Produce(ctx context.Context, j Job) error {
	if j.Partitions != 1 {
		return errors.New("kcat writes to topics of one partition")
	}
	args := []string{
		"-P", "-b", k.bootstrap, "-t", j.Topic, "-p", "0", "-z", j.Codec, "-K", keyDelimiter, "-D", recordDelimiter, "-Z",
		"-X", "acks=" + j.Acks, "-X", "message.max.bytes=1048576", "-X", "linger.ms=5", "-X", "enable.idempotence=" + strconv.FormatBool(j.Acks == "all"),
	}
	cmd := exec.CommandContext(ctx, k.path, args...)
	var stderr program.Tail
	cmd.Stderr = &stderr
	if j.Records >= pipeFrom {
		r, w := io.Pipe()
		defer r.Close()
		cmd.Stdin = r
		go func() { w.CloseWithError(k.write(w, j)) }()
	} else {
		f, err := os.CreateTemp("", "kcat-")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		if err := errors.Join(k.write(f, j), f.Close()); err != nil {
			return err
		}
		cmd.Args = append(cmd.Args, "-l", f.Name())
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return nil
}

func (k *Kcat) write(to io.Writer, j Job) error {
	w, g := bufio.NewWriter(to), workload.NewGenerator(k.Writes())
	for i := range j.Records {
		if i > 0 {
			_, _ = w.WriteString(recordDelimiter)
		}
		r := g.Record(i, j.Partitions)
		_, _ = w.Write(r.Key)
		_, _ = w.WriteString(keyDelimiter)
		_, _ = w.Write(r.Value)
	}
	return w.Flush()
}

func (k *Kcat) Consume(ctx context.Context, j Job) ([]workload.PartitionDigest, error) {
	cmd := exec.CommandContext(ctx, k.path, "-C", "-b", k.bootstrap, "-t", j.Topic, "-o", "beginning", "-q",
		"-c", strconv.Itoa(j.Records), "-f", `%p %o %T %K %S\n%k%s`)
	var stderr program.Tail
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := workload.NewDigest(j.Partitions, k.Reads())
	readErr := readKcat(bufio.NewReaderSize(stdout, 1<<20), j.Records, d)
	if readErr != nil {
		_ = cmd.Process.Kill()
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("kcat after %d of %d records: %w\n%s", d.Records(), j.Records, err, stderr.String())
	}
	return d.Partitions(), nil
}

func readKcat(in *bufio.Reader, records int, d *workload.Digest) error {
	for range records {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var r workload.Record
		var keyLen, valueLen int
		if _, err := fmt.Fscan(bytes.NewReader(line), &r.Partition, &r.Offset, &r.TimestampMs, &keyLen, &valueLen); err != nil {
			return fmt.Errorf("kcat printed %q: %w", line, err)
		}
		if r.Key, err = readField(in, keyLen); err != nil {
			return err
		}
		if r.Value, err = readField(in, valueLen); err != nil {
			return err
		}
		if err := d.Add(r); err != nil {
			return err
		}
	}
	return nil
}

func readField(in io.Reader, size int) ([]byte, error) {
	if size < 0 {
		return nil, nil
	}
	b := make([]byte, size)
	_, err := io.ReadFull(in, b)
	return b, err
}
