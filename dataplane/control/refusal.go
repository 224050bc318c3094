package control

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// errorDomain is the domain of every google.rpc.ErrorInfo of this API.
const errorDomain = "headgate"

// Reason says in one word why something was not done. It is the reason of the
// google.rpc.ErrorInfo in the status.
type Reason string

// The reasons of a Refusal, each with its gRPC code.
const (
	ReasonStaleTerm    Reason = "STALE_TERM"           // FailedPrecondition: a writer with a higher term was seen
	ReasonBaseDigest   Reason = "BASE_DIGEST_MISMATCH" // Aborted: the base digest is not the active one
	ReasonInvalid      Reason = "INVALID_SNAPSHOT"     // InvalidArgument: with every violation
	ReasonShrink       Reason = "SHRINK_REFUSED"       // FailedPrecondition: needs allow_shrink
	ReasonSuperseded   Reason = "SUPERSEDED"           // Aborted: a newer one was admitted before this was active
	ReasonNode         Reason = "NODE_REFUSED"         // FailedPrecondition: a listener or cluster could not be made
	ReasonStore        Reason = "STORE_FAILED"         // Unavailable: the state directory could not be written
	ReasonStopping     Reason = "STOPPING"             // Unavailable: the process ends
	ReasonNoGeneration Reason = "NO_SUCH_GENERATION"   // NotFound
	ReasonCorrupt      Reason = "CORRUPT_GENERATION"   // DataLoss: its checksum does not match
	ReasonNoEndpoint   Reason = "NO_SUCH_ENDPOINT"     // NotFound
	ReasonLastEndpoint Reason = "LAST_ENDPOINT"        // FailedPrecondition: needs allow_last
	ReasonManyDrained  Reason = "TOO_MANY_DRAINED"     // ResourceExhausted
)

func (r Reason) code() codes.Code {
	switch r {
	case ReasonStaleTerm, ReasonShrink, ReasonNode, ReasonLastEndpoint:
		return codes.FailedPrecondition
	case ReasonBaseDigest, ReasonSuperseded:
		return codes.Aborted
	case ReasonInvalid:
		return codes.InvalidArgument
	case ReasonStore, ReasonStopping:
		return codes.Unavailable
	case ReasonNoGeneration, ReasonNoEndpoint:
		return codes.NotFound
	case ReasonManyDrained:
		return codes.ResourceExhausted
	case ReasonCorrupt:
		return codes.DataLoss
	}
	return codes.Internal
}

// Refusal is why an apply, or something else, was not done. What ran before runs on. It is a gRPC
// status with an ErrorInfo and, if there are violations, a BadRequest.
type Refusal struct {
	Reason     Reason
	Text       string
	Violations []snapshot.Violation
	Facts      map[string]string // what a program needs to go on; the ErrorInfo's metadata
	Err        error             // the cause, if there is one
}

func (r *Refusal) Error() string {
	lines := make([]string, 0, len(r.Violations)+1)
	lines = append(lines, r.Text)
	for _, v := range r.Violations {
		lines = append(lines, v.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// maxDetail bounds the violations in one status, in bytes. A status travels in
// the trailers, and several implementations of gRPC refuse header lists over
// 8 KiB; the details are there in base64.
const maxDetail = 4 << 10

// GRPCStatus is the refusal as it goes over the wire.
func (r *Refusal) GRPCStatus() *status.Status {
	bad, text := r.badRequest(), r.Text
	if n := len(bad.GetFieldViolations()); n < len(r.Violations) {
		text += fmt.Sprintf("; the first %d are listed here, Plan and Push list more", n)
	}
	s := status.New(r.Reason.code(), text)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: string(r.Reason), Domain: errorDomain, Metadata: r.Facts,
	}}
	if bad != nil {
		details = append(details, bad)
	}
	if with, err := s.WithDetails(details...); err == nil {
		return with
	}
	return s
}

// badRequest lists as many errors as fit, and at least one.
func (r *Refusal) badRequest() *errdetails.BadRequest {
	if len(r.Violations) == 0 {
		return nil
	}
	bad, size := &errdetails.BadRequest{}, 0
	for _, v := range r.Violations {
		f := &errdetails.BadRequest_FieldViolation{Field: v.Path, Description: v.Message, Reason: v.Rule}
		size += proto.Size(f)
		if size > maxDetail && len(bad.FieldViolations) > 0 {
			break
		}
		bad.FieldViolations = append(bad.FieldViolations, f)
	}
	return bad
}

func staleTerm(term, highest uint64) *Refusal {
	return &Refusal{
		Reason: ReasonStaleTerm,
		Text:   fmt.Sprintf("term %d is stale: a writer with term %d was seen", term, highest),
		Facts:  map[string]string{"term": strconv.FormatUint(term, 10), "highest_term": strconv.FormatUint(highest, 10)},
	}
}

func baseMismatch(base, active string) *Refusal {
	is := "nothing is active"
	if active != "" {
		is = "active is " + active
	}
	return &Refusal{
		Reason: ReasonBaseDigest,
		Text:   fmt.Sprintf("base digest %s is not the active one: %s", base, is),
		Facts:  map[string]string{"base_digest": base, "active_digest": active},
	}
}

func shrinkRefused(how string) *Refusal {
	return &Refusal{Reason: ReasonShrink, Text: how + "; allow_shrink is needed for that"}
}

func superseded() *Refusal {
	return &Refusal{Reason: ReasonSuperseded, Text: "a newer snapshot came before this one was active"}
}

func stopping() *Refusal {
	return &Refusal{Reason: ReasonStopping, Text: "the data plane is stopping"}
}

// invalid leaves the warnings out: they come again with a good one.
func invalid(list []snapshot.Violation) *Refusal {
	errs, _ := divide(list)
	text := "1 fault"
	if len(errs) != 1 {
		text = fmt.Sprintf("%d faults", len(errs))
	}
	return &Refusal{Reason: ReasonInvalid, Text: "the snapshot has " + text, Violations: errs}
}

func digestMismatch(want, got string) *Refusal {
	return &Refusal{
		Reason: ReasonInvalid,
		Text:   fmt.Sprintf("the snapshot has digest %s, not %s as expected", got, want),
		Facts:  map[string]string{"expected_digest": want, "digest": got},
	}
}

func storeFailed(err error) *Refusal {
	return &Refusal{Reason: ReasonStore, Text: "the state directory could not be written: " + err.Error(), Err: err}
}

// nodeRefused takes the field path from a FieldError.
func nodeRefused(err error) *Refusal {
	r := &Refusal{Reason: ReasonNode, Text: "the snapshot could not be prepared: " + err.Error(), Err: err}
	for _, f := range fieldErrors(err) {
		r.Violations = append(r.Violations, snapshot.Violation{Path: f.Path, Message: f.Err.Error(), Rule: "prepare"})
	}
	return r
}

// FieldError is a fault that only making the thing could show, an address in
// use for example. Several may be joined by errors.Join.
type FieldError struct {
	Path string // "listeners[0].address"
	Err  error
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldErrors(err error) []*FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	if f, ok := errors.AsType[*FieldError](err); ok {
		return []*FieldError{f}
	}
	return nil
}
