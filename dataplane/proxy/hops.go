package proxy

import (
	"strconv"

	"github.com/headgate/headgate/dataplane/message"
)

var maxForwards = []byte("Max-Forwards")

// mayGoOn counts a request that says through how many hands it may go: it is
// answered here if this is the last, and goes on with one less (RFC 9110 section
// 7.6.2). That is asked of OPTIONS and TRACE alone. A value that is no number is
// left alone.
func (x *exchange) mayGoOn() bool {
	if x.req.Method != message.MethodOptions && x.req.Method != message.MethodTrace {
		return true
	}
	value, ok := x.req.Fields.Lookup(maxForwards)
	if !ok {
		return true
	}
	switch left, err := strconv.ParseUint(string(value), 10, 31); {
	case err != nil:
	case left > 0:
		x.hops = strconv.AppendUint(nil, left-1, 10)
	case x.req.Method == message.MethodTrace:
		x.refuse(405, reasonRequest, "TRACE is not answered here")
		return false
	default:
		x.say(&answer{status: 200})
		return false
	}
	return true
}

// isHops reports whether a field is written anew because it has been counted.
func (x *exchange) isHops(f *message.Field) bool {
	return x.hops != nil && message.EqualFold(f.Name, maxForwards)
}
