package plugins

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/process"
)

const sdkModule = "github.com/cauce-stream/cauce/libs/plugin"

//go:embed template
var templates embed.FS

// written are the files of a new plugin of a kind: their templates have the same names, with ".tmpl".
var written = map[string][]string{
	"assignor":  {"main.go", "assignor.go", "assignor_test.go", "README.md"},
	"connector": {"main.go", "source.go", "sink.go", "connector_test.go", "README.md"},
}

type creation struct {
	session *session.Session
	sdkPath string
	module  string
}

func create(s *session.Session) *cobra.Command {
	c := &creation{session: s}
	cmd := &cobra.Command{
		Use:   "new assignor|connector NAME",
		Short: "Write a plugin that builds and passes its tests, to begin with",
		Long: `Write ./NAME: a Go module with an assignor, or with a source and a sink, a test, the conformance kit and a README. It builds against the SDK
in --sdk-path, which is found by itself when this program lies in bin/ of a checkout of Cauce; the module replaces the SDK
by that folder. Without one a released program has it built against the SDK published with it, which go mod tidy fetches;
for any other there is none.`,
		Example: `  cauce plugin new assignor tenant-aware
  cauce plugin test tenant-aware
  cauce plugin new connector weather`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return c.run(args[0], args[1]) },
	}
	cmd.Flags().StringVar(&c.sdkPath, "sdk-path", "", "build against the SDK in this `DIR`, libs/plugin of a checkout")
	cmd.Flags().StringVar(&c.module, "module", "", "the `PATH` of the Go module (default NAME)")
	return cmd
}

func (c *creation) run(kind, name string) error {
	switch {
	case written[kind] == nil:
		return exit.Usagef("a plugin of kind %q cannot be written, only an assignor or a connector", kind)
	case !plugin.ValidName(name+"-source") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-"):
		return exit.Usagef("name %q: 1 to 57 letters, digits, '.', '_' and '-' are allowed, and neither '.' nor '-' at the beginning", name)
	}
	if c.module == "" {
		c.module = name
	}
	sdk, err := c.sdk()
	if err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Exists, fmt.Errorf("./%s exists already", name))
	} else if err != nil {
		return err
	}
	if err := c.write(kind, name, sdk); err != nil {
		return err
	}
	steps := []string{"cauce plugin test " + name, "cauce plugin install " + name}
	if kind == "connector" {
		steps[0] += " --set topic=" + name
	}
	if sdk == "" {
		steps = append([]string{"(cd " + name + " && go mod tidy)"}, steps...)
	}
	_, err = fmt.Fprintf(c.session.Out, "wrote ./%s\nnext, after a look at %s:\n  %s\n", name, filepath.Join(name, "README.md"), strings.Join(steps, "\n  "))
	return err
}

// sdk returns the absolute folder of the SDK to build against, "" for the published one.
func (c *creation) sdk() (string, error) {
	if c.sdkPath != "" {
		if !isSDK(c.sdkPath) {
			return "", exit.Usagef("--sdk-path %s: it has no go.mod of %s", c.sdkPath, sdkModule)
		}
		return filepath.Abs(c.sdkPath)
	}
	if path := filepath.Join(filepath.Dir(defaultFolder()), "..", "libs", "plugin"); isSDK(path) {
		return filepath.Abs(path)
	}
	if !released.MatchString(process.Version) {
		return "", exit.Usagef("there is no SDK to build against: none is published for this program's version, %q, and it is not in bin/ of a checkout of Cauce; "+
			"name libs/plugin of a checkout with --sdk-path", process.Version)
	}
	return "", nil
}

// released is what the versions look like that an SDK is published for.
var released = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

func isSDK(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+sdkModule+"\n")
}

func (c *creation) write(kind, name, sdk string) error {
	for _, file := range written[kind] {
		if err := c.writeFile(name, file, path.Join("template", kind, file+".tmpl")); err != nil {
			return err
		}
	}
	if err := c.writeFile(name, ".gitignore", "template/gitignore.tmpl"); err != nil {
		return err
	}
	return c.writeModule(name, sdk)
}

func (c *creation) writeFile(name, file, from string) error {
	t, err := template.ParseFS(templates, from)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(name, file))
	if err != nil {
		return err
	}
	err = t.Execute(f, struct{ Name, Module string }{name, c.module})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+ v\S+)`)

// writeModule writes go.mod. Against an SDK at hand it takes over the SDK's requirements and checksums, so that the module
// builds at once and without a network; go mod tidy takes out those that are not needed.
func (c *creation) writeModule(name, sdk string) error {
	mod := "module " + c.module + "\n\ngo 1.26.0\n\nrequire " + sdkModule + " "
	if sdk == "" {
		return os.WriteFile(filepath.Join(name, "go.mod"), []byte(mod+"v"+process.Version+"\n"), 0o644)
	}
	mod += "v0.0.0\n\nreplace " + sdkModule + " => " + sdk + "\n\nrequire (\n"
	text, err := os.ReadFile(filepath.Join(sdk, "go.mod"))
	if err != nil {
		return err
	}
	for _, match := range requirement.FindAllStringSubmatch(string(text), -1) {
		mod += "\t" + match[1] + " // indirect\n"
	}
	sums, err := os.ReadFile(filepath.Join(sdk, "go.sum"))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(name, "go.mod"), []byte(mod+")\n"), 0o644),
		os.WriteFile(filepath.Join(name, "go.sum"), sums, 0o644))
}
