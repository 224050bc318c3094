package control

import (
	"slices"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// eventBatch is how many events are taken from the log at a time. It bounds
// what a reader that does not read holds on to.
const eventBatch = 64

// eventService says what happens.
type eventService struct {
	controlv1.UnimplementedEventServiceServer

	log      *EventLog
	stopping <-chan struct{}
}

func (s *eventService) Watch(m *controlv1.WatchRequest, stream controlv1.EventService_WatchServer) error {
	if err := check(m); err != nil {
		return err
	}
	ctx, cancel := untilStopped(stream.Context(), s.stopping)
	defer cancel()
	reader := s.log.ReadNew()
	if m.FromSequence != nil {
		reader = s.log.ReadFrom(*m.FromSequence, m.Instance)
	}
	for {
		events, err := reader.Ready(eventBatch)
		if err == nil && len(events) == 0 {
			if !m.Follow {
				return nil
			}
			events, err = reader.Next(ctx, eventBatch)
		}
		if err != nil {
			return endOf(ctx, err)
		}
		for _, e := range events {
			if !wanted(m, e) {
				continue
			}
			if err := stream.Send(&controlv1.WatchResponse{Event: e}); err != nil {
				return err
			}
		}
	}
}

// wanted applies the filter. A gap is always wanted.
func wanted(m *controlv1.WatchRequest, e *controlv1.Event) bool {
	kind, cluster := describeEvent(e)
	if kind == controlv1.EventKind_EVENT_KIND_GAP {
		return true
	}
	if len(m.Kinds) > 0 && !slices.Contains(m.Kinds, kind) {
		return false
	}
	return len(m.Clusters) == 0 || cluster == "" || slices.Contains(m.Clusters, cluster)
}

// describeEvent says of which kind an event is, and which cluster it is about,
// if it is about one.
func describeEvent(e *controlv1.Event) (kind controlv1.EventKind, cluster string) {
	switch d := e.Detail.(type) {
	case *controlv1.Event_EndpointHealth:
		return controlv1.EventKind_EVENT_KIND_ENDPOINT_HEALTH, d.EndpointHealth.GetCluster()
	case *controlv1.Event_Ejection:
		return controlv1.EventKind_EVENT_KIND_EJECTION, d.Ejection.GetCluster()
	case *controlv1.Event_Circuit:
		return controlv1.EventKind_EVENT_KIND_CIRCUIT, d.Circuit.GetCluster()
	case *controlv1.Event_Drain:
		return controlv1.EventKind_EVENT_KIND_DRAIN, d.Drain.GetCluster()
	case *controlv1.Event_Snapshot:
		return controlv1.EventKind_EVENT_KIND_SNAPSHOT, ""
	case *controlv1.Event_Certificate:
		return controlv1.EventKind_EVENT_KIND_CERTIFICATE, ""
	case *controlv1.Event_Dns:
		return controlv1.EventKind_EVENT_KIND_DNS, d.Dns.GetCluster()
	case *controlv1.Event_RateLimit:
		return controlv1.EventKind_EVENT_KIND_RATE_LIMIT, ""
	case *controlv1.Event_Store:
		return controlv1.EventKind_EVENT_KIND_STORE, ""
	case *controlv1.Event_Gap:
		return controlv1.EventKind_EVENT_KIND_GAP, ""
	}
	return controlv1.EventKind_EVENT_KIND_UNSPECIFIED, ""
}
