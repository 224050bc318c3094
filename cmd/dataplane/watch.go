package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watched is a file whose changes are noticed. What is watched is its folder:
// editors and config maps replace files instead of writing into them.
type watched struct {
	*fsnotify.Watcher

	file   string
	target string // what the file is, all symlinks followed
}

func watch(file string) (*watched, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watched{Watcher: watcher, file: filepath.Clean(file)}
	w.moved()
	if err := watcher.Add(filepath.Dir(w.file)); err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	return w, nil
}

// settleTime is how long a file must be left alone before it is read: writers
// make several changes at once.
const settleTime = 100 * time.Millisecond

// next waits for the next change. It reports false when ctx has ended.
func (w *watched) next(ctx context.Context, logger *slog.Logger) bool {
	settled := time.NewTimer(settleTime)
	settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-settled.C:
			return true
		case event := <-w.Events:
			if w.concerns(event) {
				settled.Reset(settleTime)
			}
		case err := <-w.Errors:
			logger.Error("watching the manifest", "error", err)
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				return true // a change may be among those that were lost
			}
		}
	}
}

// concerns reports whether an event in the folder is about the file. The files
// beside it, such as a log, may change all the time.
func (w *watched) concerns(event fsnotify.Event) bool {
	moved := w.moved()
	return moved || filepath.Clean(event.Name) == w.file && event.Op != fsnotify.Chmod
}

// moved notes what the file is now, and reports whether that is another file
// than before. A file that is missing is still the one that it was.
func (w *watched) moved() bool {
	target, err := filepath.EvalSymlinks(w.file)
	if err != nil || target == w.target {
		return false
	}
	w.target = target
	return true
}
