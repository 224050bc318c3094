package telemetry

import (
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// callStatuses are the statuses of gRPC by their codes.
var callStatuses = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// callStatus is the value of rpc.response.status_code; "" for -1, which is none.
func callStatus(code int) string {
	switch {
	case code < 0:
		return ""
	case code < len(callStatuses):
		return callStatuses[code]
	}
	return strconv.Itoa(code)
}

// callFault reports whether a status is an error of the server (OpenTelemetry
// conventions for gRPC, "Server").
func callFault(code int) bool {
	switch callStatus(code) {
	case "UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS":
		return true
	}
	return false
}

// callOf reports whether the status of the call was that of an attempt.
func (x *Exchange) callOf(a *Attempt) bool { return x.Call && a == x.decisive() && a.Status != 0 }

// appendCall describes a call of gRPC.
func appendCall(list []attribute.KeyValue, x *Exchange) []attribute.KeyValue {
	if !x.Call {
		return list
	}
	list = append(list, semconv.RPCSystemNameGRPC)
	if len(x.Path) > 1 {
		list = append(list, semconv.RPCMethod(text(x.Path[1:])))
	}
	if status := callStatus(x.CallCode); status != "" {
		list = append(list, semconv.RPCResponseStatusCode(status))
	}
	return list
}
