package control

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// saverDir makes this test binary a process that saves generations into that
// directory as fast as it can, and says each number once it is durable.
const saverDir = "HEADGATE_TEST_SAVER_DIR"

func runSaver(dir string) {
	s, err := OpenStore(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for n := s.Last() + 1; ; n++ {
		if err := s.SetTerm(n); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if err := s.Save(meta(n), body(n)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// TestKill kills a process with SIGKILL while it saves, some generations after
// it began, and looks at what a restart finds: the last one that was said to be
// durable, or the one after it, whole.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 10 {
		said := killedSaver(t, dir, rand.IntN(20), time.Duration(rand.IntN(2000))*time.Microsecond)
		s, err := OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := newestGood(t, s)
		if got != said && got != said+1 {
			t.Errorf("round %d: generation %d after a restart, %d was said", round, got, said)
		}
		if s.Term() < said || len(s.Faults()) != 0 {
			t.Errorf("round %d: term %d, faults %v", round, s.Term(), s.Faults())
		}
		_ = s.Close()
	}
}

// killedSaver returns the last number that the process said. Its end may come
// at any moment after it said so many.
func killedSaver(t *testing.T, dir string, lines int, after time.Duration) (said uint64) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), saverDir+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	text := bufio.NewScanner(out)
	for n := 0; text.Scan(); n++ {
		if n == lines {
			time.AfterFunc(after, func() { _ = c.Process.Kill() })
		}
		all.WriteString(text.Text() + "\n")
		if _, err := fmt.Sscan(text.Text(), &said); err != nil {
			t.Fatalf("the saver says %q", all.String())
		}
	}
	_ = c.Wait()
	return said
}
