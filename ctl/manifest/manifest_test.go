package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// reference is the whole language by example.
func reference(tb testing.TB) *Manifest {
	tb.Helper()
	m, faults := Read("../../dataplane/snapshot/testdata/reference.yaml")
	if m == nil {
		tb.Fatal(faults)
	}
	return m
}

// What is written is read as the same again, in YAML and in JSON.
func TestRoundTrip(t *testing.T) { roundTrip(t, reference(t).Snapshot) }

// What would be a line break to a parser of YAML is written as an escape.
func TestRoundTripOfBreaks(t *testing.T) {
	const value = "a\u0085b\u2028c\u2029d\re\nf"
	roundTrip(t, &configv1.Snapshot{Version: value, Listeners: []*configv1.Listener{{Name: value}}})
}

func roundTrip(t *testing.T, in *configv1.Snapshot) {
	t.Helper()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"yaml": func(b *bytes.Buffer) error { return Write(b, in) },
		"json": func(b *bytes.Buffer) error { return WriteJSON(b, in) },
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatal(name, err)
		}
		out, faults := Parse(Source{Name: name, Data: text.Bytes()})
		if out == nil {
			t.Fatal(name, faults, text.String())
		}
		if diff := cmp.Diff(in, out.Snapshot, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if snapshot.Digest(in) != snapshot.Digest(out.Snapshot) {
			t.Errorf("%s: another digest", name)
		}
	}
}

