package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
)

const kafkaClusterID = "Y2F1Y2UtY29uZm9ybWFuYw"

// StartKafka starts one node of Apache Kafka on a data folder, from the jars that the pom in javaDir names.
func StartKafka(ctx context.Context, javaDir string, o Options) (*Server, error) {
	libs, err := cache.Maven(ctx, javaDir)
	if err != nil {
		return nil, err
	}
	s := &Server{Kafka: true}
	if err := s.prepare(&o); err != nil {
		return nil, err
	}
	s.LogDir = filepath.Join(o.DataDir, "logs")
	port, err := testport.Claim(2)
	if err != nil {
		return nil, err
	}
	s.Bootstrap = fmt.Sprintf("127.0.0.1:%d", port)
	properties := filepath.Join(o.DataDir, "server.properties")
	if err := os.WriteFile(properties, []byte(kafkaProperties(s, port+1, o.Set)), 0o644); err != nil {
		return nil, err
	}
	java := func(class string, args ...string) *exec.Cmd {
		return exec.Command("java", append([]string{
			"-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.configurationFile=" + filepath.Join(javaDir, "log4j2.properties"),
			"-cp", filepath.Join(libs, "*"), class,
		}, args...)...)
	}
	if _, err := os.Stat(filepath.Join(s.LogDir, "meta.properties")); err != nil {
		format := java("kafka.tools.StorageTool", "format", "-t", kafkaClusterID, "-c", properties)
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format Kafka's storage: %w\n%s", err, out)
		}
	}
	s.cmd = java("kafka.Kafka", properties)
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := s.awaitListener(ctx); err != nil {
		return nil, errors.Join(err, s.Kill())
	}
	return s, nil
}

func kafkaProperties(s *Server, controllerPort int, set []string) string {
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"listeners=PLAINTEXT://" + s.Bootstrap + fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", controllerPort),
		"advertised.listeners=PLAINTEXT://" + s.Bootstrap,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", controllerPort),
		"log.dirs=" + s.LogDir,
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
	}, set...)
	return strings.Join(lines, "\n") + "\n"
}

// awaitListener returns once a connection is accepted; Kafka opens its listener when it can serve.
func (s *Server) awaitListener(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", s.Bootstrap)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing listens for Kafka: %w\n%s", err, s.Logged())
		}
		select {
		case <-s.exited:
			return fmt.Errorf("server of Kafka ended: %w\n%s", s.exitErr, s.Logged())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
