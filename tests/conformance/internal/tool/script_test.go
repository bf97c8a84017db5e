package tool

import (
	"slices"
	"testing"
)

const sample = `# How topics look.
$ kafka-topics --describe --topic 'a b'
| sub /[0-9]+ ms/N ms/
| drop ^noise
Topic: a b	Leader: $NODE
took N ms
exit 0

$ kafka-topics --list
exit 1
`

func TestScriptSurvivesParsing(t *testing.T) {
	s, err := ParseScript(sample)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != sample {
		t.Errorf("got\n%s", got)
	}
	if got := s.Steps[0].Args(); !slices.Equal(got, []string{"kafka-topics", "--describe", "--topic", "a b"}) {
		t.Errorf("args %q", got)
	}
}

func TestOutputIsReducedToItsShape(t *testing.T) {
	s, err := ParseScript(sample)
	if err != nil {
		t.Fatal(err)
	}
	site := Site{Bootstrap: "h:1", Run: "abc", NodeID: 12}
	got, err := s.Steps[0].Output(site, Result{Stdout: "Topic: a b\tLeader: 12\nnoise\ntook 31 ms\n"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, s.Steps[0].Want) {
		t.Errorf("got %q, want %q", got, s.Steps[0].Want)
	}
}

func TestNormaliseKeepsWhatTheTestChose(t *testing.T) {
	site := Site{Bootstrap: "127.0.0.1:9092", LogDir: "/tmp/d", Run: "f00", NodeID: 1}
	for in, want := range map[string]string{
		"Topic: t-f00\tTopicId: GuClatcYS2WsSQaq2xwKLw":          "Topic: t-$RUN\tTopicId: ID",
		"CreateTime: 1700000000000 lastTimestamp: 1795988732647": "CreateTime: 1700000000000 lastTimestamp: MS",
		"Leader: 1\tReplicas: 12":                                "Leader: $NODE\tReplicas: 12",
		"/tmp/d/t-0 on 127.0.0.1:9092":                           "$LOGDIR/t-0 on $BOOTSTRAP",
	} {
		if got := site.Normalise([]string{in}); got[0] != want {
			t.Errorf("%q became %q, want %q", in, got[0], want)
		}
	}
}
