package configkeys

import (
	"path/filepath"

	"github.com/cauce-stream/cauce/libs/config"
)

// cauceKeys exist only in Cauce.
var cauceKeys = []config.Key{
	{Name: "data.dir", Type: config.String, Null: true,
		Doc: "Folder of everything the process keeps. Unset, cauce dev uses a temporary one, and other programs need the keys of single folders."},
	{Name: "admin.listener", Type: config.String, Default: "127.0.0.1:9400",
		Doc: "Address (host:port) of the admin HTTP server: health, metrics, profiles and log level; port 0 picks a free one, empty means none."},
	{Name: "log.level", Type: config.String, Default: "info", Valid: config.OneOf("debug", "info", "warn", "error"),
		Doc: "Least important level that is logged; the admin server changes it while the process runs."},
	{Name: "log.format", Type: config.String, Default: "auto", Valid: config.OneOf("auto", "json", "console"),
		Doc: "Form of the log lines; auto is console on a terminal and json elsewhere."},
	{Name: "memory.limit.bytes", Type: config.Long, Default: "-1", Valid: config.AtLeast(-1),
		Doc: "Memory in bytes that the process tries not to exceed (Go's soft limit); -1 means three quarters of what the machine or its control group has; 0 means no limit. GOMEMLIMIT overrides it."},
	{Name: "memory.gc.percent", Type: config.Int, Default: "100", Valid: config.AtLeast(-1),
		Doc: "Garbage that may accumulate, in percent of the live memory, before it is collected; -1 means that only the memory limit counts. GOGC overrides it."},
	{Name: "shutdown.timeout.ms", Type: config.Long, Default: "30000", Valid: config.AtLeast(1),
		Doc: "Milliseconds that a stopping process has to finish what it began."},
	{Name: "connection.max.in.flight.requests", Type: config.Int, Default: "100", Valid: config.AtLeast(1),
		Doc: "Requests of one connection that may be unanswered before the node stops reading further ones."},
	{Name: "connection.write.timeout.ms", Type: config.Long, Default: "30000", Valid: config.AtLeast(1),
		Doc: "Milliseconds without progress after which the connection of a client that does not read its answers is closed."},
	{Name: "produce.batch.validation", Type: config.String, Default: "strict", Valid: config.OneOf("strict", "relaxed"),
		Doc: "How compressed batches of producers are checked: strict decompresses them and looks at every record, relaxed trusts their headers."},
	{Name: "bus.servers", Type: config.List,
		Doc: "Addresses (nats://host:port) of the bus: the controllers', or those of a NATS cluster of your own."},
	{Name: "controller.bus.listener", Type: config.String, Default: "127.0.0.1:4222",
		Doc: "Address (host:port) at which a controller serves the bus; empty means that the bus is a NATS cluster of your own."},
	{Name: "controller.bus.route.listener", Type: config.String,
		Doc: "Address (host:port) at which the controllers' parts of the bus reach each other; empty means a single controller."},
	{Name: "controller.bus.routes", Type: config.List,
		Doc: "Addresses (nats://host:port) of the other controllers' controller.bus.route.listener."},
	{Name: "controller.listener", Type: config.String, Default: "127.0.0.1:9093",
		Doc: "Address (host:port) at which the controllers' quorum talks."},
	{Name: "controller.peers", Type: config.List,
		Doc: "All controllers of the quorum, this one included, as id@host:port; empty means a single controller."},
	{Name: "plugin.path", Type: config.List,
		Doc: "Folders that hold plugins."},
}

// NodeID returns the node's number: node.id, or broker.id when only that is configured.
func NodeID(v Values) int32 {
	if !v.Given("node.id") && v.Int("broker.id") >= 0 {
		return int32(v.Int("broker.id"))
	}
	return int32(v.Int("node.id"))
}

// LogDirs returns the node's log directories: log.dirs, else log.dir, else the
// folder log in data.dir; none when nothing is configured.
func LogDirs(v Values) []string {
	for _, name := range []string{"log.dirs", "log.dir"} {
		if dirs := v.List(name); dirs != nil {
			return dirs
		}
	}
	if dir, ok := v.Lookup("data.dir"); ok {
		return []string{filepath.Join(dir, "log")}
	}
	return nil
}

// MetadataDir returns the folder of the controller's metadata log:
// metadata.log.dir, else the folder metadata in data.dir; "" when nothing is configured.
func MetadataDir(v Values) string {
	if dir, ok := v.Lookup("metadata.log.dir"); ok {
		return dir
	}
	if dir, ok := v.Lookup("data.dir"); ok {
		return filepath.Join(dir, "metadata")
	}
	return ""
}
