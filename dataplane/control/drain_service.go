package control

import (
	"context"
	"slices"
	"sync"
	"time"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// Drainer takes endpoints out of traffic, and puts them back.
type Drainer interface {
	// MayDrain is a *Refusal if an endpoint is not to be drained; nil for one
	// that is drained already. allowLast: even if no other is left.
	MayDrain(cluster, endpoint string, allowLast bool) error
	// Drain takes an endpoint out, and returns once nothing new goes there.
	Drain(d Drained)
	// Undrain puts it back.
	Undrain(cluster, endpoint, writer, reason string)
	// Endpoint is how an endpoint fares; nil if there is none such.
	Endpoint(cluster, endpoint string) *controlv1.EndpointStatus
}

// drainService keeps what is drained on disk, and has it done.
type drainService struct {
	controlv1.UnimplementedDrainServiceServer

	drainer Drainer
	store   *Store

	mu sync.Mutex // one change at a time, from the disk to the traffic
}

func (s *drainService) Drain(ctx context.Context, m *controlv1.DrainRequest) (*controlv1.DrainResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.drainer.MayDrain(m.Cluster, m.Endpoint, m.AllowLast); err != nil {
		return nil, err
	}
	list := s.store.Drained()
	unchanged := indexDrained(list, m.Cluster, m.Endpoint) >= 0
	if !unchanged {
		d := Drained{
			Cluster: m.Cluster, Endpoint: m.Endpoint, Writer: writerOr(ctx, m.Writer), Reason: m.Reason, Since: time.Now().UTC(),
		}
		if err := s.store.SetDrained(append(list, d)); err != nil {
			return nil, storeFailed(err)
		}
		s.drainer.Drain(d)
	}
	return &controlv1.DrainResponse{Endpoint: s.drainer.Endpoint(m.Cluster, m.Endpoint), Unchanged: unchanged}, nil
}

func (s *drainService) Undrain(ctx context.Context, m *controlv1.UndrainRequest) (*controlv1.UndrainResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.store.Drained()
	i := indexDrained(list, m.Cluster, m.Endpoint)
	if i < 0 && s.drainer.Endpoint(m.Cluster, m.Endpoint) == nil {
		return nil, NoEndpoint(m.Cluster, m.Endpoint)
	}
	if i >= 0 {
		if err := s.store.SetDrained(slices.Delete(list, i, i+1)); err != nil {
			return nil, storeFailed(err)
		}
		s.drainer.Undrain(m.Cluster, m.Endpoint, writerOr(ctx, m.Writer), m.Reason)
	}
	return &controlv1.UndrainResponse{Endpoint: s.drainer.Endpoint(m.Cluster, m.Endpoint), Unchanged: i < 0}, nil
}

func indexDrained(list []Drained, cluster, endpoint string) int {
	return slices.IndexFunc(list, func(d Drained) bool { return d.Cluster == cluster && d.Endpoint == endpoint })
}

// writerOr is who says to write, or else who is known to call.
func writerOr(ctx context.Context, writer string) string {
	if writer != "" {
		return writer
	}
	return writerOf(ctx)
}

// NoEndpoint is the refusal for an endpoint that is not there.
func NoEndpoint(cluster, endpoint string) *Refusal {
	return &Refusal{
		Reason: ReasonNoEndpoint, Text: "cluster " + cluster + " has no endpoint " + endpoint,
		Facts: map[string]string{"cluster": cluster, "endpoint": endpoint},
	}
}

// LastEndpoint is the refusal for the only endpoint that a cluster has left.
func LastEndpoint(cluster, endpoint string) *Refusal {
	return &Refusal{
		Reason: ReasonLastEndpoint, Text: endpoint + " is the last endpoint of cluster " + cluster + "; allow_last is needed for that",
		Facts: map[string]string{"cluster": cluster, "endpoint": endpoint},
	}
}

// ManyDrained is the refusal when as many are drained as may be.
func ManyDrained(err error) *Refusal {
	return &Refusal{Reason: ReasonManyDrained, Text: err.Error(), Err: err}
}
