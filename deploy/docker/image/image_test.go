package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const dockerfile = `
FROM golang:1 AS build
RUN anything goes here
FROM scratch AS program
COPY --from=build /files/tmp /tmp
COPY --from=build --chown=7:8 /files/data /data
USER 7:8
ENV A=1
VOLUME ["/data"]
ARG VERSION=none
ARG COMMIT=none
LABEL version="${VERSION}" \
      # a comment between
      commit=${COMMIT}

FROM program AS cauce-a
COPY --from=build /files/a /opt/cauce/a
ENV B=2 C="three words"
EXPOSE 1 2
HEALTHCHECK --interval=5s --timeout=1s --start-period=1m --retries=2 CMD ["/opt/cauce/a", "healthcheck"]
ENTRYPOINT ["/opt/cauce/a"]

FROM program AS cauce-b
COPY --from=build /files/plugins /opt/cauce/plugins
LABEL own=b
WORKDIR /data
`

func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tmp": 0o777 | os.ModeSticky, "data": 0o755, "plugins": 0o755} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"a": "program", "plugins/one": "1", "plugins/two": "2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// build returns what run writes for the Dockerfile above, by file.
func build(t *testing.T) map[string][]byte {
	t.Helper()
	dir := files(t)
	file, out := filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(dockerfile), 0o644); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-dockerfile", file, "-files", dir, "-out", out, "-version", "1.2", "-created", "1000", "-tag", "t", "-arch", "arm64"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	built := map[string][]byte{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if built[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return built
}

// untar returns the entries of an archive in one line each, and the files' contents by name.
func untar(t *testing.T, text []byte) (lines []string, contents map[string][]byte) {
	t.Helper()
	contents = map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return lines, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		contents[header.Name] = body
		lines = append(lines, fmt.Sprintf("%s %o %d:%d %d", header.Name, header.Mode, header.Uid, header.Gid, header.ModTime.Unix()))
	}
}

func TestImagesHoldWhatTheStagesSay(t *testing.T) {
	built := build(t)
	if len(built) != 2 {
		t.Fatalf("%d images, want cauce-a and cauce-b alone", len(built))
	}
	_, archive := untar(t, built["cauce-a.tar"])
	var contents []manifest
	if err := json.Unmarshal(archive["manifest.json"], &contents); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(contents[0].RepoTags, " "); got != "cauce-a:t" {
		t.Errorf("tags are %s", got)
	}
	var entries []string
	for _, name := range contents[0].Layers {
		lines, _ := untar(t, archive[name])
		entries = append(entries, lines...)
	}
	want := []string{"tmp/ 1777 0:0 1000", "data/ 755 7:8 1000", "opt/ 755 0:0 1000", "opt/cauce/ 755 0:0 1000", "opt/cauce/a 755 0:0 1000"}
	if got := strings.Join(entries, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the layers hold\n%s", got)
	}
	var image imageConfig
	if err := json.Unmarshal(archive[contents[0].Config], &image); err != nil {
		t.Fatal(err)
	}
	c := image.Config
	if image.Architecture != "arm64" || image.Created != time.Unix(1000, 0).UTC() || len(image.RootFS.DiffIDs) != 3 {
		t.Errorf("the image is %+v", image)
	}
	got := fmt.Sprint(c.User, c.Env, c.Entrypoint, c.Volumes, c.ExposedPorts, c.Labels, *c.Healthcheck)
	if want := "7:8[A=1 B=2 C=three words] [/opt/cauce/a] map[/data:{}] map[1/tcp:{} 2/tcp:{}] map[commit:unknown version:1.2] " +
		"{[CMD /opt/cauce/a healthcheck] 5s 1s 1m0s 2}"; got != want {
		t.Errorf("containers run as\n%s, want\n%s", got, want)
	}
}

// TestChildrenDoNotChangeTheirParent would see entries of one image in another.
func TestChildrenDoNotChangeTheirParent(t *testing.T) {
	stages, err := parse(dockerfile, nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*stage{}
	for _, s := range stages {
		byName[s.name] = s
	}
	if a, b := byName["cauce-a"].config, byName["cauce-b"].config; len(a.Labels) != 2 || len(b.Labels) != 3 || len(b.Env) != 1 || b.Healthcheck != nil || b.WorkingDir != "/data" {
		t.Errorf("cauce-a is %+v, cauce-b %+v", a, b)
	}
}

func TestImagesAreReproducible(t *testing.T) {
	first, second := build(t), build(t)
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestWhatIsNotUnderstoodIsRefusedByLine(t *testing.T) {
	for line, want := range map[string]string{
		"RUN make":                        "line 2: RUN: not an instruction",
		"COPY a /a":                       "line 2: COPY: not of the form",
		"COPY --from=b --link /a /a":      "unknown flag --link",
		"COPY --from=b --chown=me /a /a":  "UID:GID",
		"FROM scratch":                    "PARENT AS NAME",
		"ENV A B":                         "NAME=value",
		`HEALTHCHECK --interval=x CMD []`: "x",
		"HEALTHCHECK NONE":                "there is no CMD",
		`ENTRYPOINT /bin/a`:               "ENTRYPOINT",
	} {
		_, err := parse("FROM scratch AS a\n"+line, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", line, err, want)
		}
	}
	b := builder{files: t.TempDir(), prefix: "/files"}
	for _, from := range []string{"/elsewhere/a", "/files/none"} {
		if err := b.write(io.Discard, &stage{copies: []copyStep{{from: from, to: "/a"}}}, "t"); err == nil {
			t.Errorf("%s is copied", from)
		}
	}
}

// TestTheProjectsOwnDockerfile keeps it within what is understood.
func TestTheProjectsOwnDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := parse(string(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		if s.name == "program" {
			continue
		}
		if s.config.User != "65532:65532" || s.config.Entrypoint == nil || s.config.Labels["org.opencontainers.image.title"] != s.name {
			t.Errorf("%s runs as %+v", s.name, s.config)
		}
		offersNothing := s.name == "cauce-demo" // it is a client
		if strings.HasPrefix(s.name, "cauce-") && !offersNothing && s.config.Healthcheck == nil {
			t.Errorf("%s has no health check", s.name)
		}
	}
	if len(stages) < 5 {
		t.Errorf("%d stages", len(stages))
	}
}
