package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/telemetry"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

// Exit codes of every program.
const (
	ExitOK      = 0
	ExitFailure = 1 // what the program did failed
	ExitUsage   = 2 // flags or configuration were refused; nothing was begun
)

// Env is what the run function of a program gets.
type Env struct {
	Values    config.Values
	Telemetry *telemetry.Telemetry
	// Admin is bound but not serving until the run function has been called;
	// nil when admin.listener is empty. Handlers may be added, checks to Telemetry.
	Admin *telemetry.Admin
}

// RunFunc is a program's work. It returns nil after ctx ended and everything was closed.
type RunFunc func(ctx context.Context, env Env) error

// Main is the main of a service: it parses the flags of the process, serves run
// until SIGTERM or SIGINT, and ends the process with an exit code.
func Main(program, summary string, run RunFunc) {
	os.Exit(Execute(program, summary, os.Args[1:], os.Stdout, os.Stderr, run))
}

// Execute is Main with everything passed in and the exit code returned.
func Execute(program, summary string, args []string, stdout, stderr io.Writer, run RunFunc) int {
	var flags Flags
	fs := pflag.NewFlagSet(program, pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.SortFlags = false
	fs.Usage = func() {
		fmt.Fprintf(stdout, "%s\n\nUsage: %s [flags]\n       %s healthcheck [flags]  exits 0 when the one that runs with these flags is ready\n\nFlags:\n%s",
			summary, program, program, fs.FlagUsages())
	}
	flags.AddTo(fs)
	version := fs.Bool("version", false, "print the version and exit")
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return ExitOK
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return ExitUsage
	case *version:
		fmt.Fprintln(stdout, VersionLine(program))
		return ExitOK
	case fs.NArg() > 1 || fs.NArg() == 1 && fs.Arg(0) != "healthcheck":
		fmt.Fprintf(stderr, "%s: takes flags, or flags and healthcheck: %s\n", program, fs.Arg(fs.NArg()-1))
		return ExitUsage
	}
	values, err := flags.Load(configkeys.Broker())
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return ExitUsage
	}
	ctx, stop := SignalContext(context.Background())
	defer stop()
	work := func() error { return Serve(ctx, program, values, run) }
	if fs.NArg() == 1 {
		work = func() error { return healthcheck(ctx, values) }
	}
	if err := work(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return ExitFailure
	}
	return ExitOK
}

// startTime is after how long a program has run through what it does once only.
const startTime = 20 * time.Second

// SignalContext returns a context that ends at SIGTERM or SIGINT; a second
// signal ends the process at once. A broken stdout or stderr no longer does.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(parent, syscall.SIGTERM, os.Interrupt)
	release := context.AfterFunc(ctx, cancel) // gives the second signal its default effect
	return ctx, func() { release(); cancel() }
}

// Serve prepares the process as values say, runs run with telemetry and the
// admin server around it, and returns when run has returned and everything is
// closed. That ctx ended is no error. When run outlives the end of ctx by
// shutdown.timeout.ms, Serve returns an error without waiting further.
func Serve(ctx context.Context, program string, values config.Values, run RunFunc) (err error) {
	t, err := telemetry.New(ctx, telemetry.Config{
		Service: program, Version: Version, Commit: Commit, NodeID: configkeys.NodeID(values),
		LogLevel: values.String("log.level"), LogFormat: values.String("log.format"),
		TraceRate: traceRate(values), SlowRequest: values.DurationMs("trace.slow.request.ms"),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTelemetry(ctx, t)) }()
	logStart(t.Log, program, values)
	setMemoryPolicy(values, t.Log)
	raiseFileLimit(t.Log)
	if err := shortenSlices(); err != nil {
		t.Log.Info("threads run in slices of the system's length", zap.Error(err))
	}
	started := time.AfterFunc(startTime, func() {
		if err := dropProgramPages(); err != nil {
			t.Log.Info("pages of the program that only its start needed stay in memory", zap.Error(err))
		}
	})
	defer started.Stop()

	env := Env{Values: values, Telemetry: t}
	if addr := values.String("admin.listener"); addr != "" {
		env.Admin = telemetry.NewAdmin(addr, t)
		if err := env.Admin.Listen(); err != nil {
			return err
		}
	}
	if err := runWithAdmin(ctx, env, run); err != nil {
		t.Log.Error("stopping after a failure", zap.Error(err))
		return err
	}
	t.Log.Info("stopped")
	return nil
}

// traceRate is trace.sampling.rate, -1 when it is left to the standard variables.
func traceRate(values config.Values) float64 {
	if !values.Given("trace.sampling.rate") {
		return -1
	}
	return values.Double("trace.sampling.rate")
}

// runWithAdmin runs both until run returns; a failing admin server ends run too.
func runWithAdmin(ctx context.Context, env Env, run RunFunc) error {
	runCtx, cancelRun := context.WithCancel(ctx)
	defer cancelRun()
	adminCtx, cancelAdmin := context.WithCancel(context.WithoutCancel(ctx))
	adminDone := make(chan error, 1)
	go func() {
		defer cancelRun()
		if env.Admin == nil {
			<-adminCtx.Done()
			adminDone <- nil
			return
		}
		adminDone <- env.Admin.Run(adminCtx)
	}()
	err := withDeadline(runCtx, env.Values.DurationMs("shutdown.timeout.ms"), func() error { return run(runCtx, env) })
	if errors.Is(err, context.Canceled) && runCtx.Err() != nil {
		err = nil
	}
	cancelAdmin()
	return errors.Join(err, <-adminDone)
}

// withDeadline returns what run returns, or an error when run has not returned
// that long after ctx ended.
func withDeadline(ctx context.Context, drain time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("not stopped %v after being told to", drain)
	}
}

const telemetryCloseTimeout = 5 * time.Second

func closeTelemetry(ctx context.Context, t *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryCloseTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}

func logStart(log *zap.Logger, program string, values config.Values) {
	configured := map[string]string{}
	for name, value := range values.All() {
		configured[name] = value
	}
	log.Info("starting", zap.String("program", program), zap.String("version", Version), zap.String("commit", Commit),
		zap.Int("pid", os.Getpid()), zap.Any("config", configured))
	if variables := values.PassedOver(); variables != nil {
		log.Warn("variables of Apache Kafka's image that name no key are passed over", zap.Strings("variables", variables))
	}
	if without := withoutEffect(values); without != nil {
		log.Warn("keys that have no effect in this version", zap.Strings("keys", without))
	}
}

// withoutEffect are the configured keys that no part of this version reads, with
// where they were configured.
func withoutEffect(values config.Values) []string {
	var keys []string
	for name := range values.All() {
		if configkeys.Unused(name) {
			keys = append(keys, fmt.Sprintf("%s (%s)", name, values.Source(name)))
		}
	}
	return keys
}
