package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Script is a golden file: commands with what they print. A command is a line "$ NAME ARG…"; single quotes hold an
// argument together. Lines "| FILTER" below it reduce its output:
//
//	| grep RE        keep the lines that match
//	| drop RE        drop the lines that match
//	| sub /RE/TO/    replace every match by TO, which may name groups as $1
//	| split RE       begin a new line with every match
//	| sort           sort the lines
//	| uniq           drop repeated lines
//	| with stderr    add what went to stderr, without log lines and stack frames
//	| stdin TEXT     what the command reads, with \n and \t
//
// Then come the lines it must print and a line "exit N". Lines that begin with "#" above a
// command are comments.
type Script struct {
	Steps []Step
}

// Step is one command of a script.
type Step struct {
	Preamble []string // comments above the command
	Command  string
	Filters  []string
	Want     []string // the lines of output, "exit N" included
}

// Name is the step's tool or built-in command.
func (s Step) Name() string { return s.Args()[0] }

// Args are the words of the command.
func (s Step) Args() []string {
	var out []string
	for i, part := range strings.Split(s.Command, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// Stdin is what the command reads.
func (s Step) Stdin() string {
	for _, f := range s.Filters {
		if text, ok := strings.CutPrefix(f, "stdin "); ok {
			return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text)
		}
	}
	return ""
}

// ParseScript parses a golden file.
func ParseScript(text string) (Script, error) {
	var s Script
	var preamble []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		last := len(s.Steps) - 1
		open := last >= 0 && !s.Steps[last].complete()
		switch command, isCommand := strings.CutPrefix(line, "$ "); {
		case isCommand:
			s.Steps = append(s.Steps, Step{Preamble: preamble, Command: command})
			preamble = nil
		case open && len(s.Steps[last].Want) == 0 && strings.HasPrefix(line, "| "):
			s.Steps[last].Filters = append(s.Steps[last].Filters, line[2:])
		case open:
			s.Steps[last].Want = append(s.Steps[last].Want, line)
		case line == "":
		case strings.HasPrefix(line, "#"):
			preamble = append(preamble, line)
		default:
			return s, fmt.Errorf("line %q belongs to no command", line)
		}
	}
	return s, nil
}

func (s Step) complete() bool {
	return len(s.Want) > 0 && strings.HasPrefix(s.Want[len(s.Want)-1], "exit ")
}

// String returns the golden file's text.
func (s Script) String() string {
	var b strings.Builder
	for i, step := range s.Steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range step.Preamble {
			b.WriteString(line + "\n")
		}
		b.WriteString("$ " + step.Command + "\n")
		for _, f := range step.Filters {
			b.WriteString("| " + f + "\n")
		}
		for _, line := range step.Want {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// logNoise matches what a logger or a stack trace adds to stderr.
var logNoise = regexp.MustCompile(`^(\[|\s+at |Caused by: |\s+\.\.\. )`)

// Output reduces a result to the lines to compare: those of the step's filters, normalised.
func (s Step) Output(site Site, r Result) ([]string, error) {
	lines := splitLines(r.Stdout)
	for _, f := range s.Filters {
		name, arg, _ := strings.Cut(site.Expand(f), " ")
		switch name {
		case "stdin":
		case "with":
			errLines := slices.DeleteFunc(splitLines(r.Stderr), logNoise.MatchString)
			lines = append(lines, errLines...)
		case "sort":
			slices.Sort(lines)
		case "uniq":
			lines = slices.Compact(lines)
		case "grep", "drop":
			re, err := regexp.Compile(arg)
			if err != nil {
				return nil, err
			}
			lines = slices.DeleteFunc(lines, func(l string) bool { return re.MatchString(l) == (name == "drop") })
		case "split":
			re, err := regexp.Compile(arg)
			if err != nil {
				return nil, err
			}
			lines = splitLines(re.ReplaceAllString(strings.Join(lines, "\n"), "\n$0"))
		case "sub":
			parts := strings.Split(arg, arg[:1])
			if len(parts) != 4 {
				return nil, fmt.Errorf("filter %q is not /RE/TO/", f)
			}
			re, err := regexp.Compile(parts[1])
			if err != nil {
				return nil, err
			}
			for i := range lines {
				lines[i] = re.ReplaceAllString(lines[i], parts[2])
			}
		default:
			return nil, fmt.Errorf("unknown filter %q", f)
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return append(site.Normalise(lines), fmt.Sprintf("exit %d", r.ExitCode)), nil
}

func splitLines(text string) []string {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
