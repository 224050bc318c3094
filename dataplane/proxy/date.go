package proxy

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// datesAnswer reports whether the upstream's answer is passed on with a Date of
// ours, since it came without one, or with one for this connection only (RFC 9110
// sections 6.6.1 and 7.6.1). A route that takes the field away wants none.
func (x *exchange) datesAnswer() bool {
	fields := &x.resp.Fields
	if x.resp.Status < 200 || x.route.response.dropsID(message.Date) {
		return false
	}
	return !fields.Has(message.Date) || nominates(fields) && fields.ConnectionNames(message.Date, message.Date.Bytes())
}

// httpDate is the date in the form of RFC 9110 section 5.6.7. The text is made once
// a second; now, a time of socket.Now that may be a little old, only tells whether
// that second is over, so the clock on the wall is not read for each answer.
func httpDate(now int64) []byte {
	if d := date.Load(); d != nil && now < d.until {
		return d.text
	}
	wall := time.Now()
	d := &dateText{
		text:  wall.UTC().AppendFormat(nil, "Mon, 02 Jan 2006 15:04:05 GMT"),
		until: socket.Now() + int64(time.Second) - int64(wall.Nanosecond()),
	}
	date.Store(d)
	return d.text
}

// dateText is the date up to a time of socket.Now.
type dateText struct {
	text  []byte
	until int64
}

var date atomic.Pointer[dateText]
