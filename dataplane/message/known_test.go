package message

import (
	"strings"
	"testing"
)

func TestInternKnowsEveryName(t *testing.T) {
	for id := ID(1); id < lastID; id++ {
		name := names[id]
		for _, form := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			if got := Intern([]byte(form)); got != id {
				t.Errorf("Intern(%q) = %d, want %d", form, got, id)
			}
		}
		if id.String() != name {
			t.Errorf("ID(%d).String() = %q, want %q", id, id.String(), name)
		}
	}
}

// One byte that differs is another name, also where only the case bit differs
// and the byte is no letter: 0x0d is "-" without it.
func TestInternIsExact(t *testing.T) {
	for id := ID(1); id < lastID; id++ {
		for i := range names[id] {
			for c := range 256 {
				name := []byte(names[id])
				name[i] = byte(c)
				want := Other
				if lower(byte(c)) == names[id][i] {
					want = id
				} else if got := Intern(name); got != Other && EqualToken(name, names[got]) {
					want = got
				}
				if got := Intern(name); got != want {
					t.Fatalf("Intern(%q) = %v, want %v", name, got, want)
				}
			}
		}
	}
}

func TestInternOther(t *testing.T) {
	for _, name := range []string{"", "x", "te\x00", "hos", "hostx", "accept-language", strings.Repeat("a", 300), strings.Repeat("h", 256+4)} {
		if got := Intern([]byte(name)); got != Other {
			t.Errorf("Intern(%q) = %v", name, got)
		}
	}
	if Other.String() != "" || ID(255).String() != "" || Other.HopByHop() || ID(255).Protected() {
		t.Error("Other or an invalid ID has a name or a property")
	}
}

func BenchmarkIntern(b *testing.B) {
	names := [][]byte{[]byte("Host"), []byte("User-Agent"), []byte("Accept"), []byte("Accept-Encoding"),
		[]byte("Accept-Language"), []byte("Connection"), []byte("Cookie"), []byte("X-Forwarded-For")}
	i := 0
	for b.Loop() {
		Intern(names[i&7])
		i++
	}
}
