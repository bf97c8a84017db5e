package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
)

// Connect says how to start a Connect worker.
type Connect struct {
	// Bootstrap is where its brokers are.
	Bootstrap string
	// Group names the workers' group, and begins the names of their internal topics.
	Group string
	// Set holds further properties as key=value.
	Set []string
}

// properties are those of a worker of either kind that serves REST at a port.
func (c Connect) properties(port int) []string {
	return append([]string{
		"bootstrap.servers=" + c.Bootstrap,
		fmt.Sprintf("listeners=http://127.0.0.1:%d", port),
		"group.id=" + c.Group,
		"key.converter=org.apache.kafka.connect.json.JsonConverter",
		"value.converter=org.apache.kafka.connect.json.JsonConverter",
		"config.storage.topic=" + c.Group + "-configs", "config.storage.replication.factor=1",
		"offset.storage.topic=" + c.Group + "-offsets", "offset.storage.replication.factor=1", "offset.storage.partitions=3",
		"status.storage.topic=" + c.Group + "-status", "status.storage.replication.factor=1", "status.storage.partitions=3",
		"offset.flush.interval.ms=1000",
	}, c.Set...)
}

// StartKafkaConnect starts a distributed worker of Apache Kafka from the jars that the pom in dir names; logging is the configuration of log4j.
func StartKafkaConnect(ctx context.Context, dir, logging string, c Connect) (*Server, error) {
	libs, err := cache.Maven(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &Server{Kafka: true, Bootstrap: c.Bootstrap}
	o := Options{}
	if err := s.prepare(&o); err != nil {
		return nil, err
	}
	port, err := testport.Claim(1)
	if err != nil {
		return nil, err
	}
	properties := filepath.Join(o.DataDir, "worker.properties")
	lines := append(c.properties(port), "plugin.discovery=service_load")
	if err := os.WriteFile(properties, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	s.cmd = exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile="+logging,
		"-cp", filepath.Join(libs, "*"), "org.apache.kafka.connect.cli.ConnectDistributed", properties)
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, s.awaitConnect(ctx, port)
}

// StartCauceConnect starts a worker of Cauce: that of a cauce dev, whose own broker nobody uses.
func StartCauceConnect(ctx context.Context, root string, c Connect) (*Server, error) {
	port, err := testport.Claim(1)
	if err != nil {
		return nil, err
	}
	o := Options{}
	for _, kv := range c.properties(port) {
		o.Set = append(o.Set, "connect."+kv)
	}
	s, err := StartCauce(ctx, root, o)
	if err != nil {
		return nil, err
	}
	return s, s.awaitConnect(ctx, port)
}

// awaitConnect returns once the worker is in its group.
func (s *Server) awaitConnect(ctx context.Context, port int) error {
	s.Connect = fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := healthy(ctx, s.Connect)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the worker has ended: %w\n%s", s.exitErr, s.Logged())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the worker is not healthy: %w\n%s", err, s.Logged()), s.Kill())
		case <-tick.C:
		}
	}
}

func healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("health is %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}
