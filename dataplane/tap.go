package dataplane

import (
	"context"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/telemetry"
)

// tap sends requests as they end. See control.TapFunc.
func (s *Server) tap(ctx context.Context, m *controlv1.TapRequest, send func(*controlv1.TapResponse) error) error {
	t, err := s.recorder.Tap(ctx, passes(m.GetFilter()))
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	for sent := uint64(0); m.GetLimit() == 0 || sent < m.GetLimit(); sent++ {
		r, ok := <-t.C
		if !ok {
			return tapEnded(t.Err())
		}
		if err := send(&controlv1.TapResponse{Request: s.record(&r)}); err != nil {
			return err
		}
	}
	return nil
}

func tapEnded(err error) error {
	if err == telemetry.ErrTapSlow {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return err
}

// passes turns a filter into a function.
func passes(f *controlv1.RequestFilter) func(*telemetry.Recent) bool {
	if f == nil {
		return nil
	}
	return func(r *telemetry.Recent) bool {
		return among(f.Routes, r.Route) && among(f.Clusters, r.Cluster) && among(f.Endpoints, r.Endpoint) &&
			among(f.Methods, r.Method) && among(f.Hosts, hostname(r.Host)) &&
			strings.HasPrefix(r.Path, f.PathPrefix) && r.Status >= int(f.MinStatus) &&
			(f.MaxStatus == 0 || r.Status <= int(f.MaxStatus)) &&
			r.Duration >= f.MinDuration.AsDuration() && (!f.ErrorsOnly || r.Reason != "")
	}
}

// among reports whether a value is in a list, of which an empty one is all.
func among(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

func hostname(authority string) string {
	if host, _, err := net.SplitHostPort(authority); err == nil {
		return host
	}
	return authority
}

func (s *Server) record(r *telemetry.Recent) *controlv1.RequestRecord {
	record := &controlv1.RequestRecord{
		Time: timestamppb.New(r.Time), Duration: durationpb.New(r.Duration), Node: s.options.Node,
		Listener: r.Listener, Method: r.Method, Scheme: "http", Host: r.Host, Path: r.Path,
		Status: uint32(r.Status), Route: r.Route, Cluster: r.Cluster, Endpoint: r.Endpoint, Attempts: uint32(r.Attempts),
		RequestBytes: uint64(r.BytesIn), ResponseBytes: uint64(r.BytesOut),
		ProxyError: r.Reason, Detail: r.Detail, TraceId: r.TraceID, SnapshotVersion: r.Snapshot,
	}
	record.NotRetried, record.InjectedFault = r.NotRetried, r.Injected
	for _, try := range r.Tries {
		record.Tries = append(record.Tries, &controlv1.AttemptRecord{
			Number: uint32(try.Number), Endpoint: try.Endpoint, Outcome: try.Outcome, Hedge: try.Hedge,
			After: durationpb.New(try.After), Duration: durationpb.New(try.Duration),
		})
	}
	if r.HTTPS {
		record.Scheme = "https"
	}
	if r.Client.IsValid() {
		record.ClientAddress = r.Client.String()
	}
	return record
}
