package control

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Apply makes a snapshot active and returns once it is, or says why not with a
// *Refusal. If ctx ends before the snapshot is admitted, nothing happens; once
// it is admitted it goes on without its caller.
func (a *Applier) Apply(ctx context.Context, r Request) (*Result, error) {
	ctx, span := a.tracer.Start(ctx, "headgate.apply", trace.WithAttributes(
		attribute.String("headgate.writer", r.Writer),
		attribute.String("headgate.source", r.Source),
		attribute.Int64("headgate.term", int64(r.Term)),
	))
	j := &job{request: r, done: make(chan struct{})}
	a.state(j, controlv1.SnapshotState_SNAPSHOT_STATE_RECEIVED, nil)
	result, err := a.apply(ctx, j)
	defer func() { endSpan(span, err) }()
	if err != nil {
		return nil, err
	}
	span.SetAttributes(
		attribute.String("headgate.snapshot.version", result.Info.Version),
		attribute.String("headgate.snapshot.digest", result.Info.Digest),
		attribute.Int64("headgate.snapshot.generation", int64(result.Info.Generation)),
		attribute.Bool("headgate.unchanged", result.Unchanged),
	)
	return result, nil
}

// apply takes j through all steps. Whatever comes of it is told to the observer.
func (a *Applier) apply(ctx context.Context, j *job) (*Result, error) {
	awaited, err := a.submit(ctx, j)
	if err != nil {
		a.rejected(j, err)
		return nil, err
	}
	j.observe(j.validated)
	select {
	case <-awaited.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	j.observe(awaited.final)
	return awaited.result, awaited.err
}

// submit takes j through all that is done before it is admitted, and returns the
// job whose outcome is that of j. Only one is between its first check and its
// admission at a time, so that whoever holds the turn knows that nothing begins.
func (a *Applier) submit(ctx context.Context, j *job) (awaited *job, err error) {
	if err := a.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer a.endTurn()
	if err := a.enter(j); err != nil {
		return nil, err
	}
	if err := a.compile(ctx, j); err != nil {
		return nil, err
	}
	j.compareWith(a.current())
	return a.admit(ctx, j), nil
}

// takeTurn waits until nothing else is compiled, admitted or restored.
func (a *Applier) takeTurn(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Applier) endTurn() { <-a.turn }

// enter fences and compares, before any work is done.
func (a *Applier) enter(j *job) error {
	a.mu.Lock()
	refusal := a.machine.fence(j.request.Term)
	if refusal == nil {
		refusal = a.machine.compare(j.request.BaseDigest)
	}
	term := a.machine.term
	a.mu.Unlock()
	if err := a.store.SetTerm(term); err != nil {
		return storeFailed(err)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// compile fills in the compiled form, or returns every violation. The caller has
// the turn.
func (a *Applier) compile(ctx context.Context, j *job) error {
	_, span := a.tracer.Start(ctx, "headgate.compile")
	defer span.End()
	if j.request.Version != "" {
		j.request.Snapshot.Version = j.request.Version
	}
	compile := snapshot.CompileFrom
	if j.request.patched {
		compile = snapshot.CompilePatched
	}
	next, violations := compile(a.current().compiled(), j.request.Snapshot)
	if next == nil {
		j.violations = violations
		return invalid(violations)
	}
	j.next, j.violations = next, violations
	if want := j.request.ExpectedDigest; want != "" && want != next.Digest {
		return digestMismatch(want, next.Digest)
	}
	return nil
}

// admit lets the machine decide, and returns the job whose outcome is that of
// j: j itself, or one with the same content that is under way.
func (a *Applier) admit(ctx context.Context, j *job) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids++
	j.id = a.ids
	j.ctx, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if a.closed {
		a.conclude(j, nil, stopping())
		return j
	}
	return a.decide(j)
}

// decide does what the machine says. It is called again when j has waited. The
// caller holds mu.
func (a *Applier) decide(j *job) *job {
	j.compareWith(a.active)
	d := a.machine.admit(j.proposal())
	for _, id := range d.superseded {
		a.conclude(a.jobs[id], nil, superseded())
	}
	switch d.verdict {
	case verdictRefused:
		a.conclude(j, nil, d.refusal)
		return j
	case verdictUnchanged:
		a.unchanged(j)
		return j
	case verdictJoin:
		a.validated(j)
		return a.jobs[d.join]
	}
	a.validated(j)
	a.jobs[j.id] = j
	if d.verdict == verdictRun {
		a.running.Go(func() { a.run(j) })
	}
	return j
}

// Plan is what Apply would do.
type Plan struct {
	Base       *controlv1.SnapshotInfo // what is active; nil: nothing
	Digest     string                  // "" if there are errors
	Unchanged  bool
	Diff       *controlv1.Diff // nil if there are errors
	Violations []snapshot.Violation
	Warnings   []snapshot.Violation
}

// Plan checks what Apply would check and does nothing: no term is remembered
// and nothing is warmed. Violations are in the plan; all else that Apply would
// refuse is a *Refusal.
func (a *Applier) Plan(ctx context.Context, r Request) (*Plan, error) {
	j := &job{request: r}
	if err := a.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer a.endTurn()
	a.mu.Lock()
	machine, active := a.machine, a.active
	a.mu.Unlock()
	if refusal := machine.fence(r.Term); refusal != nil {
		return nil, refusal
	}
	if refusal := machine.compare(r.BaseDigest); refusal != nil {
		return nil, refusal
	}
	err := a.compile(ctx, j)
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Reason == ReasonInvalid {
		errs, warnings := divide(j.violations)
		return &Plan{Base: active.identity(), Violations: errs, Warnings: warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	j.compareWith(active)
	if j.shrink != "" && !r.AllowShrink {
		return nil, shrinkRefused(j.shrink)
	}
	return &Plan{
		Base: active.identity(), Digest: j.next.Digest, Diff: j.diff, Warnings: j.violations,
		Unchanged: j.next.Digest == machine.active,
	}, nil
}
