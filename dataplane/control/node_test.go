package control

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverDir); dir != "" {
		runSaver(dir)
	}
	goleak.VerifyTestMain(m)
}

// fakeNode carries out nothing and remembers everything. A hold stops Prepare
// until the test lets it go on.
type fakeNode struct {
	mu        sync.Mutex
	live      *snapshot.Snapshot
	committed []uint64
	aborted   int
	prepared  int
	fail      error
	hold      chan struct{} // nil: Prepare returns at once
	entered   chan string   // the version, each time Prepare begins; may be nil
	status    *controlv1.StatusResponse

	committing func() // is called by Commit; may be nil
}

func (n *fakeNode) Prepare(ctx context.Context, s *snapshot.Snapshot) (Prepared, error) {
	n.mu.Lock()
	hold, entered, fail := n.hold, n.entered, n.fail
	n.prepared++
	n.mu.Unlock()
	if entered != nil {
		entered <- s.Version
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	return &fakePrepared{node: n, s: s}, nil
}

func (n *fakeNode) Status() *controlv1.StatusResponse {
	if n.status != nil {
		return proto.CloneOf(n.status)
	}
	return &controlv1.StatusResponse{Node: &controlv1.NodeStatus{Node: "test"}}
}

// runs is the version that is live, "" for none.
func (n *fakeNode) runs() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live == nil {
		return ""
	}
	return n.live.Version
}

type fakePrepared struct {
	node *fakeNode
	s    *snapshot.Snapshot
	over bool
}

func (p *fakePrepared) end() {
	if p.over {
		panic("Commit or Abort came twice")
	}
	p.over = true
}

func (p *fakePrepared) Commit(generation uint64) {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	p.end()
	if p.node.committing != nil {
		p.node.committing()
	}
	p.node.live = p.s
	p.node.committed = append(p.node.committed, generation)
}

func (p *fakePrepared) Abort() {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	p.end()
	p.node.aborted++
}

// config is a good configuration with n routes; another seed is another content.
func config(version string, seed, n int) *configv1.Snapshot {
	s := &configv1.Snapshot{
		Version:   version,
		Listeners: []*configv1.Listener{{Name: "web", Address: "127.0.0.1:0"}},
	}
	for i := range n {
		s.Routes = append(s.Routes, &configv1.Route{
			Name: fmt.Sprintf("r%d", i),
			Matches: []*configv1.Match{{Path: &configv1.PathMatch{
				Kind: &configv1.PathMatch_Exact{Exact: fmt.Sprintf("/%d", i)},
			}}},
			Action: &configv1.Route_Respond{Respond: &configv1.Respond{
				Status: 200, Body: fmt.Sprintf("seed %d\n", seed),
			}},
		})
	}
	return s
}
