// Package headgate_test holds what is true of the module as a whole.
package headgate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/headgate/headgate/"

// floors lists every room of the house from the ground up. A package imports
// only packages of lower floors, so rooms of one floor know nothing of each
// other. "x/..." is x and all below it.
var floors = [][]string{
	{"gen/headgate/config/v1"},
	{"gen/headgate/control/v1"},
	{
		"dataplane/message", "dataplane/socket", "dataplane/certificate/acme", "dataplane/certificate/testca", "dataplane/upstream/resolve/dnstest",
		"dataplane/upstream/balance", "dataplane/upstream/breaker", "dataplane/upstream/health", "dataplane/upstream/limit", "dataplane/upstream/retry",
		"dataplane/filter/sample",
	},
	{"dataplane/http1", "dataplane/http2", "dataplane/route", "dataplane/certificate", "dataplane/certificate/acme/pebble", "dataplane/upstream/pool", "dataplane/upstream/resolve", "dataplane/filter/fault"},
	{"dataplane/snapshot", "dataplane/http3"},
	{"dataplane/upstream", "dataplane/telemetry", "dataplane/listener"},
	{"dataplane/proxy", "dataplane/control", "dataplane/admin"},
	{"dataplane"},
	{"ctl/manifest"},
	{"ctl", "controlplane/..."},
	{"cmd/...", "examples/...", "bench/...", "proto", "dataplane/e2e"}, // the last two have tests alone
}

// boundary is an exception to the rule that a room may use whatever lies
// lower: only these rooms import those, or none of these do.
type boundary struct {
	why    string
	rooms  []string // whom it is about
	except []string // and whom it is not about, though rooms has them
	must   func(imported string) bool
}

var boundaries = []boundary{
	{
		why:    "inside the data plane only snapshot, control and the wiring know generated types",
		rooms:  []string{"dataplane/..."},
		except: []string{"dataplane", "dataplane/snapshot", "dataplane/control"},
		must:   func(imported string) bool { return !within("gen/...", imported) },
	},
	{
		why:   "ctl and the control plane refuse and explain by the proxy's own code, and use nothing else of it",
		rooms: []string{"ctl/...", "controlplane/..."},
		must: func(imported string) bool {
			return !within("dataplane/...", imported) || imported == "dataplane/snapshot" || imported == "dataplane/route"
		},
	},
	{
		why: "the wire and the request path are ours",
		rooms: []string{
			"dataplane/message", "dataplane/socket", "dataplane/http1", "dataplane/http2", "dataplane/http3",
			"dataplane/route", "dataplane/proxy",
		},
		must: func(imported string) bool { return imported != "net/http" },
	},
	{
		why:   "the upstream's machines know no configuration and no wire",
		rooms: []string{"dataplane/upstream/..."}, except: []string{"dataplane/upstream"},
		must: func(imported string) bool {
			return !strings.HasPrefix(imported, "dataplane/") || imported == "dataplane/socket" ||
				within("dataplane/upstream/...", imported)
		},
	},
	{
		why: "these are pure: they open, start and ask for nothing",
		rooms: []string{
			"dataplane/message", "dataplane/http1", "dataplane/route", "dataplane/snapshot",
			"dataplane/upstream/balance", "dataplane/upstream/breaker", "dataplane/upstream/health", "dataplane/upstream/limit", "dataplane/upstream/retry",
			"dataplane/filter/...",
		},
		must: func(imported string) bool { return !slices.Contains([]string{"os", "os/exec", "syscall"}, imported) },
	},
}

// within reports whether path is what pattern names.
func within(pattern, path string) bool {
	tree, deep := strings.CutSuffix(pattern, "/...")
	return path == tree || deep && strings.HasPrefix(path, tree+"/")
}

func withinAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return within(pattern, path) })
}

// floorOf returns the floor of a package, or -1 if it has none.
func floorOf(path string) int {
	return slices.IndexFunc(floors, func(rooms []string) bool { return withinAny(rooms, path) })
}

// room is a package of the module; paths of the module lack its name.
type room struct {
	ImportPath string   `json:"ImportPath"`
	Imports    []string `json:"Imports"`
}

// rooms lists the module's packages with what they import, tests left out.
func rooms(t *testing.T) []room {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-pgo=off", "-e", "-deps", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []room
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var r room
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("go list's answer: %v", err)
		}
		if !strings.HasPrefix(r.ImportPath, module) {
			continue
		}
		r.ImportPath = strings.TrimPrefix(r.ImportPath, module)
		for i := range r.Imports {
			r.Imports[i] = strings.TrimPrefix(r.Imports[i], module)
		}
		list = append(list, r)
	}
}

// faults says what is wrong with the imports of one room.
func faults(r room) []string {
	floor := floorOf(r.ImportPath)
	if floor < 0 {
		return []string{r.ImportPath + " has no floor; give it one in layering_test.go"}
	}
	var list []string
	for _, imported := range r.Imports {
		// What stands on the top floor is a program of its own folder.
		top := floor == len(floors)-1
		if other := floorOf(imported); other >= floor && !top {
			list = append(list, fmt.Sprintf("%s (floor %d) imports %s (floor %d); imports run downwards", r.ImportPath, floor, imported, other))
		}
		for _, b := range boundaries {
			if withinAny(b.rooms, r.ImportPath) && !slices.Contains(b.except, r.ImportPath) && !b.must(imported) {
				list = append(list, fmt.Sprintf("%s imports %s; %s", r.ImportPath, imported, b.why))
			}
		}
	}
	return list
}

func TestImportsRunDownwards(t *testing.T) {
	list := rooms(t)
	if len(list) < 10 {
		t.Fatalf("go list found %d packages; that is not this module", len(list))
	}
	for _, r := range list {
		for _, fault := range faults(r) {
			t.Error(fault)
		}
	}
}

// The rules themselves, on imports that must not be.
func TestImportsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ importer, imported, want string }{
		{"dataplane/route", "dataplane/message", ""},
		{"cmd/dataplane", "dataplane", ""},
		{"ctl", "dataplane/snapshot", ""},
		{"dataplane/message", "dataplane/http1", "imports run downwards"},
		{"dataplane/telemetry", "dataplane/upstream", "imports run downwards"},
		{"dataplane/proxy", "gen/headgate/config/v1", "only snapshot, control and the wiring"},
		{"ctl", "dataplane/proxy", "nothing else of it"},
		{"controlplane/rollout", "dataplane/control", "nothing else of it"},
		{"dataplane/proxy", "net/http", "the request path are ours"},
		{"dataplane/upstream/pool", "dataplane/message", "know no configuration"},
		{"dataplane/route", "os", "pure"},
		{"attic", "fmt", "has no floor"},
	} {
		got := strings.Join(faults(room{tt.importer, []string{tt.imported}}), "\n")
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s: %q, want %q in it", tt.importer, tt.imported, got, tt.want)
		}
	}
}
