package control

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// job is one Apply.
type job struct {
	request Request

	// Owned by the goroutine that calls Apply until the job is admitted, and
	// guarded by Applier.mu from then on.
	id         ticket
	next       *snapshot.Snapshot
	violations []snapshot.Violation // warnings only, if next is there
	against    *activation          // what diff and shrink compare with
	compared   bool
	diff       *controlv1.Diff
	shrink     string                 // "": it does not shrink too much
	validated  *controlv1.StateUpdate // written once; nil: not admitted

	ctx    context.Context // of prepare; ends when it is superseded
	cancel context.CancelCauseFunc

	// Written once, before done is closed.
	done   chan struct{}
	result *Result
	err    error
	final  *controlv1.StateUpdate
}

// observe tells the caller's observer, if there is one and something to tell.
func (j *job) observe(u *controlv1.StateUpdate) {
	if u != nil && j.request.Observe != nil {
		j.request.Observe(u)
	}
}

// compareWith fills in how the job differs from what is active.
func (j *job) compareWith(active *activation) {
	if j.compared && j.against == active {
		return
	}
	j.compared, j.against = true, active
	j.diff = j.next.DiffFrom(active.compiled())
	j.shrink = ""
	if shrinks, how := snapshot.Shrinks(active.compiled(), j.next); shrinks {
		j.shrink = how
	}
}

func (j *job) proposal() proposal {
	return proposal{
		id: j.id, digest: j.next.Digest, term: j.request.Term, base: j.request.BaseDigest,
		allowShrink: j.request.AllowShrink, shrink: j.shrink,
	}
}

// info is what is known of the snapshot so far.
func (j *job) info() *controlv1.SnapshotInfo {
	i := &controlv1.SnapshotInfo{
		Version: j.request.Version, Term: j.request.Term, Writer: j.request.Writer,
	}
	if i.Version == "" {
		i.Version = j.request.Snapshot.GetVersion()
	}
	if j.next != nil {
		i.Version, i.Digest = j.next.Version, j.next.Digest
	}
	return i
}

// run takes an admitted job through prepare, persist and commit. It is the only
// goroutine that does so at a time.
func (a *Applier) run(j *job) {
	stop := context.AfterFunc(a.life, func() { j.cancel(stopping()) })
	defer stop()
	active, err := a.activate(j)

	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.active = active
		a.degraded.keep(active.snapshot.Source)
		a.conclude(j, &Result{Info: active.info, Diff: j.diff, Warnings: j.violations}, nil)
	} else {
		a.conclude(j, nil, err)
	}
	a.endCommit()
	next := a.machine.finish(err == nil)
	if next == nil {
		return
	}
	if a.closed {
		a.conclude(a.jobs[next.id], nil, stopping())
		return
	}
	a.decide(a.jobs[next.id])
}

// activate is run without its bookkeeping.
func (a *Applier) activate(j *job) (*activation, error) {
	prepared, err := a.prepare(j)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	refusal := a.machine.seal()
	a.committing = true
	a.mu.Unlock()
	if refusal == nil && j.ctx.Err() != nil {
		refusal = stopping()
	}
	if refusal != nil {
		prepared.Abort()
		return nil, refusal
	}
	meta, err := a.persist(j)
	if err != nil {
		prepared.Abort()
		return nil, err
	}
	_, span := a.tracer.Start(j.ctx, "headgate.commit", trace.WithAttributes(
		attribute.Int64("headgate.snapshot.generation", int64(meta.Generation)),
	))
	defer span.End()
	a.events.setVersion(meta.Version)
	prepared.Commit(meta.Generation)
	return &activation{info: meta.info(), snapshot: j.next}, nil
}

// prepare lets the node make what it needs. A panic of the node's refuses the
// snapshot and is no end of what runs.
func (a *Applier) prepare(j *job) (p Prepared, err error) {
	timeout := fmt.Errorf("not warm after %v", a.prepareTimeout)
	ctx, cancel := context.WithTimeoutCause(j.ctx, a.prepareTimeout, timeout)
	defer cancel()
	ctx, span := a.tracer.Start(ctx, "headgate.prepare")
	defer func() {
		if v := recover(); v != nil {
			a.log.Error("prepare panicked", "panic", v, "stack", string(debug.Stack()))
			err = nodeRefused(fmt.Errorf("panic: %v", v))
		}
		endSpan(span, err)
	}()
	p, err = a.node.Prepare(ctx, j.next)
	if err == nil {
		return p, nil
	}
	if cause := context.Cause(ctx); errors.Is(err, ctx.Err()) && cause != nil {
		err = cause
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return nil, refusal
	}
	return nil, nodeRefused(err)
}

// persist makes the next generation durable.
func (a *Applier) persist(j *job) (meta Meta, err error) {
	_, span := a.tracer.Start(j.ctx, "headgate.persist")
	defer func() { endSpan(span, err) }()
	body := j.next.Encoded()
	span.SetAttributes(attribute.Int("headgate.snapshot.bytes", len(body)))
	meta = Meta{
		Generation: a.store.Last() + 1,
		Version:    j.next.Version, Digest: j.next.Digest, Resources: countResources(j.next.Source),
		Term: j.request.Term, Writer: j.request.Writer, Source: j.request.Source,
		Applied: time.Now().UTC(),
	}
	if err := a.store.Save(meta, body); err != nil {
		return meta, storeFailed(err)
	}
	return meta, nil
}

// unchanged concludes a job whose content is active. The caller holds mu.
func (a *Applier) unchanged(j *job) {
	a.validated(j)
	a.conclude(j, &Result{
		Info: a.active.info, Unchanged: true, Diff: &controlv1.Diff{}, Warnings: j.violations,
	}, nil)
}

// conclude gives a job its one end and tells of it; a second one does nothing.
// The caller holds mu.
func (a *Applier) conclude(j *job, result *Result, err error) {
	if j.final != nil {
		return
	}
	delete(a.jobs, j.id)
	j.result, j.err = result, err
	if err == nil {
		j.final = activeUpdate(result)
	} else {
		j.final = refusedUpdate(j, err)
	}
	a.publish(j.final)
	a.logState(j.final)
	cause := err
	if cause == nil {
		cause = context.Canceled
	}
	close(j.done)
	j.cancel(cause)
}

// brief is an error without its violations, of which there may be many.
func brief(err error) string {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Text
	}
	return err.Error()
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(otelcodes.Error, brief(err))
	}
	span.End()
}

// info is the metadata as it goes over the wire.
func (m Meta) info() *controlv1.SnapshotInfo {
	return &controlv1.SnapshotInfo{
		Version: m.Version, Digest: m.Digest, Generation: m.Generation,
		Term: m.Term, Writer: m.Writer, AppliedTime: timestamppb.New(m.Applied),
	}
}
