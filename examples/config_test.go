package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConfigIsWatched(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	file := s.write("etc/routes.yaml", ping("one"))
	p := s.start("dataplane --config etc/routes.yaml")
	s.reach(p, s.at("127.0.0.1:8080"))
	s.answers("one")
	events := s.events()

	// Editors write a new file and rename it.
	if err := os.Rename(s.write("etc/.routes.yaml.swp", ping("two")), file); err != nil {
		t.Fatal(err)
	}
	events.await("active: version two,")
	s.answers("two")

	// Others write into the file that is there.
	s.write("etc/routes.yaml", ping("three"))
	events.await("active: version three,")
	s.answers("three")

	// A fault of form, then one of sense: each is logged at its place, and nothing changes.
	s.write("etc/routes.yaml", ping("four")+"colour: blue\n")
	p.await(`the manifest is refused.*etc/routes.yaml:4:1`)
	events.await(`degraded: version three,.* etc/routes.yaml: the manifest is refused, what ran before runs on: etc/routes.yaml:4:1`)
	s.answers("three")
	s.write("etc/routes.yaml", ping("five")+`clusters: [{name: c, endpoints: [{address: "nowhere"}]}]`)
	p.await(`the manifest is refused.*etc/routes.yaml:4:\d+: clusters\[0\].endpoints\[0\].address`)
	s.answers("three")

	// Mended, it is taken.
	s.write("etc/routes.yaml", ping("six"))
	events.await("active: version six,")
	events.await("works again as a whole: version six,")
	s.answers("six")
}

// A log that is written beside the manifest, request by request, does not put off
// what was changed.
func TestConfigBesideABusyFile(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	s.write("routes.yaml", ping("one"))
	s.reach(s.start("dataplane --config routes.yaml"), s.at("127.0.0.1:8080"))
	events := s.events()
	log, err := os.Create(filepath.Join(s.dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	over, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		for pace := time.Tick(time.Millisecond); ; {
			select {
			case <-pace:
				log.WriteString("GET / 200\n")
			case <-over:
				return
			}
		}
	}()
	s.write("routes.yaml", ping("two"))
	events.await("active: version two,")
	close(over)
	<-written
	if n := strings.Count(events.text(), "active: version"); n != 2 {
		t.Errorf("%d snapshots became active, want two:\n%s", n, events.text())
	}
}

// A mounted config map is a symlink to a folder that is replaced as a whole.
func TestConfigBehindSymlinks(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	s.write("etc/..1/routes.yaml", ping("one"))
	s.write("etc/..2/routes.yaml", ping("two"))
	for link, to := range map[string]string{"..data": "..1", "..next": "..2", "routes.yaml": "..data/routes.yaml"} {
		if err := os.Symlink(to, filepath.Join(s.dir, "etc", link)); err != nil {
			t.Fatal(err)
		}
	}
	s.reach(s.start("dataplane --config etc/routes.yaml"), s.at("127.0.0.1:8080"))
	events := s.events()
	if err := os.Rename(filepath.Join(s.dir, "etc", "..next"), filepath.Join(s.dir, "etc", "..data")); err != nil {
		t.Fatal(err)
	}
	events.await("active: version two,")
	s.answers("two")
}

// Without a snapshot that ran before, a broken file is the end.
func TestBrokenConfigAtTheStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "quickstart")
	s.write("routes.yaml", ping("one")+"colour: blue\n")
	p := s.launch("dataplane --config routes.yaml --control '' --admin ''")
	p.await(`routes.yaml:4:1: `)
	if code := p.exitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// With one that ran before, that one runs until the file is mended.
func TestBrokenConfigOverALastGoodSnapshot(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newSite(t, "quickstart")
	const command = fromState + " --config routes.yaml"
	s.write("routes.yaml", ping("one"))
	p := s.start(command)
	s.reach(p, s.at("127.0.0.1:8080"))
	s.answers("one") // so it is active, and on disk
	p.kill(syscall.SIGKILL)

	s.write("routes.yaml", ping("two")+"colour: blue\n")
	p = s.start(command)
	p.await("the manifest is refused.*routes.yaml:4:1: ")
	s.reach(p, s.at("127.0.0.1:8080"))
	s.answers("one")
	events := s.events()
	s.write("routes.yaml", ping("three"))
	events.await("active: version three,")
	s.answers("three")
}
