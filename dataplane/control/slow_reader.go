package control

import (
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SlowReaderError says that events were written over before they were read.
type SlowReaderError struct {
	Next   uint64 // number of the event that was to be read
	Oldest uint64 // number of the oldest one kept
}

func (e *SlowReaderError) Error() string {
	return fmt.Sprintf("reader too slow: event %d is gone, the oldest kept is %d", e.Next, e.Oldest)
}

// GRPCStatus is RESOURCE_EXHAUSTED with an ErrorInfo that says where to resume.
func (e *SlowReaderError) GRPCStatus() *status.Status {
	s := status.New(codes.ResourceExhausted, e.Error())
	with, err := s.WithDetails(&errdetails.ErrorInfo{
		Reason: "SLOW_READER", Domain: errorDomain,
		Metadata: map[string]string{"next_sequence": strconv.FormatUint(e.Next, 10)},
	})
	if err != nil {
		return s
	}
	return with
}
