package sinktask

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestATaskThatIsGivenUpDoesNotWaitForItsCoordinator has nobody answer who coordinates the group while a task stops that has not joined it, and is given up.
func TestATaskThatIsGivenUpDoesNotWaitForItsCoordinator(t *testing.T) {
	f := newFixture(t, 1)
	silent, asked := make(chan struct{}), make(chan struct{}, 100)
	f.cluster.ControlKey(int16(kmsg.FindCoordinator), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		asked <- struct{}{}
		f.cluster.SleepControl(func() { <-silent })
		return nil, nil, false
	})
	t.Cleanup(func() { close(silent) })
	r := f.run()
	<-asked
	r.Stop()
	begun := time.Now()
	r.kill()
	if err := r.end(); err == nil {
		t.Error("a task that was given up has ended in good order")
	}
	if took := time.Since(begun); took > 3*leaveTimeout {
		t.Errorf("it took %v", took)
	}
}
