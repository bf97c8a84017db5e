package logfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const written = "../testdata/kafka-4.3.1/dumped-0"

// TestFaultsAreNamed breaks one file of a healthy partition at a time.
func TestFaultsAreNamed(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b[at] ^= 0x40
			return b
		}
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	text := func(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }
	tests := []struct {
		name, file string
		change     func([]byte) []byte
		want       []string
	}{
		{"healthy", "00000000000000000003.log", func(b []byte) []byte { return b }, nil},
		{"flipped bit in a record", "00000000000000000003.log", flip(270 + 80), []string{"00000000000000000003.log: at 270: batch 8-10: "}},
		{"flipped bit in a length", "00000000000000000000.log", flip(8), []string{"00000000000000000000.log: at 0: torn: "}},
		{"unknown magic", "00000000000000000000.log", flip(16), []string{"00000000000000000000.log: at 0: batch magic"}},
		{"torn batch", "00000000000000000003.log", cut(3), []string{
			"00000000000000000003.log: at 1156: torn: the batch has 127 bytes and the file 124 more",
			"00000000000000000003.index: offset 34: no batch begins at 1156",
			"00000000000000000003.timeindex: timestamp 1795988420186: the segment has no offset 34",
		}},
		{"torn header", "00000000000000000000.log", cut(100), []string{"at 0: torn"}},
		{"zeros at the end", "00000000000000000000.log", func(b []byte) []byte { return append(b, make([]byte, 100)...) }, []string{"at 114: 100 bytes to the end that begin with zeros"}},
		{"index position", "00000000000000000003.index", flip(7), []string{"offset 6: no batch begins at 14"}},
		{"index out of order", "00000000000000000003.index", func(b []byte) []byte { return append(b, b[:8]...) }, []string{"offset 6 at 78 does not come after offset 34 at 1156"}},
		{"torn index", "00000000000000000003.index", cut(3), []string{"5 bytes after the last whole entry"}},
		{"time index", "00000000000000000003.timeindex", flip(7), []string{"offset 3: its batch goes to timestamp"}},
		{"transaction index", "00000000000000000003.txnindex", flip(1), []string{"entry of version 64"}},
		{"snapshot CRC", "00000000000000000003.snapshot", flip(20), []string{"the CRC is "}},
		{"snapshot count", "00000000000000000003.snapshot", cut(1), []string{"the CRC is ", "1 entries take 46 bytes, but there are 45"}},
		{"snapshot version", "00000000000000000003.snapshot", text("?"), []string{"not a snapshot of version 1"}},
		{"epochs out of order", "leader-epoch-checkpoint", text("0\n2\n3 10\n2 20\n"), []string{"epoch 2 from 20 does not come after epoch 3 from 10"}},
		{"epoch count", "leader-epoch-checkpoint", text("0\n2\n3 10\n"), []string{`1 entries, but the second line says "2"`}},
		{"epoch words", "leader-epoch-checkpoint", text("0\n1\nx 10\n"), []string{`x 10: strconv.ParseInt: parsing "x"`}},
		{"checkpoint version", "leader-epoch-checkpoint", text("1\n0\n"), []string{"not a checkpoint of version 0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dumped-0")
			if err := os.CopyFS(dir, os.DirFS(written)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, test.file)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, test.change(content), 0o644); err != nil {
				t.Fatal(err)
			}
			faults := run(t, dir)
			for _, want := range test.want {
				if !strings.Contains(faults, want) {
					t.Errorf("the faults do not say %q:\n%s", want, faults)
				}
			}
			if len(test.want) == 0 && faults != "" {
				t.Errorf("faults in a healthy partition:\n%s", faults)
			}
		})
	}
}

func run(t *testing.T, paths ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := dumpCommand(&session.Session{Out: &out, Err: &out})
	cmd.SetArgs(append(paths, "--records"))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		return err.Error()
	}
	return ""
}

// FuzzDump feeds every kind of file to the dump, which may find fault but must neither panic nor hang.
func FuzzDump(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(written, "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(file), content)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if kindOf(name) == "" || strings.ContainsAny(name, "/\x00") || len(name) > 100 {
			t.Skip()
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, path)
		os.Remove(path)
	})
}

func TestSplitFolder(t *testing.T) {
	for name, want := range map[string]struct {
		topic     string
		partition int32
		ok        bool
	}{
		"orders-0":                  {"orders", 0, true},
		"a-b-12":                    {"a-b", 12, true},
		"orders":                    {"", 0, false},
		"-1":                        {"", 0, false},
		"orders-x":                  {"orders", 0, false},
		"orders-0.5f-delete":        {"orders-0.5f", 0, false},
		"orders-99999999999":        {"orders", 0, false},
		"__consumer_offsets-49":     {"__consumer_offsets", 49, true},
		"topic.with.dots_and-dash-": {"topic.with.dots_and-dash", 0, false},
	} {
		topic, partition, ok := splitFolder(name)
		if ok != want.ok || ok && (topic != want.topic || partition != want.partition) {
			t.Errorf("splitFolder(%q) = %q, %d, %v", name, topic, partition, ok)
		}
	}
}
