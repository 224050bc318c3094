package socket

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// busy is a patience that has learnt that something comes every so often.
func busy(every int64) *patience {
	p := new(patience)
	for range 100 {
		p.note(every)
	}
	return p
}

func TestPatience(t *testing.T) {
	stirring.yes.Store(false)
	if !busy(patientPace / 2).left(1) {
		t.Error("a loop to which something comes soon rests at once")
	}
	if busy(2 * patientPace).left(1) {
		t.Error("a loop to which little comes waits")
	}
	p := busy(patientPace / 2)
	p.waited = patientMost + 1
	if p.left(1) {
		t.Error("others wait for longer than they are to")
	}
	p.wake(2)
	if !p.left(2) {
		t.Error("there is no patience after a rest")
	}
	p.over = true
	if p.left(2) {
		t.Error("a goroutine that is to run now does not")
	}
}

func TestPatienceLearnsFromRests(t *testing.T) {
	stirring.yes.Store(false)
	p := busy(10 * patientPace)
	now := int64(2)
	for range 100 {
		p.rest(now)
		now += patientPace / 10
		p.wake(now)
	}
	if !p.left(now) {
		t.Error("short rests have not taught it to wait")
	}
	p.wake(now + 1000*patientPace) // it had not rested: it had work
	if !p.left(now) {
		t.Error("work was taken for a rest")
	}
	p.rest(now)
	p.wake(now + 1_000_000*patientPace)
	for range 100 {
		p.rest(now)
		now += patientPace / 10
		p.wake(now)
	}
	if !p.left(now) {
		t.Error("it does not get over one long rest")
	}
}

func TestPatienceEndsByWaitingInVain(t *testing.T) {
	stirring.yes.Store(false)
	p, now := busy(patientPace/2), int64(2)
	var before int64
	for range 10 {
		p.vain(now)
		if p.left(now) {
			t.Fatal("it waits again")
		}
		if p.wake(now); p.left(now + p.pause - 1) {
			t.Fatal("it waits again in the next turn")
		}
		if p.pause < before || p.pause < pauseLeast || p.pause > pauseMost {
			t.Fatalf("it paused for %d ns, after %d ns", p.pause, before)
		}
		before = p.pause
		if now += p.pause; !p.left(now) {
			t.Fatal("it never waits again")
		}
	}
	if before != pauseMost {
		t.Errorf("after ten times it paused for %d ns", before)
	}
	if p.vain(now + 10*pauseMost); p.pause != pauseLeast {
		t.Errorf("long after that it paused for %d ns", p.pause)
	}
}

// Whoever waits for a socket by the runtime's poller has loops rest for a while.
func TestPatienceEndsWhileOthersWait(t *testing.T) {
	p, now := busy(patientPace/2), int64(2)
	if stir(); p.left(now) {
		t.Error("it waits although a goroutine waits for a socket")
	}
	if p.left(now + patientSeldom - 1) {
		t.Error("it waits again at once")
	}
	if !p.left(now + patientSeldom) {
		t.Error("it does not wait again")
	}
}

// A signal by which the runtime asks for the processor is no sign that nothing comes.
func TestPatienceOutlivesSignals(t *testing.T) {
	stirring.yes.Store(false)
	p := busy(patientPace / 2)
	if p.learn(0, 2, 3); p.left(3) {
		t.Error("it waits on though the runtime wants the processor")
	}
	if p.wake(3); !p.left(3) {
		t.Error("it does not wait again after a signal")
	}
	end := 3 + patientFor*int64(time.Millisecond)
	if p.learn(0, 3, end); p.left(end) {
		t.Error("it waits on though nothing has come")
	}
	if p.wake(end); p.left(end) {
		t.Error("it waits again after it has waited in vain")
	}
}

func TestPatienceLearnsFromWaits(t *testing.T) {
	stirring.yes.Store(false)
	p := busy(patientPace / 2)
	for range 100 {
		p.learn(1, 2, 2+2*patientPace)
		p.wake(0)
	}
	if p.left(2) {
		t.Error("it waits for what does not come soon any more")
	}
	p = busy(patientPace / 2)
	if p.learn(1, 2, 2+patientMost+1); p.left(2 + patientMost + 1) {
		t.Error("others wait for longer than they are to")
	}
}

// A turn ends the rest before it, which it learns from, and begins another.
func TestPatienceOfATurn(t *testing.T) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	l := &Loop{fd: fd, now: 5}
	l.patience.rest(1)
	began := Now()
	if l.turn(0) || l.patience.resting < began {
		t.Errorf("it rests since %d, at %d", l.patience.resting, began)
	}
	if l.patience.pace == 0 {
		t.Error("it has not learnt from its rest")
	}
	if l.now != 0 {
		t.Error("what comes later has the time of what came before")
	}
	l.patience.over = false
	if l.goOn(&waiter{bell: make(chan struct{}, 1)}); !l.patience.over {
		t.Error("it waits on, and the goroutine that it has woken behind it")
	}
}

func TestPatienceEndsWhenAGoroutineWaits(t *testing.T) {
	c, far := owned(t) // no loop knows it
	stirring.yes.Store(false)
	read := make(chan error)
	go func() { read <- c.Fill(0, 0) }()
	for a := c.net.(*Stream); a.known.Load() == nil; {
		runtime.Gosched()
	}
	send(t, far, []byte("x"))
	if err := <-read; err != nil || !stirring.yes.Load() {
		t.Errorf("loops do not know that a goroutine waits (%v)", err)
	}
}

// looks reports what its loop thinks of waiting when it is told.
type looks struct {
	l    *Loop
	over chan bool
}

func (a looks) Arrived(int64) { a.over <- a.l.patience.over }
func (a looks) Roused()       {}

// What is passed on in the loop is written by a goroutine, and what cannot be is passed on
// by one: the loop is not to keep the processor from it.
func TestPatienceEndsWithAnAwaiter(t *testing.T) {
	l := newLoop(t)
	c, far := awaited(t, l)
	a := looks{l, make(chan bool, 1)}
	if !c.Await(a, 0) {
		t.Fatal("it cannot be awaited")
	}
	send(t, far, []byte("x"))
	if !<-a.over {
		t.Error("the loop waits on, and others behind it")
	}
}
