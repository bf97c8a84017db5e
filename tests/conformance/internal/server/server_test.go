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
	if !strings.HasPrefix(got, "WARN something") || !strings.Contains(got, "Server.join(") || strings.Contains(got, "Compiler") {
		t.Errorf("got %s", got)
	}
	if text := "no dump"; threads(text) != text {
		t.Errorf("got %s", threads(text))
	}
}

// TestLostHook wants the worker's fault told from that of a request that is not answered, which may be ours.
func TestLostHook(t *testing.T) {
	idle := dump + "\"qtp123-45\" #45\n\tat org.eclipse.jetty.util.thread.QueuedThreadPool$Runner.run(QueuedThreadPool.java:1)\n\n"
	busy := dump + "\"qtp123-45\" #45\n\tat org.apache.kafka.connect.runtime.rest.HerderRequestHandler.completeRequest(HerderRequestHandler.java:1)\n\n"
	for text, want := range map[string]bool{dump: true, idle: true, busy: false, "no dump": false} {
		if got := lostHook(threads(text)); got != want {
			t.Errorf("got %v of %s", got, text)
		}
	}
}
