package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stage is one image of a Dockerfile.
type stage struct {
	name   string
	copies []copyStep
	config config
}

// copyStep is COPY --from=STAGE [--chown=UID:GID] FROM TO, of an absolute path to an absolute path.
type copyStep struct {
	from, to string
	uid, gid int
}

// config is how a container of the image runs, as the image specification spells it.
type config struct {
	User         string              `json:",omitempty"`
	Env          []string            `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	WorkingDir   string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Volumes      map[string]struct{} `json:",omitempty"`
	Labels       map[string]string   `json:",omitempty"`
	Healthcheck  *healthcheck        `json:",omitempty"`
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration // nanoseconds in JSON
	Retries                        int
}

// parser reads the stages of a Dockerfile that begin with nothing, or with a stage that does. Other stages are built
// elsewhere: their instructions are skipped.
type parser struct {
	args   map[string]string // of the command line
	stages []*stage
	now    *stage            // nil while a stage is skipped
	scope  map[string]string // ARGs of the stage so far
}

// parse returns the stages that FROM scratch leads to. Errors name the line.
func parse(text string, args map[string]string) ([]*stage, error) {
	p := &parser{args: args}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		first := i
		logical := ""
		for ; i < len(lines); i++ {
			line := strings.TrimSpace(lines[i])
			if strings.HasPrefix(line, "#") && i > first {
				continue // a comment does not end what it stands in
			}
			if strings.HasPrefix(line, "#") {
				line = ""
			}
			rest, continues := strings.CutSuffix(line, `\`)
			logical += rest + " "
			if !continues {
				i++
				break
			}
		}
		if logical = strings.TrimSpace(logical); logical == "" {
			continue
		}
		instruction, rest, _ := strings.Cut(logical, " ")
		if err := p.step(strings.ToUpper(instruction), strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", first+1, instruction, err)
		}
	}
	return p.stages, nil
}

func (p *parser) step(instruction, rest string) error {
	if instruction == "FROM" {
		return p.begin(strings.Fields(rest))
	}
	if p.now == nil {
		return nil
	}
	if instruction == "ARG" {
		name, value, _ := strings.Cut(rest, "=")
		if given, ok := p.args[name]; ok {
			value = given
		}
		p.scope[name] = value
		return nil
	}
	rest = os.Expand(rest, func(name string) string { return p.scope[name] })
	c := &p.now.config
	switch instruction {
	case "COPY":
		return p.copy(strings.Fields(rest))
	case "USER":
		c.User = rest
	case "WORKDIR":
		c.WorkingDir = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &c.Entrypoint)
	case "EXPOSE":
		for _, port := range strings.Fields(rest) {
			c.ExposedPorts = with(c.ExposedPorts, port+"/tcp", struct{}{})
		}
	case "VOLUME":
		var folders []string
		if err := json.Unmarshal([]byte(rest), &folders); err != nil {
			return err
		}
		for _, folder := range folders {
			c.Volumes = with(c.Volumes, folder, struct{}{})
		}
	case "ENV":
		return pairs(rest, func(name, value string) { c.Env = append(c.Env[:len(c.Env):len(c.Env)], name+"="+value) })
	case "LABEL":
		return pairs(rest, func(name, value string) { c.Labels = with(c.Labels, name, value) })
	case "HEALTHCHECK":
		check, err := parseHealthcheck(rest)
		c.Healthcheck = check
		return err
	default:
		return fmt.Errorf("not an instruction that is understood here")
	}
	return nil
}

// begin starts a stage: FROM PARENT [AS NAME].
func (p *parser) begin(words []string) error {
	if len(words) != 3 || !strings.EqualFold(words[1], "AS") {
		return fmt.Errorf("not of the form PARENT AS NAME")
	}
	p.now, p.scope = nil, map[string]string{}
	if words[0] == "scratch" {
		p.now = &stage{}
	}
	for _, parent := range p.stages {
		if parent.name == words[0] {
			child := *parent
			child.copies = append([]copyStep(nil), parent.copies...)
			p.now = &child
		}
	}
	if p.now != nil {
		p.now.name = words[2]
		p.stages = append(p.stages, p.now)
	}
	return nil
}

func (p *parser) copy(words []string) error {
	var step copyStep
	var from string
	for ; len(words) > 0 && strings.HasPrefix(words[0], "--"); words = words[1:] {
		flag, value, _ := strings.Cut(words[0], "=")
		switch flag {
		case "--from":
			from = value
		case "--chown":
			if _, err := fmt.Sscanf(value, "%d:%d", &step.uid, &step.gid); err != nil {
				return fmt.Errorf("%s is not of the form UID:GID", words[0])
			}
		default:
			return fmt.Errorf("unknown flag %s", words[0])
		}
	}
	if from == "" || len(words) != 2 || !strings.HasPrefix(words[0], "/") || !strings.HasPrefix(words[1], "/") {
		return fmt.Errorf("not of the form --from=STAGE /path /path")
	}
	step.from, step.to = words[0], words[1]
	p.now.copies = append(p.now.copies, step)
	return nil
}

var pair = regexp.MustCompile(`^([A-Za-z0-9_.-]+)=("[^"]*"|[^\s"]*)(\s+|$)`)

// pairs calls each with every NAME=value or NAME="value" of text.
func pairs(text string, each func(name, value string)) error {
	for text != "" {
		m := pair.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%q is not of the form NAME=value", text)
		}
		each(m[1], strings.Trim(m[2], `"`))
		text = text[len(m[0]):]
	}
	return nil
}

func parseHealthcheck(text string) (*healthcheck, error) {
	flags, command, found := strings.Cut(text, "CMD ")
	if !found {
		return nil, fmt.Errorf("there is no CMD")
	}
	h := &healthcheck{}
	for _, word := range strings.Fields(flags) {
		flag, value, _ := strings.Cut(word, "=")
		var err error
		switch flag {
		case "--interval":
			h.Interval, err = time.ParseDuration(value)
		case "--timeout":
			h.Timeout, err = time.ParseDuration(value)
		case "--start-period":
			h.StartPeriod, err = time.ParseDuration(value)
		case "--retries":
			h.Retries, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown flag %s", flag)
		}
		if err != nil {
			return nil, err
		}
	}
	var words []string
	if err := json.Unmarshal([]byte(command), &words); err != nil {
		return nil, err
	}
	h.Test = append([]string{"CMD"}, words...)
	return h, nil
}

// with returns a copy of m with one more entry: a child stage shares its parent's map.
func with[V any](m map[string]V, key string, value V) map[string]V {
	larger := map[string]V{key: value}
	for k, v := range m {
		if k != key {
			larger[k] = v
		}
	}
	return larger
}