// The order of the fields, and what goes on one line, are those of the example.
func TestWrite(t *testing.T) {
	var got bytes.Buffer
	if err := Write(&got, reference(t).Snapshot); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/written.yaml"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// Texts that YAML would take for something else come back as they were.
func TestWriteTexts(t *testing.T) {
	for _, s := range []string{
		"true", "null", "~", "1", "1e3", "0x10", "", " ", "a: b", "# c", "- d", "a\nb\n", "\n", "a\n\n  b", "\t", "é", "\u2028", "\x7f",
		"'", `"`, `\`, "{a}", "[b]", "*x", "&y", "!z", "@", "`", "%", "|", ">", "2026-11-29", "---", "...", "<<", "=", "yes", strings.Repeat("x", 300),
	} {
		in := &configv1.Snapshot{Routes: []*configv1.Route{{
			Name:   s,
			Hosts:  []string{s},
			Action: &configv1.Route_Respond{Respond: &configv1.Respond{Body: s}},
		}}}
		var text bytes.Buffer
		if err := Write(&text, in); err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		out, faults := Parse(Source{Name: "x", Data: text.Bytes()})
		if out == nil || !proto.Equal(in, out.Snapshot) {
			t.Errorf("%q: %v\n%s", s, faults, text.String())
		}
	}
}

func TestWriteEmpty(t *testing.T) {
	var text bytes.Buffer
	if err := Write(&text, &configv1.Snapshot{}); err != nil || text.String() != "{}\n" {
		t.Errorf("%q %v", text.String(), err)
	}
}

func TestLocate(t *testing.T) {
	m, faults := Parse(Source{Name: "a", Data: []byte(`
clusters:
  - name: c
    endpoints:
      - {address: "10.0.0.1:80", weight: 3}
routes:
  - name: r
`)}, Source{Name: "b", Data: []byte(`# more
routes:
  - name: s
    forward:
      backends: [{cluster: c}]
`)})
	if m == nil {
		t.Fatal(faults)
	}
	for _, test := range []struct {
		path         string
		file         string
		line, column int
	}{
		{"clusters", "a", 2, 1},
		{"clusters[0]", "a", 3, 5},
		{"clusters[0].name", "a", 3, 11},
		{"clusters[0].endpoints", "a", 4, 5},
		{"clusters[0].endpoints[0].weight", "a", 5, 42},
		{"clusters[0].endpoints[0].zone", "a", 5, 9},
		{"clusters[0].endpoints[7]", "a", 4, 5},
		{"routes[0].name", "a", 7, 11},
		{"routes[1].name", "b", 3, 11},
		{"routes[1].forward", "b", 4, 5},
		{"routes[1].forward.backends[0].cluster", "b", 5, 28},
		{"routes[2]", "a", 0, 0},
		{"telemetry", "a", 0, 0},
		{"", "a", 0, 0},
	} {
		file, line, column := m.Locate(test.path)
		if file != test.file || line != test.line || column != test.column {
			t.Errorf("%s: %s:%d:%d, want %s:%d:%d", test.path, file, line, column, test.file, test.line, test.column)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte("version: a"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, faults := ReadWith(strings.NewReader("listeners: []"), file, "-")
	if m == nil || m.Snapshot.GetVersion() != "a" {
		t.Error(m, faults)
	}
	missing := filepath.Join(dir, "b.yaml")
	if m, faults := Read(missing, dir); m != nil || len(faults) != 2 || faults[0].Error() != missing+": no such file or directory" {
		t.Error(m, faults)
	}
	if m, faults := ReadWith(strings.NewReader("a: ["), "-"); m != nil || faults[0].File != "<stdin>" {
		t.Error(m, faults)
	}
	if m, faults := Read(); m != nil || len(faults) != 1 {
		t.Error(m, faults)
	}
}

// endless is a file without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestReadIsBounded(t *testing.T) {
	if _, err := readFile(endless{}, Stdin, 1000); err == nil {
		t.Error("read without bound")
	}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		text string
		want []piece
	}{
		{"a", []piece{{[]byte("a"), 0}}},
		{"a\n---\nb\n", []piece{{[]byte("a\n"), 0}, {[]byte("---\nb\n"), 1}}},
		{"---\na\n--- b\n", []piece{{[]byte("---\na\n"), 0}, {[]byte("--- b\n"), 2}}},
		{"# c\n%YAML 1.1\n---\na\n...\nb", []piece{{[]byte("# c\n%YAML 1.1\n---\na\n"), 0}, {[]byte("b"), 5}}},
		{"a\r\n---\r\nb", []piece{{[]byte("a\r\n"), 0}, {[]byte("---\r\nb"), 1}}},
		{"--- |\n a\n ---\n----\n", []piece{{[]byte("--- |\n a\n ---\n----\n"), 0}}},
	} {
		got := split([]byte(test.text))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(piece{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestFaultInColour(t *testing.T) {
	f := Fault{File: "a", Line: 3, Column: 2, Width: 2, FieldPath: "x", Message: "is wrong", Hint: "be right", Source: "[ab]\x1b[2J"}
	var got bytes.Buffer
	if err := f.Write(&got, true); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[1ma:3:2: \x1b[0m\x1b[1;31merror: \x1b[0m\x1b[1mx\x1b[0m: is wrong\n" +
		"\x1b[34m    3 | \x1b[0m[ab]\uFFFD[2J\n\x1b[34m      | \x1b[0m\x1b[1;31m ^^\x1b[0m\n\x1b[34m      = \x1b[0mbe right\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "a:3:2: x: is wrong (be right)"; f.Error() != want {
		t.Errorf("%s, want %s", f.Error(), want)
	}
}

// Nothing that is read makes it fail otherwise than by saying so; what is
// accepted can be written and read again; and every fault can be shown.
func FuzzManifest(f *testing.F) {
	archives, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(archives, "testdata/written.yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), "-- printed --\n")
		for _, source := range archived(text) {
			f.Add(source.Data)
		}
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, faults := Parse(Source{Name: "f", Data: data})
		if (m == nil) != (len(faults) > 0) {
			t.Fatalf("a manifest %v and %d faults", m != nil, len(faults))
		}
		if m != nil {
			again(t, m)
			_, violations := snapshot.Compile(m.Snapshot)
			faults = m.Faults(violations)
		}
		for _, fault := range faults {
			var shown bytes.Buffer
			if err := fault.Write(&shown, false); err != nil || fault.Message == "" {
				t.Fatalf("%+v %v", fault, err)
			}
			if strings.ContainsAny(shown.String(), "\x1b\r") {
				t.Fatalf("steers the terminal: %q", shown.String())
			}
		}
	})
}

// again writes a manifest and reads it back.
func again(t *testing.T, m *Manifest) {
	var text bytes.Buffer
	if err := Write(&text, m.Snapshot); err != nil {
		t.Fatal(err)
	}
	if proto.Size(m.Snapshot) == 0 {
		return
	}
	out, faults := Parse(Source{Name: "again", Data: text.Bytes()})
	if out == nil || snapshot.Digest(out.Snapshot) != snapshot.Digest(m.Snapshot) {
		t.Fatalf("%v\n%s", faults, text.String())
	}
}

// A line ends with a newline, a carriage return or both, and nothing else.
func TestLines(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"carriage returns": {"version: a\rlisteners:\r- limits: {maxHeaders: many}\r", "f:3:24: listeners[0].limits.maxHeaders: \"many\" is not a whole number from 0 to 4294967295"},
		"both":             {"version: a\r\n---\r\nlisteners:\r\n- limits: {maxHeaders: many}\r\n", "f:4:24: listeners[0].limits.maxHeaders: \"many\" is not a whole number from 0 to 4294967295"},
		"next line":        {"version: a\u0085b\n", `f:1:11: U+0085 is a line break in one version of YAML and none in another (write it as "\u0085", in double quotes)`},
		"line separator":   {"version: a\nnode: é\u2028b\n", `f:2:8: U+2028 is a line break in one version of YAML and none in another (write it as "\u2028", in double quotes)`},
		"UTF-16":           {"\xff\xfev\x00e\x00r\x00", "f:1:1: byte 0xff is not UTF-8 (save the file as UTF-8)"},
		"Latin-1":          {"version: a\r\rnode: \xe9\r", "f:3:7: byte 0xe9 is not UTF-8 (save the file as UTF-8)"},
	} {
		_, faults := Parse(Source{Name: "f", Data: []byte(test.data)})
		if len(faults) != 1 || faults[0].Error() != test.want {
			t.Errorf("%s: %q, want %s", name, faults, test.want)
		}
	}
}
