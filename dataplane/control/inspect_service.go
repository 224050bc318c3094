package control

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// inspectService answers questions and changes nothing.
type inspectService struct {
	controlv1.UnimplementedInspectServiceServer

	applier  *Applier
	node     Node
	tap      TapFunc
	stats    StatsFunc
	stopping <-chan struct{}
}

// TapFunc hands requests that pass the filter to send until ctx ends, the
// limit is reached or send fails.
type TapFunc func(ctx context.Context, m *controlv1.TapRequest, send func(*controlv1.TapResponse) error) error

// StatsFunc reads the node's numbers.
type StatsFunc func(ctx context.Context, m *controlv1.StatsRequest) (*controlv1.StatsResponse, error)

func (s *inspectService) Explain(_ context.Context, m *controlv1.ExplainRequest) (*controlv1.ExplainResponse, error) {
	if m.Request == nil {
		return nil, status.Error(codes.InvalidArgument, "request: is required")
	}
	if err := check(m.Request); err != nil {
		return nil, err
	}
	_, active := s.applier.Active()
	if active == nil && m.Candidate == nil {
		return nil, status.Error(codes.FailedPrecondition, "nothing is active, and no candidate was sent")
	}
	answer, err := snapshot.Explain(active, m)
	if bad, ok := errors.AsType[*snapshot.InvalidError](err); ok {
		return nil, invalid(bad.Violations)
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return answer, nil
}

func (s *inspectService) Tap(m *controlv1.TapRequest, stream controlv1.InspectService_TapServer) error {
	if err := check(m); err != nil {
		return err
	}
	if s.tap == nil {
		return status.Error(codes.Unimplemented, "this node keeps no record of requests")
	}
	ctx, cancel := untilStopped(stream.Context(), s.stopping)
	defer cancel()
	if err := s.tap(ctx, m, stream.Send); err != nil {
		return endOf(ctx, err)
	}
	return nil
}

func (s *inspectService) Stats(ctx context.Context, m *controlv1.StatsRequest) (*controlv1.StatsResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	if s.stats == nil {
		return nil, status.Error(codes.Unimplemented, "this node keeps no numbers")
	}
	return s.stats(ctx, m)
}

func (s *inspectService) Status(_ context.Context, m *controlv1.StatusRequest) (*controlv1.StatusResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	out := s.node.Status()
	if out.Node == nil {
		out.Node = &controlv1.NodeStatus{}
	}
	s.applier.FillStatus(out.Node)
	page(out, m)
	return out, nil
}

// FillStatus adds what the node does not know of itself.
func (a *Applier) FillStatus(n *controlv1.NodeStatus) {
	n.Snapshot, _ = a.Active()
	n.HighestTerm = a.Term()
	n.Degradations, _ = a.Degradations()
	n.Instance, n.LastEventSequence = a.events.Instance(), a.events.Last()
	if n.Node == "" {
		n.Node = a.events.Node()
	}
	n.Store = &controlv1.StoreStatus{Directory: a.store.Directory()}
	for _, e := range a.store.List() {
		if e.Err == nil {
			n.Store.Generations = append(n.Store.Generations, e.Generation)
		}
	}
}

// page cuts the clusters down to what was asked for. A token is the name of the
// last cluster that was listed.
func page(out *controlv1.StatusResponse, m *controlv1.StatusRequest) {
	all := out.Clusters
	out.Clusters = nil
	size := proto.Size(out)
	for _, c := range all {
		if c.Name <= m.PageToken || len(m.Clusters) > 0 && !slices.Contains(m.Clusters, c.Name) {
			continue
		}
		size += proto.Size(c) + 8
		if n := len(out.Clusters); n == pageSize(m.PageSize) || n > 0 && size > maxMessage {
			out.NextPageToken = strings.Clone(out.Clusters[n-1].Name)
			return
		}
		out.Clusters = append(out.Clusters, c)
	}
}
