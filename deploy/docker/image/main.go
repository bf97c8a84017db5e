// Command image builds the stages of a Dockerfile that begin FROM scratch, out of files that were built on the host: no
// engine, no base image, and the same bytes for the same files. It understands the instructions that those stages of
// deploy/docker/Dockerfile use, and writes one archive for `docker load` for each stage called PREFIX or PREFIX-….
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	var (
		dockerfile = fs.String("dockerfile", "deploy/docker/Dockerfile", "`FILE` with the stages")
		files      = fs.String("files", "bin/image", "`DIR` that stands for -root of the stage that is copied from")
		root       = fs.String("root", "/files", "`PATH` that COPY names for -files")
		prefix     = fs.String("prefix", "cauce", "build the stages of this `NAME`, and those that begin with it and a hyphen")
		repository = fs.String("repository", "", "`PREFIX` of the images' names, such as registry.example.org/")
		tag        = fs.String("tag", "dev", "`TAG` of the images")
		version    = fs.String("version", "dev", "what the files are a version of, a label")
		commit     = fs.String("commit", "unknown", "what the files were built from, a label")
		created    = fs.Int64("created", 0, "time of everything, in `SECONDS` since 1970")
		arch       = fs.String("arch", runtime.GOARCH, "the files' architecture, as Go spells it")
		out        = fs.String("out", "bin/images", "`DIR` for the archives")
	)
	if err := fs.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*dockerfile)
	if err != nil {
		return err
	}
	stages, err := parse(string(text), map[string]string{"VERSION": *version, "COMMIT": *commit})
	if err != nil {
		return fmt.Errorf("%s: %w", *dockerfile, err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	b := builder{files: *files, prefix: *root, created: time.Unix(*created, 0).UTC(), arch: *arch}
	for _, s := range stages {
		if s.name != *prefix && !strings.HasPrefix(s.name, *prefix+"-") {
			continue
		}
		name := *repository + s.name + ":" + *tag
		var archive bytes.Buffer
		if err := b.write(&archive, s, name); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		file := filepath.Join(*out, s.name+".tar")
		if err := os.WriteFile(file, archive.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%-18s %6.1f MB  %s\n", s.name, float64(archive.Len())/1e6, name)
	}
	return nil
}
