package configkeys

import "path/filepath"

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
