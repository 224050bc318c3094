package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for an event; only what hangs takes as long.
const patience = 60 * time.Second

// until waits for what no event tells of.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.After(patience)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !reached() {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never reached: %s", what)
		}
	}
}

// hosts counts the addresses that were given out.
var hosts atomic.Int32

// ownAddress is an address with a port that no other process takes while what
// listens there is dead: it is on an address of the loopback network that only
// this process uses.
func ownAddress(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8%128, os.Getpid()%256, hosts.Add(1))
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// child is a process that the test started.
type child struct {
	*exec.Cmd
	said  *output
	ended chan struct{} // closed when it has
}

// output is what a child wrote. It keeps the first of it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	const most = 64 << 10
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p[:min(len(p), most-min(most, o.text.Len()))])
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// spawn starts a process that does not outlive the test.
func spawn(t testing.TB, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{Cmd: cmd, said: &output{}, ended: make(chan struct{})}
	cmd.Stderr = c.said
	if cmd.Stdout == nil {
		cmd.Stdout = c.said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() { c.end(syscall.SIGKILL) })
	return c
}

// end sends a signal and waits for the end.
func (c *child) end(s syscall.Signal) {
	_ = c.Process.Signal(s) // it may have ended already
	<-c.ended
}

// backend is a backend's process, which is another one after each kill.
type backend struct {
	t       testing.TB
	name    string
	address string
	orders  string // file
	process *child
	in      io.WriteCloser
	out     *bufio.Reader
}

func startBackend(t testing.TB, name string) *backend {
	t.Helper()
	b := &backend{t: t, name: name, address: ownAddress(t), orders: filepath.Join(t.TempDir(), "orders")}
	b.start()
	return b
}

// start runs the process and waits until it listens.
func (b *backend) start() {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), backendVariable+"="+b.address, nameVariable+"="+b.name, ordersVariable+"="+b.orders)
	in, commands, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	answers, out, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = in, out
	b.process = spawn(b.t, cmd)
	in.Close()
	out.Close()
	b.t.Cleanup(func() {
		commands.Close()
		answers.Close()
	})
	b.in, b.out = commands, bufio.NewReader(answers)
	b.hears(b.address)
}

// hears waits for a line that the process writes.
func (b *backend) hears(want string) {
	b.t.Helper()
	if line, err := b.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
		b.t.Fatalf("backend %s said %q, not %q: %v; %s", b.name, line, want, err, b.process.said)
	}
}

// treat has it treat requests in another way from now on.
func (b *backend) treat(w way) {
	b.t.Helper()
	if _, err := fmt.Fprintln(b.in, w); err != nil {
		b.t.Fatal(err)
	}
	b.hears(string(w))
}

func (b *backend) signal(s syscall.Signal) {
	b.t.Helper()
	if err := b.process.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// carriedOut is how often it carried out each order.
func (b *backend) carriedOut(times map[string]int) {
	b.t.Helper()
	text, err := os.ReadFile(b.orders)
	if err != nil {
		b.t.Fatal(err)
	}
	for id := range strings.FieldsSeq(string(text)) {
		times[id]++
	}
}
