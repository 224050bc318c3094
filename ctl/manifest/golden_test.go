package manifest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/snapshot"
)

var update = flag.Bool("update", false, "write what is printed into the archives")

// Each archive in testdata/faults is a manifest in one file or several, and in
// its last file, "printed", what a user sees of it: every fault, with its place.
func TestFaults(t *testing.T) {
	archives, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { testArchive(t, name) })
	}
}

func testArchive(t *testing.T, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text, want, _ := strings.Cut(string(data), "-- printed --\n")
	got := printed(t, archived(text))
	if *update {
		if err := os.WriteFile(name, []byte(text+"-- printed --\n"+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// archived takes an archive apart: a line "-- name --" begins a file, and what
// is before the first one is a comment.
func archived(text string) []Source {
	var out []Source
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(line, "-- ")
		if name, end := strings.CutSuffix(name, " --\n"); ok && end {
			out = append(out, Source{Name: name})
		} else if len(out) > 0 {
			last := &out[len(out)-1]
			last.Data = append(last.Data, line...)
		}
	}
	return out
}

// printed is what a user sees of a manifest.
func printed(t *testing.T, sources []Source) string {
	m, faults := Parse(sources...)
	if (m == nil) != (len(faults) > 0) {
		t.Fatalf("a manifest and %d faults", len(faults))
	}
	if m != nil {
		_, violations := snapshot.Compile(m.Snapshot)
		faults = m.Faults(violations)
	}
	var out bytes.Buffer
	for _, f := range faults {
		if err := f.Write(&out, false); err != nil {
			t.Fatal(err)
		}
	}
	if len(faults) == 0 {
		out.WriteString("no faults\n")
	}
	return out.String()
}
