package certificate

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must rest before they are read: a chain and its
	// key are two files, written one after the other.
	settle = 100 * time.Millisecond
	// again is how often all files are read whether or not they were seen to
	// change: some file systems tell of nothing. What expires is found then too.
	again = time.Minute
)

// watcher reads files again when they change. Its loop is the only one that
// changes what is committed.
type watcher struct {
	store   *Store
	notify  *fsnotify.Watcher // nil: there is none to be had
	watched map[string]bool   // folders

	asked  map[*Certificate]context.CancelFunc // attempts under way
	warned bool                                // that nothing outlives the process
}

func newWatcher(s *Store) *watcher {
	w := &watcher{store: s, watched: map[string]bool{}, asked: map[*Certificate]context.CancelFunc{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		s.options.Logger.Warn("certificates are not watched, but read again each minute", "error", err)
		return w
	}
	w.notify = notify
	return w
}

// run is the loop.
func (w *watcher) run() {
	var changes chan fsnotify.Event
	var errors chan error
	if w.notify != nil {
		defer func() { _ = w.notify.Close() }()
		changes, errors = w.notify.Events, w.notify.Errors
	}
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	rest := time.NewTimer(settle)
	defer rest.Stop()
	rest.Stop()
	for {
		var done chan struct{}
		select {
		case <-w.store.stopped.Done():
			return
		case <-changes:
			rest.Reset(settle)
			continue
		case err := <-errors:
			w.store.options.Logger.Warn("watching certificates", "error", err)
			rest.Reset(settle) // events may be lost
			continue
		case a := <-w.store.attempts:
			w.settle(a)
		case <-w.store.commits:
			w.watch()
			w.prune()
		case done = <-w.store.reloads:
			w.hasten()
		case <-rest.C:
		case <-ticker.C:
		}
		w.attend()
		if w.reread() {
			rest.Reset(settle)
		}
		if done != nil {
			close(done)
		}
	}
}

// watch watches the folders of all files, and no others. A folder is watched
// rather than a file: most writers replace a file, or a link on the way to it.
func (w *watcher) watch() {
	if w.notify == nil {
		return
	}
	wanted := map[string]bool{}
	for _, m := range w.store.all() {
		for _, path := range m.files(w.store.options.Folder) {
			wanted[filepath.Dir(path)] = true
		}
	}
	for folder := range w.watched {
		if !wanted[folder] {
			_ = w.notify.Remove(folder) // it may be gone
			delete(w.watched, folder)
		}
	}
	for folder := range wanted {
		if w.watched[folder] {
			continue
		}
		if err := w.notify.Add(folder); err != nil {
			w.store.options.Logger.Warn("a folder with certificates is not watched, but read again each minute", "folder", folder, "error", err)
			continue
		}
		w.watched[folder] = true
	}
}

// reread reads all files, puts to use what is new and good in them, and says
// what is not. It reports whether another read must tell.
func (w *watcher) reread() (doubtful bool) {
	now := w.store.options.Now()
	changed := false
	var events []Event
	for _, m := range w.store.all() {
		if len(m.files("")) > 0 && m.refresh(w.store.options.Folder) {
			changed = true
		}
		doubtful = doubtful || m.doubtful()
		if e, ok := m.report(now); ok {
			events = append(events, e)
		}
	}
	if changed {
		w.store.changes.Add(1)
	}
	for _, e := range events {
		w.store.options.Events(e)
	}
	return doubtful
}
