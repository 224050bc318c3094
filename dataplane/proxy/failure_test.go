package proxy

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// A server that finds the time of a call over before we do resets its stream: that is
// the end of its time, not a fault of the server. Before, it is a reset.
func TestCallThatItsServerEnds(t *testing.T) {
	cancelled := &http2.StreamError{Stream: 3, Code: http2.Cancel, Remote: true}
	for _, test := range []struct {
		name    string
		left    time.Duration // of the call's time; 0: it has none
		err     error
		status  int
		outcome upstream.Outcome
	}{
		{"in time", time.Hour, cancelled, 502, upstream.Reset},
		{"over", -time.Nanosecond, cancelled, 504, upstream.Timeout},
		{"no time", 0, cancelled, 502, upstream.Reset},
		{"over, with an error", -time.Nanosecond, &http2.StreamError{Stream: 3, Code: http2.InternalError, Remote: true}, 502, upstream.Reset},
		{"over, and refused", -time.Nanosecond, &http2.StreamError{Stream: 3, Code: http2.RefusedStream, Remote: true, NotProcessed: true}, 502, upstream.Ignored},
		{"over, and the connection is lost", -time.Nanosecond, &http2.ConnError{Code: http2.ConnectError, Err: errors.New("lost")}, 502, upstream.Reset},
	} {
		var x exchange
		x.attempt.facts = &telemetry.Attempt{}
		if test.left != 0 {
			x.callDeadline = socket.Now() + int64(test.left)
		}
		if fail := x.broken(test.err); fail.status != test.status || x.attempt.outcome != test.outcome || (fail.anew > 0) != (test.outcome == upstream.Ignored) {
			t.Errorf("%s: %+v, %v", test.name, fail, x.attempt.outcome)
		}
	}
}
