package snapshot

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// What a field that is left out means.
const (
	DefaultMaxHeaderBytes       = 64 << 10
	DefaultMaxHeaders           = 128
	DefaultMaxTargetBytes       = 8 << 10
	DefaultMaxConcurrentStreams = 128
	DefaultHeaderTimeout        = 10 * time.Second
	DefaultBodyIdleTimeout      = 60 * time.Second
	DefaultIdleTimeout          = 180 * time.Second
	DefaultDrainTimeout         = 30 * time.Second
	DefaultPanicThreshold       = 50
	DefaultDNSRefresh           = 5 * time.Second
	DefaultProbePath            = "/"
	DefaultProbeInterval        = 5 * time.Second
	DefaultProbeTimeout         = 2 * time.Second
	DefaultHealthyThreshold     = 1
	DefaultUnhealthyThreshold   = 2
	DefaultOutlierFailures      = 5
	DefaultEjectionTime         = 30 * time.Second
	DefaultMaxEjectionPercent   = 50
	DefaultMaxConnections       = 1024
	DefaultMaxPendingRequests   = 1024
	DefaultMinRequests          = 8
	DefaultConnectTimeout       = 3 * time.Second
	DefaultKeepAliveTimeout     = 60 * time.Second
	DefaultFirstByteTimeout     = 30 * time.Second
	DefaultForwardIdleTimeout   = 300 * time.Second
	DefaultRetryAttempts        = 1
	DefaultRetryOn              = RetryConnectFailure | RetryResetBeforeResponse
	DefaultRetryBackoff         = 25 * time.Millisecond
	DefaultRetryBudgetPercent   = 20
	DefaultHedgeMax             = 1
	DefaultPercent              = 100.0 // of mirror, fault.delay and fault.abort
	DefaultFaultStatus          = 503
	DefaultRedirectStatus       = 302
	DefaultRespondStatus        = 200
	DefaultContentType          = "text/plain; charset=utf-8"
	DefaultUpgrade              = "websocket"
	DefaultSampleRatio          = 0.01
	DefaultAccessLog            = "-"
	DefaultRecentRequests       = 10000
)

// number is an optional field as an int.
func number(p *uint32, absent int) int {
	if p == nil {
		return absent
	}
	return int(*p)
}

// orNumber is a field in which 0 is the same as absent.
func orNumber(n uint32, absent int) int {
	if n == 0 {
		return absent
	}
	return int(n)
}

// orString is a field in which "" is the same as absent.
func orString(s, absent string) string {
	if s == "" {
		return absent
	}
	return s
}

// duration is an optional duration. Its range is a rule of the proto; here it
// is only refused if it is no duration at all.
func duration(d *durationpb.Duration, absent time.Duration, path string, f *faults) time.Duration {
	if d == nil {
		return absent
	}
	if err := d.CheckValid(); err != nil {
		f.add(RuleDuration, path, "is not a duration")
	}
	return d.AsDuration()
}

// quote shows a user's string in a message, shortened if it is long.
func quote(s string) string {
	const longest = 200
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "..."
	}
	return strconv.Quote(s)
}
