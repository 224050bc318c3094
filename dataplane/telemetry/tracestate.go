package telemetry

import (
	"bytes"
	"slices"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
	"go.opentelemetry.io/otel/trace"
)

// Bounds of a tracestate (W3C Trace Context Level 2, section 3.3.1).
const (
	maxStateMembers = 32
	maxStateKey     = 256
	maxStateTenant  = 241 // of a key with a system
	maxStateSystem  = 14
	maxStateValue   = 256
)

// validTracestate reports whether a tracestate can be read; its lines are joined
// with commas. One that cannot is not sent on: somebody behind may read something
// else in it. Empty members are allowed, and so are keys given twice, which
// whoever changes the list must mend.
func validTracestate(s []byte) bool {
	members := 0
	for more := true; more; {
		var member []byte
		member, s, more = bytes.Cut(s, []byte(","))
		if member = message.TrimSpace(member); len(member) == 0 {
			continue
		}
		key, value, ok := bytes.Cut(member, []byte("="))
		if members++; !ok || members > maxStateMembers || !validStateKey(key) || !validStateValue(value) {
			return false
		}
	}
	return true
}

// validStateKey checks a key. Level 2 allows "@" wherever a key goes on; Level 1
// has it once, between a tenant and a system, and that is what is used.
func validStateKey(key []byte) bool {
	tenant, system, multi := bytes.Cut(key, []byte("@"))
	if multi {
		return len(tenant) <= maxStateTenant && len(system) <= maxStateSystem &&
			validStateName(tenant) && validStateName(system) && !isDigit(system[0])
	}
	return len(key) <= maxStateKey && validStateName(key)
}

func validStateName(name []byte) bool {
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z', isDigit(c):
		case i > 0 && (c == '_' || c == '-' || c == '*' || c == '/'):
		default:
			return false
		}
	}
	return len(name) > 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// validStateValue checks a value without the white space around it.
func validStateValue(value []byte) bool {
	for _, c := range value {
		if c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return 0 < len(value) && len(value) <= maxStateValue
}

// spanState is a tracestate for spans. What OpenTelemetry does not take of it is
// left out: of a key that is given twice the first counts, and keys must be those of
// Level 1.
func spanState(s string) trace.TraceState {
	state, err := trace.ParseTraceState(s)
	if err == nil {
		return state
	}
	state = trace.TraceState{}
	for _, member := range slices.Backward(strings.Split(s, ",")) {
		key, value, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		if more, err := state.Insert(key, value); err == nil {
			state = more
		}
	}
	return state
}
