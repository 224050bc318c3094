package pool

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/socket"
)

// model does random things to a group of two pools and knows what must be true.
type model struct {
	group *Group
	pools [2]*Pool
	used  []*Conn
	limit Limits
}

// Whatever is done, no connection is handed out twice, no limit is exceeded,
// and the counts are those of what is there.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{limit: limits(rapid.IntRange(0, 6).Draw(t, "connections"), rapid.IntRange(0, 4).Draw(t, "per pool"), 0)}
		m.group = NewGroup(m.limit)
		m.pools = [2]*Pool{m.group.NewPool(3), m.group.NewPool(3)}
		t.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"take":    m.take,
			"release": m.release,
			"discard": m.discard,
			"sweep":   m.sweep,
		})
	})
}

func (m *model) take(t *rapid.T) {
	p := m.pools[rapid.IntRange(0, 1).Draw(t, "pool")]
	c := p.Idle(rapid.IntRange(0, 5).Draw(t, "shard"), socket.Now())
	if c == nil {
		free, err := p.Acquire(socket.Now(), nil)
		if err != nil {
			m.full(t, p)
			return
		}
		if free != nil {
			t.Fatal("Acquire gave a connection that Idle did not")
		}
		c = p.Add(wire())
	}
	for _, other := range m.used {
		if other == c {
			t.Fatal("handed out twice")
		}
	}
	m.used = append(m.used, c)
}

// full checks that there was a reason to refuse.
func (m *model) full(t *rapid.T, p *Pool) {
	_, open := p.Counts()
	all, _ := m.group.Counts()
	idleElsewhere := all - len(m.used)
	poolFull := m.limit.PerPool > 0 && open >= m.limit.PerPool
	if !poolFull && (m.limit.Connections == 0 || all < m.limit.Connections || idleElsewhere > 0) {
		t.Fatalf("refused with %d open, %d in all, %d idle", open, all, idleElsewhere)
	}
}

// drawn takes one of the connections in use out of the model.
func (m *model) drawn(t *rapid.T) *Conn {
	if len(m.used) == 0 {
		t.Skip("none in use")
	}
	i := rapid.IntRange(0, len(m.used)-1).Draw(t, "connection")
	c := m.used[i]
	m.used = append(m.used[:i], m.used[i+1:]...)
	return c
}

func (m *model) release(t *rapid.T) { m.drawn(t).Release(rapid.IntRange(0, 5).Draw(t, "shard")) }
func (m *model) discard(t *rapid.T) { m.drawn(t).Discard() }

func (m *model) sweep(t *rapid.T) {
	now := socket.Now()
	if rapid.Bool().Draw(t, "much later") {
		now += int64(time.Hour)
	}
	for _, p := range m.pools {
		p.Sweep(now)
	}
}

func (m *model) check(t *rapid.T) {
	idleA, openA := m.pools[0].Counts()
	idleB, openB := m.pools[1].Counts()
	all, waiting := m.group.Counts()
	if all != openA+openB || all != idleA+idleB+len(m.used) || waiting != 0 {
		t.Fatalf("%d in all, %d+%d open, %d+%d idle, %d in use, %d wait", all, openA, openB, idleA, idleB, len(m.used), waiting)
	}
	if m.limit.Connections > 0 && all > m.limit.Connections {
		t.Fatalf("%d connections", all)
	}
	if m.limit.PerPool > 0 && max(openA, openB) > m.limit.PerPool {
		t.Fatalf("%d and %d connections", openA, openB)
	}
}

// The same from many goroutines, which must all get their turn.
func TestPoolUnderContention(t *testing.T) {
	g := NewGroup(limits(4, 3, 100))
	pools := [2]*Pool{g.NewPool(2), g.NewPool(2)}
	var owners sync.Map // of connections in use
	var inUse atomic.Int64
	var workers sync.WaitGroup
	for n := range 12 {
		workers.Go(func() {
			for i := range 300 {
				p := pools[(n+i/7)%2]
				c := idle(p, n)
				if c == nil {
					free, err := p.Acquire(socket.Now()+int64(time.Minute), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if c = free; c == nil {
						c = p.Add(wire())
					}
				}
				if _, twice := owners.LoadOrStore(c, n); twice {
					t.Error("handed out twice")
				}
				if now := inUse.Add(1); now > 4 {
					t.Errorf("%d in use", now)
				}
				inUse.Add(-1)
				owners.Delete(c)
				if i%5 == 0 {
					c.Discard()
				} else {
					c.Release(n)
				}
			}
		})
	}
	workers.Wait()
	if open, waiting := g.Counts(); open > 4 || waiting != 0 {
		t.Errorf("%d open, %d wait", open, waiting)
	}
}
