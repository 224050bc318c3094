package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/headgate/headgate/ctl/manifest"
	"github.com/headgate/headgate/dataplane"
	"github.com/headgate/headgate/dataplane/control"
)

// begin makes the first snapshot active: that of the file if there is one, else
// the last one that ran here. A file that is refused does not keep the last one
// from running, which is degraded by that until the file is mended.
func begin(ctx context.Context, s *dataplane.Server, file string, logger *slog.Logger) error {
	if file == "" {
		found, err := s.Restore(ctx)
		if err == nil && !found {
			logger.Info("no snapshot yet: waiting for one on the control API")
		}
		return err
	}
	w, err := watch(file)
	if err != nil {
		return err
	}
	if err := applyFile(ctx, s, file); err != nil {
		found, restoreErr := s.Restore(ctx)
		if restoreErr != nil || !found {
			return errors.Join(err, restoreErr, w.Close())
		}
		logger.Error("the manifest is refused; the last good snapshot runs", "error", err)
		s.ManifestRefused(file, err)
	}
	go follow(ctx, s, w, logger)
	return nil
}

// follow applies the file whenever it has changed. What is refused is said, and
// what ran before runs on.
func follow(ctx context.Context, s *dataplane.Server, w *watched, logger *slog.Logger) {
	defer func() { _ = w.Close() }()
	for w.next(ctx, logger) {
		if err := applyFile(ctx, s, w.file); err != nil {
			logger.Error("the manifest is refused", "error", err)
			s.ManifestRefused(w.file, err)
		} else {
			s.ManifestTaken(w.file)
		}
	}
}

// applyFile reads a manifest and makes it active.
func applyFile(ctx context.Context, s *dataplane.Server, file string) error {
	m, faults := manifest.Read(file)
	if len(faults) > 0 {
		return faultsError(faults)
	}
	_, err := s.Apply(ctx, control.Request{Snapshot: m.Snapshot, AllowShrink: true, Writer: file, Source: "file"})
	var refusal *control.Refusal
	if errors.As(err, &refusal) && len(refusal.Violations) > 0 {
		return faultsError(m.Faults(refusal.Violations))
	}
	return err
}

// faultsError is what is wrong with a manifest, a line for each fault.
func faultsError(faults []manifest.Fault) error {
	var lines []string
	for _, f := range faults {
		if !f.Warning {
			lines = append(lines, f.Error())
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}
