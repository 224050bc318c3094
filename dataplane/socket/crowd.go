package socket

import "time"

// firstLook is when a loop comes by for those who are new, and then again.
const firstLook = 100 * time.Millisecond

// A crowd is connections, each of which knows its place.
type crowd []*watch

func (c *crowd) add(t *watch) {
	t.crowd, t.place = c, len(*c)
	*c = append(*c, t)
}

func (c *crowd) remove(t *watch) {
	last := len(*c) - 1
	(*c)[t.place] = (*c)[last]
	(*c)[t.place].place = t.place
	(*c)[last] = nil
	*c = (*c)[:last]
	t.crowd = nil
}

// expect notes a newcomer.
func (l *Loop) expect(t *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.mode.Load() == ended {
		return
	}
	l.young[l.newer].add(t)
	if !l.comesBy {
		l.comesBy = true
		time.AfterFunc(firstLook, l.timeToCome)
	}
}

func (l *Loop) timeToCome() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.comes.Store(true)
	l.ring()
}

// comeBy sees to those who have been here for a while. Most connections that are
// made for one request have gone by then, and never had a timer.
func (l *Loop) comeBy() {
	if !l.comes.Load() {
		return
	}
	l.comes.Store(false)
	for _, t := range l.grown() {
		switch t.mode.Load() {
		case inLoop:
			t.growUp()
		case aside, returning:
			l.expect(t)
		}
	}
}

// grown takes out who was new when the loop came by before.
func (l *Loop) grown() crowd {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newer = 1 - l.newer
	old := l.young[l.newer]
	l.young[l.newer] = nil
	for _, t := range old {
		t.crowd = nil
	}
	if l.comesBy = len(l.young[1-l.newer]) > 0; l.comesBy {
		time.AfterFunc(firstLook, l.timeToCome)
	}
	return old
}
