package ctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// usageError is a fault of the command line itself.
type usageError struct {
	path string // of the verb, such as "ctl apply"
	text string
}

func (e *usageError) Error() string { return e.text }

func usagef(cmd *cobra.Command, layout string, args ...any) error {
	return &usageError{path: cmd.CommandPath(), text: fmt.Sprintf(layout, args...)}
}

// codedError ends the program with a code of its own. A nil err means that all
// has been said.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// errSaid ends the program with code 1 when all has been said.
var errSaid = &codedError{code: exitFailed}

// callError is an answer of the control API that is not a success.
type callError struct {
	where destination
	err   error // carries a gRPC status
}

func (e *callError) Error() string { return e.words() }
func (e *callError) Unwrap() error { return e.err }

// failedCall names the place in the failure of a call. Errors that do not come
// from a call pass as they are.
func failedCall(d destination, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.FromContextError(err).Err()
	}
	return &callError{where: d, err: err}
}

// words is the failure in a line, without its details.
func (e *callError) words() string {
	s := status.Convert(e.err)
	switch {
	case s.Code() == codes.Unavailable && unanswered(s.Message()):
		return fmt.Sprintf("no data plane answers at %s (is it running? --target says where)", e.where.address)
	case s.Code() == codes.Unavailable && unreached(s.Message()) != "":
		return fmt.Sprintf("cannot reach %s: %s", e.where.address, unreached(s.Message()))
	case s.Code() == codes.DeadlineExceeded:
		return fmt.Sprintf("%s did not answer in time (--timeout says how long)", e.where.address)
	case s.Code() == codes.Canceled:
		return "interrupted"
	case s.Code() == codes.Unimplemented:
		return fmt.Sprintf("%s does not do this: %s", e.where.address, printable(s.Message()))
	case s.Code() == codes.Unauthenticated:
		return fmt.Sprintf("%s wants to know who you are: %s", e.where.address, printable(s.Message()))
	}
	return printable(s.Message())
}

// unanswered reports whether nobody was there to take the connection.
func unanswered(message string) bool {
	return strings.Contains(message, "connection refused") || strings.Contains(message, "no such file or directory")
}

// neverReached reports whether err is that of a connection that could not be
// made, and not of one that broke.
func neverReached(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && (unanswered(s.Message()) || unreached(s.Message()) != "")
}

// unreached is why no connection could be made, without the layers of grpc
// around it; "" if there was one.
func unreached(message string) string {
	_, cause, found := strings.Cut(message, `desc = "transport: `)
	if !found {
		return ""
	}
	cause = strings.TrimPrefix(cause, "Error while dialing: ")
	return printable(strings.TrimSuffix(cause, `"`))
}

// fieldViolations are the faults by field path that the details of err hold.
func fieldViolations(err error) []*errdetails.BadRequest_FieldViolation {
	var found []*errdetails.BadRequest_FieldViolation
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			found = append(found, bad.GetFieldViolations()...)
		}
	}
	return found
}

// reason is the machine's word for the failure, such as STALE_TERM, with what
// goes with it; "" if there is none.
func reason(err error) (string, map[string]string) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason(), info.GetMetadata()
		}
	}
	return "", nil
}

// report says on stderr why the program fails.
func (c *CLI) report(err error) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err == nil {
		return
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		c.say("error: %s\nSee '%s --help'.", usage.text, usage.path)
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	c.say("error: %v", err)
	c.reportDetails(err)
}

// reportDetails says what the details of a refused call hold.
func (c *CLI) reportDetails(err error) {
	var call *callError
	if !errors.As(err, &call) {
		return
	}
	for _, v := range fieldViolations(call.err) {
		c.say("  %s: %s", printable(v.GetField()), printable(v.GetDescription()))
	}
	if word, _ := reason(call.err); word != "" {
		if hint := hints[word]; hint != "" {
			c.say("hint: %s", hint)
		}
	}
}

// hints says what to do about a refusal, by the reason of its ErrorInfo.
var hints = map[string]string{
	"STALE_TERM":           "another writer has taken over with a higher term; --term says which one you hold",
	"BASE_DIGEST_MISMATCH": "what runs has changed since you looked; `ctl diff` shows how, then apply again",
	"SHRINK_REFUSED":       "if that is meant, apply again with --allow-shrink",
}
