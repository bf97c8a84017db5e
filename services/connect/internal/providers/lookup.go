package providers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
)

const (
	allowedPaths = "allowed.paths"
	allowPattern = "allowlist.pattern"
	// maxFileBytes bounds what is read for a value.
	maxFileBytes = 1 << 20
)

// allowed are the folders and files that may be read, nil for all.
type allowed []string

// newAllowed takes absolute paths of what is there. The error goes on after the provider's name.
func newAllowed(text string) (allowed, error) {
	var paths allowed
	for _, path := range config.Elements(text) {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf(".param.%s has %q, which is no absolute path", allowedPaths, path)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf(".param.%s: %w", allowedPaths, err)
		}
		paths = append(paths, filepath.Clean(path))
	}
	return paths, nil
}

func (a allowed) check(path string) error {
	if path == "" {
		return errors.New("it has no path")
	}
	if a == nil {
		return nil
	}
	path = filepath.Clean(path)
	if slices.ContainsFunc(a, func(one string) bool {
		return path == one || strings.HasPrefix(path, strings.TrimSuffix(one, string(filepath.Separator))+string(filepath.Separator))
	}) {
		return nil
	}
	return fmt.Errorf("%s of the provider do not have %s", allowedPaths, path)
}

// readFile reads a file, and no pipe or device, that is not larger than values should be.
func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxFileBytes:
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return string(b), nil
}

// files is FileConfigProvider: the path is of a .properties file.
type files struct{ allowed allowed }

func (p files) value(path, key string, read cache) (string, error) {
	if err := p.allowed.check(path); err != nil {
		return "", err
	}
	entries, ok := read[path]
	if !ok {
		text, err := readFile(path)
		if err != nil {
			return "", err
		}
		if entries, err = config.ParseProperties(text); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		read[path] = entries
	}
	value, ok := entries[key]
	if !ok {
		return "", fmt.Errorf("there is no key %q in %s", key, path)
	}
	return value, nil
}

// directories is DirectoryConfigProvider: the path is of a folder, the key the name of a file, whose whole text is the value.
type directories struct{ allowed allowed }

func (p directories) value(path, key string, _ cache) (string, error) {
	if err := p.allowed.check(path); err != nil {
		return "", err
	}
	if key != filepath.Base(key) || key == "." || key == ".." {
		return "", fmt.Errorf("%q is no name of a file", key)
	}
	return readFile(filepath.Join(path, key))
}

// environment is EnvVarConfigProvider: the key is the name of a variable.
type environment map[string]string

// newEnvironment keeps the variables that may be read. The error goes on after the provider's name.
func newEnvironment(params map[string]string, environ []string) (environment, error) {
	expression, ok := params[allowPattern]
	if !ok {
		expression = ".*"
	}
	pattern, err := javaregex.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf(".param.%s is %q: %w", allowPattern, expression, err)
	}
	e := environment{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && pattern.Matches(name) {
			e[name] = value
		}
	}
	return e, nil
}

func (e environment) value(path, key string, _ cache) (string, error) {
	if path != "" {
		return "", fmt.Errorf("variables have no path, this has %q", path)
	}
	value, ok := e[key]
	if !ok {
		return "", fmt.Errorf("there is no variable %s, or %s of the provider does not match it", key, allowPattern)
	}
	return value, nil
}
