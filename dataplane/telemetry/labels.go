package telemetry

import "github.com/headgate/headgate/dataplane/message"

// methodNames are the values of http.request.method.
var methodNames = [...]string{
	message.MethodNone: "_OTHER", message.MethodGet: "GET", message.MethodHead: "HEAD",
	message.MethodPost: "POST", message.MethodPut: "PUT", message.MethodDelete: "DELETE",
	message.MethodConnect: "CONNECT", message.MethodOptions: "OPTIONS", message.MethodTrace: "TRACE",
	message.MethodPatch: "PATCH", message.MethodOther: "_OTHER",
}

// otherMethod is the value of http.request.method for what is not common.
const otherMethod = otherName

// blame says who caused a failure.
type blame uint8

const (
	blameProxy blame = iota
	blameClient
	blameUpstream
)

// otherReason stands for every reason that is not listed.
const otherReason = otherName

// reasons are the values that a Reason may have without being counted as other:
// the error types of RFC 9209 section 2.3 and the words of ours for what the
// client did. Index 0 is no reason, 1 any other.
var reasons = [...]struct {
	name  string
	blame blame
}{
	{"", blameProxy},
	{otherReason, blameProxy},
	{"dns_timeout", blameUpstream},
	{"dns_error", blameUpstream},
	{"destination_not_found", blameProxy},
	{"destination_unavailable", blameUpstream},
	{"destination_ip_prohibited", blameProxy},
	{"destination_ip_unroutable", blameUpstream},
	{"connection_refused", blameUpstream},
	{"connection_terminated", blameUpstream},
	{"connection_timeout", blameUpstream},
	{"connection_read_timeout", blameUpstream},
	{"connection_write_timeout", blameUpstream},
	{"connection_limit_reached", blameProxy},
	{"tls_protocol_error", blameUpstream},
	{"tls_certificate_error", blameUpstream},
	{"tls_alert_received", blameUpstream},
	{"http_request_error", blameClient},
	{"http_request_denied", blameProxy},
	{"http_response_incomplete", blameUpstream},
	{"http_response_header_section_size", blameUpstream},
	{"http_response_header_size", blameUpstream},
	{"http_response_body_size", blameUpstream},
	{"http_response_trailer_section_size", blameUpstream},
	{"http_response_trailer_size", blameUpstream},
	{"http_response_transfer_coding", blameUpstream},
	{"http_response_content_coding", blameUpstream},
	{"http_response_timeout", blameUpstream},
	{"http_upgrade_failed", blameUpstream},
	{"http_protocol_error", blameUpstream},
	{"proxy_internal_response", blameProxy},
	{"proxy_internal_error", blameProxy},
	{"proxy_configuration_error", blameProxy},
	{"proxy_loop_detected", blameProxy},
	{"client_gone", blameClient},
	{"client_timeout", blameClient},
	{"client_error", blameClient},
	{"draining", blameProxy},
}

// Reasons lists every Reason that is counted under its own name.
func Reasons() []string {
	names := make([]string, 0, len(reasons))
	for _, r := range reasons[2:] {
		names = append(names, r.name)
	}
	return names
}

var reasonIndex = func() map[string]uint8 {
	index := make(map[string]uint8, len(reasons))
	for i, r := range reasons {
		index[r.name] = uint8(i)
	}
	return index
}()

// reasonOf is the index of a reason.
func reasonOf(reason string) uint8 {
	if reason == "" {
		return 0
	}
	if i, ok := reasonIndex[reason]; ok {
		return i
	}
	return 1
}

// statusOther is the status of every response outside of 100 to 599.
const statusOther = 600

func countedStatus(status int) int {
	if status == 0 || 100 <= status && status <= 599 {
		return status
	}
	return statusOther
}

// outcome is a method, a status and a reason as one comparable number: the
// labels of a duration besides its route or cluster.
type outcome uint32

func makeOutcome(m message.Method, status int, reason string) outcome {
	return outcome(countedMethod(m))<<24 | outcome(countedStatus(status))<<8 | outcome(reasonOf(reason))
}

// outcomeOverflow takes what comes after a route or cluster has shown
// maxOutcomes different outcomes.
const outcomeOverflow outcome = 1 << 31

func (o outcome) method() string { return methodNames[o>>24&0x0f] }
func (o outcome) status() int    { return int(o >> 8 & 0x3ff) }
func (o outcome) reason() string { return reasons[o&0xff].name }
