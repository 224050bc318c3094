package examples_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// clients are curls that ask one after the other, without end.
type clients struct {
	s   *tour
	all []*process
}

// load starts n clients and waits until each has had some answers.
func load(r *tour, n int) *clients {
	c := &clients{s: r}
	for i := range n {
		c.all = append(c.all, startProcess(r.t, r.dir, r.env, fmt.Sprintf("client %d", i),
			"curl", "-sSN", "-w", "status %{http_code}\n", r.here("http://127.0.0.1:8080/?[1-10000000]")))
	}
	c.each(20, "status")
	return c
}

// each waits until each client has had a number of answers of one kind.
func (c *clients) each(n int, kind string) {
	c.s.t.Helper()
	for _, p := range c.all {
		for range n {
			p.await("^" + kind + ".*\n")
		}
	}
}

// stop ends the clients and returns how many answers they had. All must be
// good.
func (c *clients) stop() int {
	c.s.t.Helper()
	total := 0
	for _, p := range c.all {
		p.kill(syscall.SIGKILL)
		good := strings.Count(p.text(), "status 200\n")
		total += good
		for _, line := range lines(p.text()) {
			if !strings.HasPrefix(line, "red ") && !strings.HasPrefix(line, "blue ") && line != "status 200" {
				c.s.t.Errorf("%s: %q behind %d good answers", p.name, line, good)
			}
		}
	}
	return total
}

func TestWeighted(t *testing.T) {
	need(t, "nginx", "curl")
	r := follow(t, "weighted")
	events := r.events()
	c := load(r, 8)

	r.running["backend"].kill(syscall.SIGKILL)
	why := events.await(`colours (\S+) (?:ejected|healthy -> unhealthy): (.*)`)
	if why[1] != r.at("127.0.0.1:9001") || !strings.Contains(why[2], "connect") {
		t.Errorf("the event blames %s, because of %s", why[1], why[2])
	}
	c.each(50, "blue")

	r.start("backend --name red --address 127.0.0.1:9001")
	events.await(`colours \S+ (?:returns|unhealthy -> healthy)`)
	c.each(50, "red")
	if total := c.stop(); total < 8*120 {
		t.Errorf("only %d answers", total)
	}
	r.check(step{`curl -s 'http://127.0.0.1:8080/?[1-12]' | cut -d ' ' -f 1 | sort | uniq -c`, "      3 blue\n      9 red\n"})
}
