package telemetry

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/dataplane/socket"
)

// The lengths that texts are cut to in a log line, in bytes before escaping.
const (
	lineTarget = 8192
	lineText   = 1024
)

// stamp keeps the text of a second, because many lines share it.
type stamp struct {
	second int64
	valid  bool
	json   bool
	text   []byte
}

// The layouts of the whole seconds; both logs are in UTC.
const (
	jsonSecond     = "2006-01-02T15:04:05"
	combinedSecond = "02/Jan/2006:15:04:05 +0000"
)

// of is the text of t's second in one of the two layouts.
func (s *stamp) of(t time.Time, json bool) []byte {
	if second := t.Unix(); !s.valid || second != s.second || json != s.json {
		layout := combinedSecond
		if json {
			layout = jsonSecond
		}
		s.second, s.valid, s.json = second, true, json
		s.text = t.UTC().AppendFormat(s.text[:0], layout)
	}
	return s.text
}

// appendJSONLine appends an exchange as one line of JSON. Bytes that are not
// UTF-8 become U+FFFD, controls are escaped: nothing a client sends can break
// the line or the JSON.
func appendJSONLine(b []byte, s *stamp, v *View, x *Exchange) []byte {
	at := socket.At(x.Started)
	b = append(b, `{"time":"`...)
	b = append(b, s.of(at, true)...)
	b = append(b, '.')
	b = appendPadded(b, int64(at.Nanosecond()/1000), 6)
	b = append(b, `Z","duration_ms":`...)
	b = appendMillis(b, x.Ended-x.Started)
	b = appendMember(b, "listener", x.Listener, lineText)
	b = appendRequest(b, x)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(x.Status), 10)
	b = append(b, `,"bytes_in":`...)
	b = strconv.AppendInt(b, x.BytesIn, 10)
	b = append(b, `,"bytes_out":`...)
	b = strconv.AppendInt(b, x.BytesOut, 10)
	b = appendChoice(b, x)
	b = appendTrace(b, &x.Trace)
	b = appendMember(b, "snapshot", v.version, lineText)
	return append(b, '}', '\n')
}

// appendRequest appends what the client asked.
func appendRequest(b []byte, x *Exchange) []byte {
	if x.Client.IsValid() {
		b = append(b, `,"client":"`...)
		b = x.Client.AppendTo(b)
		b = append(b, '"')
	}
	if x.Peer.IsValid() {
		b = append(b, `,"peer":"`...)
		b = x.Peer.AppendTo(b)
		b = append(b, '"')
	}
	b = appendMember(b, "method", x.MethodName, lineText)
	b = appendMember(b, "scheme", scheme(x), lineText)
	b = appendMember(b, "host", x.Host, lineText)
	b = appendMember(b, "path", x.Path, lineTarget)
	if len(x.Query) > 0 {
		b = appendMember(b, "query", x.Query, lineTarget)
	}
	b = append(b, `,"protocol":"HTTP/`...)
	b = appendVersion(b, x)
	b = append(b, '"')
	if len(x.Referer) > 0 {
		b = appendMember(b, "referer", x.Referer, lineText)
	}
	if len(x.UserAgent) > 0 {
		b = appendMember(b, "user_agent", x.UserAgent, lineText)
	}
	return b
}

// appendChoice appends where the request went and why.
func appendChoice(b []byte, x *Exchange) []byte {
	if x.Route != nil {
		b = appendMember(b, "route", x.Route.Name, lineText)
	}
	if x.Cluster != nil {
		b = appendMember(b, "cluster", x.Cluster.Name, lineText)
	}
	if a := x.decisive(); a != nil {
		b = appendMember(b, "endpoint", a.Endpoint, lineText)
		b = append(b, `,"attempts":`...)
		b = strconv.AppendInt(b, int64(x.Tries), 10)
		b = append(b, `,"upstream_ms":`...)
		b = appendMillis(b, a.Ended-a.Started)
	}
	if x.Tries > 1 {
		b = appendTries(b, x)
	}
	if x.NotRetried != "" {
		b = appendMember(b, "not_retried", x.NotRetried, lineText)
	}
	if x.Injected != "" {
		b = appendMember(b, "injected", x.Injected, lineText)
	}
	if x.Reason != "" {
		b = appendMember(b, "reason", x.Reason, lineText)
	}
	if x.Detail != "" {
		b = appendMember(b, "detail", x.Detail, lineText)
	}
	return b
}

