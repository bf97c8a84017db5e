package process

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

func TestProgramPagesAreGivenBack(t *testing.T) {
	mapped := func() int {
		t.Helper()
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(text)
		if match == nil {
			t.Skip("the kernel does not tell pages of files from others")
		}
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := mapped()
	if err := dropProgramPages(); err != nil {
		t.Fatal(err)
	}
	if after := mapped(); after >= before {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
}

func TestOnlyWhatNobodyWritesIsGivenBack(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-00de0000 r-xp 00000000 fe:00 12 /bin/cauce\n":           true,
		"00de0000-0196f000 r--p 009e0000 fe:00 12 /bin/cauce\n":           true,
		"0196f000-019fe000 rw-p 0156f000 fe:00 12 /bin/cauce\n":           false,
		"00400000-00de0000 r-xp 00000000 fe:00 12 /lib/other\n":           false,
		"00400000-00de0000 r-xp 00000000 fe:00 12 /bin/cauce (deleted)\n": false,
		"019fe000-019fe000 r--p 00000000 fe:00 12 /bin/cauce\n":           false,
		"c000000000-c000400000 rw-p 00000000 00:00 0\n":                   false,
		"00z00000-00de0000 r-xp 00000000 fe:00 12 /bin/cauce\n":           false,
		"": false,
	} {
		if _, _, ok := readOnly(line, "/bin/cauce"); ok != want {
			t.Errorf("%q: %v", line, ok)
		}
	}
}
