package control

import (
	"context"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// defaultPage is how many entries a page has if not asked for another number.
const defaultPage = 100

func pageSize(asked uint32) int {
	if asked == 0 {
		return defaultPage
	}
	return int(asked)
}

// ListRevisions goes through the store from the newest. A token is the number
// of the last generation that was listed.
func (s *snapshotService) ListRevisions(_ context.Context, m *controlv1.ListRevisionsRequest) (*controlv1.ListRevisionsResponse, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	below := ^uint64(0)
	if m.PageToken != "" {
		n, err := strconv.ParseUint(m.PageToken, 10, 64)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "page_token: %q was not given out here", m.PageToken)
		}
		below = n
	}
	active, _ := s.applier.Active()
	out := &controlv1.ListRevisionsResponse{}
	for _, e := range s.applier.Store().List() {
		if e.Generation >= below {
			continue
		}
		if len(out.Revisions) == pageSize(m.PageSize) {
			last := out.Revisions[len(out.Revisions)-1]
			out.NextPageToken = strconv.FormatUint(last.Snapshot.Generation, 10)
			break
		}
		out.Revisions = append(out.Revisions, e.revision(active.GetGeneration()))
	}
	return out, nil
}

func (e Stored) revision(active uint64) *controlv1.Revision {
	r := &controlv1.Revision{
		Snapshot: e.info(), Active: e.Generation == active,
		ResourceCount: uint32(e.Resources), SizeBytes: uint64(e.Size),
	}
	if e.Err != nil {
		r.Snapshot = &controlv1.SnapshotInfo{Generation: e.Generation}
		r.Fault = e.Err.Error()
	}
	return r
}
