package worker

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestLevelsOfLoggers(t *testing.T) {
	root := zap.NewAtomicLevelAt(zap.InfoLevel)
	core, logs := observer.New(root)
	l := newLevels(root)
	log := zap.New(core).WithOptions(zap.WrapCore(l.wrap)).Named(connectLogger)
	orders, lines := log.Named("orders").With(zap.Int("task", 1)), log.Named("lines")
	written := func() (texts []string) {
		for _, one := range []*zap.Logger{log, orders, lines} {
			one.Debug("debug " + one.Name())
			one.Info("info " + one.Name())
		}
		for _, entry := range logs.TakeAll() {
			texts = append(texts, entry.Message)
		}
		return texts
	}
	for _, step := range []struct {
		logger, level string
		changed       []string
		written       []string
	}{
		{"root", "info", nil, []string{"info connect", "info connect.orders", "info connect.lines"}},
		{"connect.orders", "DEBUG", []string{"connect.orders"}, []string{"info connect", "debug connect.orders", "info connect.orders", "info connect.lines"}},
		{"org.example", "TRACE", []string{"org.example"}, []string{"info connect", "debug connect.orders", "info connect.orders", "info connect.lines"}},
		{"root", "ERROR", []string{"root", "connect.orders", "org.example"}, nil},
		{"connect.orders", "INFO", []string{"connect.orders"}, []string{"info connect.orders"}},
		{"connect", "INFO", []string{"connect"}, []string{"info connect", "info connect.orders", "info connect.lines"}},
		{"connect.lines", "OFF", []string{"connect.lines"}, []string{"info connect", "info connect.orders"}},
		{"connect.lines", "LOUD", nil, []string{"info connect", "info connect.orders"}},
	} {
		changed, err := l.set(step.logger, step.level)
		if err != nil || !slices.Equal(changed, step.changed) {
			t.Errorf("%s to %s: changed %v, %v", step.logger, step.level, changed, err)
		}
		if got := written(); !slices.Equal(got, step.written) {
			t.Errorf("%s is %s: %q was written", step.logger, step.level, got)
		}
	}
	all := l.all()
	if len(all) != 5 || all["org.example"].Level != "ERROR" || all["connect.lines"].Level != "OFF" || all["root"].Level != "ERROR" || all["connect"].LastModified == nil {
		t.Errorf("levels are %v", all)
	}
}

func TestLevelsAreBounded(t *testing.T) {
	l := newLevels(zap.NewAtomicLevel())
	for i := range maxLevels {
		if _, err := l.set(fmt.Sprint("logger", i), "INFO"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.set("logger0", "WARN"); err != nil {
		t.Errorf("a level that is set cannot be changed: %v", err)
	}
	if _, err := l.set("another", "INFO"); !errors.Is(err, errTooManyLevels) {
		t.Errorf("one more: %v", err)
	}
}
