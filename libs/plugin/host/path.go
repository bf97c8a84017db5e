package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PathBesideProgram is where plugins are unless someone says otherwise: the folder plugins beside the running program.
func PathBesideProgram() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{filepath.Join(filepath.Dir(program), "plugins")}, nil
}

// ParseChecksums reads checksums as FILE=SHA256 each; nil when there are none.
func ParseChecksums(pairs []string) (map[string]string, error) {
	var sums map[string]string
	for _, pair := range pairs {
		name, sum, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not FILE=SHA256", pair)
		}
		if sums == nil {
			sums = map[string]string{}
		}
		sums[strings.TrimSpace(name)] = strings.TrimSpace(sum)
	}
	return sums, nil
}
