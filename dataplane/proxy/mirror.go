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
func (h *exchange) serveMirror(same bool) {
	defer h.cluster.EndMirror()
	defer h.branch.pipe.abandon()
	h.facts.Cluster = h.cluster.Config()
	h.describe()
	if !h.addLoad() {
		h.gen.View.MirrorOutcome(h.facts.Cluster, telemetry.MirrorRefused)
		h.recycle()
		return
	}
	fail := h.try(false)
	h.endLoad(fail)
	if fail == nil {
		fail = h.dropAnswer()
	}
	outcome := h.mirrored(fail)
	if same || outcome == telemetry.MirrorAbandoned {
		h.attempt.outcome = upstream.Ignored
	}
	h.branch.finish()
	if fail == nil {
		h.reuse()
	} else {
		h.noteFailure(fail)
		h.release()
	}
	h.facts.Ended = h.now
	h.gen.View.Mirrored(&h.facts, outcome)
	h.recycle()
}

// mirrored is what became of the copy.
func (h *exchange) mirrored(fail *failure) telemetry.MirrorOutcome {
	switch {
	case fail == nil:
		return telemetry.MirrorAnswered
	case h.branch.pipe.tooSlow() || fail.reason == reasonClientGone:
		return telemetry.MirrorAbandoned
	}
	return telemetry.MirrorFailed
}

// dropAnswer reads the body of the answer, within bounds.
func (h *exchange) dropAnswer() *failure {
	h.decoder.Reset(h.framing(), nil)
	limit := earlier(h.deadline, after(h.tick(), mirrorTime))
	from := h.attempt.from
	for dropped := 0; ; {
		for len(from.Buffered()) > 0 && !h.decoder.Done() {
			data, n, err := h.decoder.Next(from.Buffered())
			if err != nil {
				return h.badResponse(err)
			}
			from.Consume(n)
			dropped += len(data)
		}
		if h.decoder.Done() {
			return nil
		}
		if dropped > mirrorAnswer {
			h.resp.Close = true // what is left is not worth reading
			return nil
		}
		if err := h.dropMore(limit); err != nil {
			if errors.Is(err, io.EOF) && h.decoder.EOF() == nil {
				return nil
			}
			return h.bodyBroken(err)
		}
	}
}

// dropMore waits for the next piece of the answer.
func (h *exchange) dropMore(limit int64) error {
	err := errNothingYet
	for deadline := earlier(limit, h.idleDeadline()); err == errNothingYet; {
		err = h.wait(0, deadline)
	}
	h.tick()
	return err
}
