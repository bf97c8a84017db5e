// Package cache fetches what the conformance suite runs (clients, Apache Kafka's tools) through the ordinary package
// clients and keeps it for later runs. Every entry is named after a hash of what it was made from, and appears whole
// or not at all.
package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir returns the folder that holds all entries: CAUCE_CONFORMANCE_CACHE, or cauce-conformance in the user's cache.
func Dir() (string, error) {
	if dir := os.Getenv("CAUCE_CONFORMANCE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(base, "cauce-conformance"), nil
}

// Maven returns the folder of all jars that the pom.xml in dir names.
func Maven(ctx context.Context, dir string) (string, error) {
	pom := filepath.Join(dir, "pom.xml")
	return entry("maven-"+filepath.Base(dir), []string{pom}, func(out string) error {
		return run(ctx, out, "mvn", "-q", "-B", "-ntp", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+out)
	})
}

// Javac returns the folder of the classes compiled from the sources against the jars of libs.
func Javac(ctx context.Context, libs string, sources ...string) (string, error) {
	return entry("classes-"+filepath.Base(libs), sources, func(out string) error {
		return run(ctx, out, "javac", append([]string{"-d", out, "-cp", filepath.Join(libs, "*")}, sources...)...)
	})
}

// Npm returns a folder whose node_modules holds what the package.json in dir asks for.
func Npm(ctx context.Context, dir string) (string, error) {
	manifest := filepath.Join(dir, "package.json")
	return entry("npm-"+filepath.Base(dir), []string{manifest}, func(out string) error {
		data, err := os.ReadFile(manifest)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "package.json"), data, 0o644); err != nil {
			return err
		}
		return run(ctx, out, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error")
	})
}

// Python returns an interpreter that finds what the requirements.txt in dir asks for.
func Python(ctx context.Context, dir string) (string, error) {
	requirements := filepath.Join(dir, "requirements.txt")
	out, err := entry("python-"+filepath.Base(dir), []string{requirements}, func(out string) error {
		if err := run(ctx, out, "python3", "-m", "venv", out); err != nil {
			return err
		}
		return run(ctx, out, filepath.Join(out, "bin", "python"), "-m", "pip", "install", "-q", "-r", requirements)
	})
	return filepath.Join(out, "bin", "python"), err
}

// Debian returns the path of a program, installing the package that brings it when it is missing.
func Debian(ctx context.Context, program, pkg string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	if err := run(ctx, os.TempDir(), "apt-get", "install", "-y", "-qq", pkg); err != nil {
		if err := run(ctx, os.TempDir(), "apt-get", "update", "-qq"); err != nil {
			return "", err
		}
		if err := run(ctx, os.TempDir(), "apt-get", "install", "-y", "-qq", pkg); err != nil {
			return "", err
		}
	}
	return exec.LookPath(program)
}

// entry returns the folder named after name and the content of inputs, made by fill when it is not there yet.
func entry(name string, inputs []string, fill func(out string) error) (string, error) {
	base, err := Dir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, path := range inputs {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("cache %s: %w", name, err)
		}
		sum.Write(data)
	}
	dir := filepath.Join(base, name+"-"+hex.EncodeToString(sum.Sum(nil)[:5]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("cache %s: %w", name, err)
	}
	tmp, err := os.MkdirTemp(base, name+"-partial-")
	if err != nil {
		return "", fmt.Errorf("cache %s: %w", name, err)
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", fmt.Errorf("cache %s: %w", name, err)
	}
	// Another run may have made the same entry meanwhile: either one serves.
	if err := os.Rename(tmp, dir); err != nil {
		if _, stat := os.Stat(dir); stat != nil {
			return "", fmt.Errorf("cache %s: %w", name, err)
		}
	}
	return dir, nil
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		tail := strings.TrimSpace(out.String())
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, tail[max(0, len(tail)-2000):])
	}
	return nil
}
