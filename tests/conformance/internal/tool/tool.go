// Package tool runs Apache Kafka's command-line tools and reduces what they print to what must not change.
package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
)

// classes are the main classes behind the names of Apache Kafka's scripts.
var classes = map[string]string{
	"kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"kafka-cluster":             "org.apache.kafka.tools.ClusterTool",
	"kafka-configs":             "org.apache.kafka.tools.ConfigCommand",
	"kafka-consumer-groups":     "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-console-consumer":    "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-console-producer":    "org.apache.kafka.tools.ConsoleProducer",
	"kafka-delete-records":      "org.apache.kafka.tools.DeleteRecordsCommand",
	"kafka-dump-log":            "org.apache.kafka.tools.DumpLogSegments",
	"kafka-features":            "org.apache.kafka.tools.FeatureCommand",
	"kafka-get-offsets":         "org.apache.kafka.tools.GetOffsetShell",
	"kafka-groups":              "org.apache.kafka.tools.GroupsCommand",
	"kafka-leader-election":     "org.apache.kafka.tools.LeaderElectionCommand",
	"kafka-log-dirs":            "org.apache.kafka.tools.LogDirsCommand",
	"kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
	"kafka-metadata-quorum":     "org.apache.kafka.tools.MetadataQuorumCommand",
	"kafka-producer-perf-test":  "org.apache.kafka.tools.ProducerPerformance",
	"kafka-topics":              "org.apache.kafka.tools.TopicCommand",
	"kafka-transactions":        "org.apache.kafka.tools.TransactionsCommand",
}

// Result is what one run of a tool left.
type Result struct {
	ExitCode       int
	Stdout, Stderr string
}

// Runner runs tools one after the other in one JVM, since starting one costs more than most tools do.
type Runner struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// NewRunner starts the JVM with the jars of the pom in javaDir.
func NewRunner(ctx context.Context, javaDir string) (*Runner, error) {
	libs, err := cache.Maven(ctx, javaDir)
	if err != nil {
		return nil, err
	}
	classes, err := cache.Javac(ctx, libs, filepath.Join(javaDir, "ToolRunner.java"))
	if err != nil {
		return nil, err
	}
	r := &Runner{cmd: exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC",
		"-Dlog4j2.configurationFile="+filepath.Join(javaDir, "log4j2.properties"),
		"-cp", classes+":"+filepath.Join(libs, "*"), "ToolRunner")}
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.stdout = bufio.NewReader(stdout)
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the tool runner: %w", err)
	}
	return r, nil
}

// Run runs one tool by the name of its script, with stdin as its input.
func (r *Runner) Run(name, stdin string, args ...string) (Result, error) {
	class, ok := classes[name]
	if !ok {
		return Result{}, fmt.Errorf("no tool named %s", name)
	}
	var line bytes.Buffer
	for i, word := range append([]string{class, stdin}, args...) {
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(base64.StdEncoding.EncodeToString([]byte(word)))
	}
	line.WriteByte('\n')
	if _, err := r.stdin.Write(line.Bytes()); err != nil {
		return Result{}, fmt.Errorf("tool runner: %w", err)
	}
	answer, err := r.stdout.ReadString('\n')
	if err != nil {
		return Result{}, fmt.Errorf("tool runner, %s: %w", name, err)
	}
	return parse(strings.TrimSuffix(answer, "\n"))
}

func parse(answer string) (Result, error) {
	fields := strings.Split(answer, " ")
	if len(fields) != 3 {
		return Result{}, fmt.Errorf("tool runner answered %q", answer)
	}
	code, err := strconv.Atoi(fields[0])
	if err != nil {
		return Result{}, fmt.Errorf("tool runner answered %q", answer)
	}
	out, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return Result{}, err
	}
	errOut, err := base64.StdEncoding.DecodeString(fields[2])
	return Result{ExitCode: code, Stdout: string(out), Stderr: string(errOut)}, err
}

// Close ends the JVM.
func (r *Runner) Close() error {
	if err := r.stdin.Close(); err != nil {
		return err
	}
	return r.cmd.Wait()
}
