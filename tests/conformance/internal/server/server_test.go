package server

import (
	"strings"
	"testing"
)

const dump = `WARN something
2026-12-01 03:03:03
Full thread dump OpenJDK 64-Bit Server VM:

"connect-shutdown-hook" #24
	at org.eclipse.jetty.server.Server.join(Server.java:712)
	at org.apache.kafka.connect.runtime.Connect$ShutdownHook.run(Connect.java:117)

"C1 CompilerThread0" #6
   No compile task

`

// TestThreads wants of a JVM's threads those that run code of Kafka's, after what it logged.
func TestThreads(t *testing.T) {
	got := threads(dump)
	if !strings.HasPrefix(got, "WARN something") || !strings.Contains(got, lostHook) || strings.Contains(got, "Compiler") {
		t.Errorf("got %s", got)
	}
	if text := "no dump"; threads(text) != text {
		t.Errorf("got %s", threads(text))
	}
}
