package control

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// validator holds messages to the rules in the protos. It is made on first use:
// compiling the rules takes a while.
var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// check holds a message to its rules; nil is good. It is not for messages that
// hold a snapshot or resources: these are the business of snapshot.Compile.
func check(m proto.Message) error {
	if reflect.ValueOf(m).IsNil() {
		return nil
	}
	v, err := validator()
	if err != nil {
		return status.Errorf(codes.Internal, "rules of the messages: %v", err)
	}
	err = v.Validate(m)
	var bad *protovalidate.ValidationError
	if !errors.As(err, &bad) {
		return err
	}
	detail := &errdetails.BadRequest{}
	for _, violation := range bad.Violations {
		detail.FieldViolations = append(detail.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field:       protovalidate.FieldPathString(violation.Proto.GetField()),
			Description: violation.Proto.GetMessage(),
			Reason:      violation.Proto.GetRuleId(),
		})
	}
	first := detail.FieldViolations[0]
	s := status.New(codes.InvalidArgument, first.Field+": "+first.Description)
	if with, err := s.WithDetails(detail); err == nil {
		s = with
	}
	return s.Err()
}

// untilStopped ends with ctx, and with a cause when the server stops.
func untilStopped(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-stop:
			cancel(stopping())
		case <-done:
		}
	})
	return ctx, func() { close(done); cancel(context.Canceled); watch.Wait() }
}

// endOf is why a stream ends: the server's stop rather than the context's end.
func endOf(ctx context.Context, err error) error {
	if stop, ok := errors.AsType[*Refusal](context.Cause(ctx)); ok {
		return stop
	}
	return err
}