// appendTries appends each attempt that is known, the first first: where it
// went, when it began after the request, how long it took and how it ended.
func appendTries(b []byte, x *Exchange) []byte {
	b = append(b, `,"tries":[`...)
	for n, a := range x.Each {
		if b[len(b)-1] == '}' {
			b = append(b, ',')
		}
		b = append(b, `{"n":`...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = appendMember(b, "endpoint", a.Endpoint, lineText)
		b = append(b, `,"after_ms":`...)
		b = appendMillis(b, a.Started-x.Started)
		b = append(b, `,"ms":`...)
		b = appendMillis(b, a.Ended-a.Started)
		b = appendMember(b, "outcome", a.Outcome(), lineText)
		if a.Hedge {
			b = append(b, `,"hedge":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendTrace(b []byte, t *Trace) []byte {
	if !t.Rewrite {
		return b
	}
	b = append(b, `,"trace_id":"`...)
	b = appendHex(b, t.ID[:])
	b = append(b, '"')
	if t.record {
		b = append(b, `,"span_id":"`...)
		b = appendHex(b, t.SpanID[:])
		b = append(b, '"')
	}
	return b
}

// appendCombinedLine appends an exchange in the combined format that most
// servers share. Quotes, backslashes and everything that is not printable ASCII
// are written as \xHH.
func appendCombinedLine(b []byte, s *stamp, x *Exchange) []byte {
	if x.Client.IsValid() {
		b = x.Client.AppendTo(b)
	} else {
		b = append(b, '-')
	}
	b = append(b, " - - ["...)
	b = append(b, s.of(socket.At(x.Started), false)...)
	b = append(b, `] "`...)
	b = appendRequestLine(b, x)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(x.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.BytesOut, 10)
	b = appendQuoted(b, x.Referer)
	b = appendQuoted(b, x.UserAgent)
	return append(b, '\n')
}

// appendRequestLine appends "-" for a head that could not be read.
func appendRequestLine(b []byte, x *Exchange) []byte {
	if len(x.MethodName)+len(x.Path) == 0 {
		return append(b, '-')
	}
	b = appendEscaped(b, x.MethodName, lineText)
	b = append(b, ' ')
	b = appendEscaped(b, x.Path, lineTarget)
	if len(x.Query) > 0 {
		b = append(b, '?')
		b = appendEscaped(b, x.Query, lineTarget)
	}
	b = append(b, " HTTP/"...)
	return appendVersion(b, x)
}

func appendQuoted(b, text []byte) []byte {
	if len(text) == 0 {
		return append(b, ` "-"`...)
	}
	b = append(b, ` "`...)
	b = appendEscaped(b, text, lineText)
	return append(b, '"')
}

const upperDigits = "0123456789ABCDEF"

func appendEscaped(b, text []byte, limit int) []byte {
	for _, c := range text[:min(len(text), limit)] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = append(b, '\\', 'x', upperDigits[c>>4], upperDigits[c&0x0f])
			continue
		}
		b = append(b, c)
	}
	return b
}

// appendMember appends a member to a JSON object that is not empty.
func appendMember[T string | []byte](b []byte, name string, value T, limit int) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':', '"')
	if len(value) > limit {
		value = value[:limit]
	}
	for i := 0; i < len(value); {
		c := value[i]
		if c >= utf8.RuneSelf {
			var n int
			b, n = appendRune(b, string(value[i:min(i+utf8.UTFMax, len(value))]))
			i += n
			continue
		}
		b = appendASCII(b, c)
		i++
	}
	return append(b, '"')
}

// appendRune appends the first rune of s, or U+FFFD for one byte that begins none.
func appendRune(b []byte, s string) ([]byte, int) {
	r, n := utf8.DecodeRuneInString(s)
	return utf8.AppendRune(b, r), n
}

func appendASCII(b []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(b, '\\', c)
	case c < ' ' || c == 0x7f:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0x0f])
	}
	return append(b, c)
}

// appendMillis appends nanoseconds as milliseconds with three decimals.
func appendMillis(b []byte, nanos int64) []byte {
	micros := max(nanos, 0) / int64(time.Microsecond)
	b = strconv.AppendInt(b, micros/1000, 10)
	b = append(b, '.')
	return appendPadded(b, micros%1000, 3)
}

// appendPadded appends the last width decimal digits of n, which is not negative.
func appendPadded(b []byte, n int64, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; width > 0; width-- {
		b[i] = byte('0' + n%10)
		n /= 10
		i--
	}
	return b
}

func appendVersion(b []byte, x *Exchange) []byte {
	b = strconv.AppendUint(b, uint64(x.Major), 10)
	if x.Major >= 2 {
		return b
	}
	b = append(b, '.')
	return strconv.AppendUint(b, uint64(x.Minor), 10)
}

func scheme(x *Exchange) string {
	if x.HTTPS {
		return "https"
	}
	return "http"
}
