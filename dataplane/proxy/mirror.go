package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/dataplane/filter/sample"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// mirrorTo is where copies of a route's requests go, and which.
type mirrorTo struct {
	cluster *upstream.Cluster
	portion *sample.Portion
}

func newMirror(m *snapshot.Mirror, clusters []*upstream.Cluster) *mirrorTo {
	if m == nil {
		return nil
	}
	return &mirrorTo{
		cluster: clusters[m.Cluster.Index],
		portion: sample.New(m.Percent, sample.Golden, rand.Uint64()),
	}
}

// Bounds of what is read of a mirror's answer, so that its connection can be used
// again; beyond them it is closed.
const (
	mirrorAnswer = 1 << 20 // bytes
	mirrorTime   = 15 * time.Second
)

// mirror sends a copy of the request, if it is one of those that the route
// mirrors. It has the same head as the request, Host among it, and the same
// timeouts. A body that streams is copied as it is sent on: what the mirror does
// not take in time is not kept for it, and the copy is abandoned. It is tried
// once, and its answer is dropped.
func (x *exchange) mirror() {
	m := x.route.mirror
	if !m.portion.Takes() {
		return
	}
	if !m.cluster.BeginMirror() {
		x.gen.View.MirrorOutcome(m.cluster.Config(), telemetry.MirrorRefused)
		return
	}
	b := &branch{mirror: true}
	if !x.body.whole {
		b.pipe = newPipe(x.req.Body)
	}
	if !x.conn.engine.branches.begin(b) {
		m.cluster.EndMirror()
		return
	}
	h := x.branchOff(b)
	h.cluster = m.cluster
	h.req.Continue = false // nobody waits for a mirror's leave to send a body
	x.copy = b.pipe
	same := m.cluster == x.cluster
	h.runBranch(func() { h.serveMirror(same) }, func() {})
}

// serveMirror is the goroutine of a mirror. same says that its cluster is that of
// the request, which must not be judged by copies.
func (x *exchange) serveMirror(same bool) {
	defer x.cluster.EndMirror()
	defer x.branch.pipe.abandon()
	x.facts.Cluster = x.cluster.Config()
	x.describe()
	if !x.addLoad() {
		x.gen.View.MirrorOutcome(x.facts.Cluster, telemetry.MirrorRefused)
		x.recycle()
		return
	}
	fail := x.try(false)
	x.endLoad(fail)
	if fail == nil {
		fail = x.dropAnswer()
	}
	outcome := x.mirrored(fail)
	if same || outcome == telemetry.MirrorAbandoned {
		x.attempt.outcome = upstream.Ignored
	}
	x.branch.finish()
	if fail == nil {
		x.reuse()
	} else {
		x.noteFailure(fail)
		x.release()
	}
	x.facts.Ended = x.now
	x.gen.View.Mirrored(&x.facts, outcome)
	x.recycle()
}

// mirrored is what became of the copy.
func (x *exchange) mirrored(fail *failure) telemetry.MirrorOutcome {
	switch {
	case fail == nil:
		return telemetry.MirrorAnswered
	case x.branch.pipe.tooSlow() || fail.reason == reasonClientGone:
		return telemetry.MirrorAbandoned
	}
	return telemetry.MirrorFailed
}

// dropAnswer reads the body of the answer, within bounds.
func (x *exchange) dropAnswer() *failure {
	x.decoder.ResetAnswer(x.framing())
	limit := earlier(x.deadline, after(x.tick(), mirrorTime))
	from := x.attempt.from
	for dropped := 0; ; {
		for len(from.Buffered()) > 0 && !x.decoder.Done() {
			data, n, err := x.decoder.Next(from.Buffered())
			if err != nil {
				return x.badResponse(err)
			}
			from.Consume(n)
			dropped += len(data)
		}
		if x.decoder.Done() {
			return nil
		}
		if dropped > mirrorAnswer {
			x.resp.Close = true // what is left is not worth reading
			return nil
		}
		if err := x.dropMore(limit); err != nil {
			if errors.Is(err, io.EOF) && x.decoder.EOF() == nil {
				return nil
			}
			return x.bodyBroken(err)
		}
	}
}

// dropMore waits for the next piece of the answer.
func (x *exchange) dropMore(limit int64) error {
	err := errNothingYet
	for deadline := earlier(limit, x.idleDeadline()); err == errNothingYet; {
		err = x.wait(0, deadline)
	}
	x.tick()
	return err
}
