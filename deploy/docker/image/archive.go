package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// builder makes images that are the same to the byte for the same files, settings and time.
type builder struct {
	files   string    // folder that stands for / of the stage that is copied from
	prefix  string    // of the paths copied from, which files stands for: "/files"
	created time.Time // of the images and of every file in them
	arch    string    // as Go spells it
}

// layer is one uncompressed tar archive, kept in memory.
type layer struct {
	tar    []byte
	digest string // SHA-256 of tar in hexadecimal
}

// imageConfig is the image specification's configuration: its hash is the image's id.
type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       config    `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
	History      []history `json:"history"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// manifest is the table of contents that `docker load` reads.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// write writes the image of a stage under the name tag, in the form that `docker load` reads.
func (b builder) write(w io.Writer, s *stage, tag string) error {
	image := imageConfig{Created: b.created, Architecture: b.arch, OS: "linux", Config: s.config, RootFS: rootFS{Type: "layers"}}
	var layers []layer
	for _, step := range s.copies {
		l, err := b.layer(step)
		if err != nil {
			return err
		}
		layers = append(layers, l)
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, "sha256:"+l.digest)
		image.History = append(image.History, history{b.created, "COPY " + step.from + " " + step.to})
	}
	text, err := json.Marshal(image)
	if err != nil {
		return err
	}
	id := sum(text)
	m := manifest{Config: id + ".json", RepoTags: []string{tag}}
	archive := tar.NewWriter(w)
	written := map[string]bool{}
	for _, l := range layers {
		name := l.digest + "/layer.tar"
		m.Layers = append(m.Layers, name)
		if written[name] {
			continue
		}
		written[name] = true
		if err := b.add(archive, name, l.tar); err != nil {
			return err
		}
	}
	if err := b.add(archive, m.Config, text); err != nil {
		return err
	}
	contents, err := json.Marshal([]manifest{m})
	if err != nil {
		return err
	}
	if err := b.add(archive, "manifest.json", contents); err != nil {
		return err
	}
	return archive.Close()
}

func (b builder) add(archive *tar.Writer, name string, text []byte) error {
	header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: b.created, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

// layer is the archive of one COPY: a file, or the contents of a folder.
func (b builder) layer(step copyStep) (layer, error) {
	inside, ok := strings.CutPrefix(step.from, b.prefix+"/")
	if !ok {
		return layer{}, fmt.Errorf("%s is not below %s", step.from, b.prefix)
	}
	var text bytes.Buffer
	archive := tar.NewWriter(&text)
	// Folders on the way belong to root, as the builder of Docker makes them.
	for _, parent := range parents(step.to) {
		if err := b.addEntry(archive, parent, copyStep{}, 0o755|fs.ModeDir, ""); err != nil {
			return layer{}, err
		}
	}
	from := filepath.Join(b.files, filepath.FromSlash(inside))
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		to := path.Join(step.to, filepath.ToSlash(relative))
		if to == "/" {
			return nil // is there
		}
		return b.addEntry(archive, to, step, info.Mode(), name)
	})
	if err != nil {
		return layer{}, err
	}
	if err := archive.Close(); err != nil {
		return layer{}, err
	}
	return layer{text.Bytes(), sum(text.Bytes())}, nil
}

// addEntry adds a folder, or the file at source.
func (b builder) addEntry(archive *tar.Writer, name string, owner copyStep, mode fs.FileMode, source string) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(name, "/"), Mode: int64(mode.Perm()), Uid: owner.uid, Gid: owner.gid, ModTime: b.created, Format: tar.FormatPAX,
	}
	if mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	switch {
	case mode.IsDir():
		header.Typeflag = tar.TypeDir
		header.Name += "/"
		return archive.WriteHeader(header)
	case !mode.IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", source)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(text))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(text)
	return err
}

// parents are the folders above an absolute path, the topmost first, without the root.
func parents(name string) []string {
	var above []string
	for folder := path.Dir(name); folder != "/"; folder = path.Dir(folder) {
		above = append([]string{folder}, above...)
	}
	return above
}

func sum(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}
