package proxy

// Reasons are the error types of RFC 9209 section 2.3, which Proxy-Status, logs
// and spans share, and a few words for what that list does not have.
const (
	reasonNoRoute        = "destination_not_found"
	reasonDNS            = "dns_error"
	reasonUnavailable    = "destination_unavailable"
	reasonRefused        = "connection_refused"
	reasonConnectTimeout = "connection_timeout"
	reasonTerminated     = "connection_terminated"
	reasonLimit          = "connection_limit_reached"
	reasonRead           = "connection_read_timeout"
	reasonWrite          = "connection_write_timeout"
	reasonTimeout        = "http_response_timeout"
	reasonIncomplete     = "http_response_incomplete"
	reasonProtocol       = "http_protocol_error"
	reasonUpgrade        = "http_upgrade_failed"
	reasonTLS            = "tls_protocol_error"
	reasonCertificate    = "tls_certificate_error"
	reasonAlert          = "tls_alert_received"
	reasonRequest        = "http_request_error"
	reasonDenied         = "http_request_denied"
	reasonTooLarge       = reasonRequest
	reasonConfiguration  = "proxy_configuration_error"
	reasonInternal       = "proxy_internal_error"
	reasonInjected       = "proxy_internal_response"

	// Not in RFC 9209.
	reasonClientGone = "client_gone"    // the client closed before its answer was complete; 499
	reasonClientSlow = "client_timeout" // 408
)

// statusClientGone is what is recorded when there was nobody left to answer.
const statusClientGone = 499
