package message

import (
	"slices"
	"testing"
)

func fields(pairs ...string) *Fields {
	f := &Fields{}
	for i := 0; i < len(pairs); i += 2 {
		f.Add([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	return f
}

func lines(f *Fields) []string {
	var out []string
	for _, field := range f.All() {
		out = append(out, string(field.Name)+"="+string(field.Value))
	}
	return out
}

func TestFieldsLookup(t *testing.T) {
	f := fields("Host", "h", "X-A", "1", "x-a", "2", "Via", "")
	for _, c := range []struct {
		name, value string
		found       bool
	}{{"HOST", "h", true}, {"X-a", "1", true}, {"via", "", true}, {"X-B", "", false}, {"Cookie", "", false}} {
		got, found := f.Lookup([]byte(c.name))
		if string(got) != c.value || found != c.found {
			t.Errorf("Lookup(%s) = %q, %v", c.name, got, found)
		}
	}
	if string(f.Get(Host)) != "h" || f.Get(Cookie) != nil || !f.Has(Via) || f.Has(Cookie) || f.Len() != 4 {
		t.Error("Get or Has")
	}
	f.Reset()
	if f.Has(Host) || f.Len() != 0 {
		t.Error("Reset left something")
	}
}

func TestFieldsSet(t *testing.T) {
	f := fields("Host", "h", "X-A", "1", "Via", "v", "x-a", "2", "X-B", "3")
	f.Set([]byte("X-a"), []byte("9"))
	f.Set([]byte("host"), []byte("g"))
	f.Set([]byte("Cookie"), []byte("c"))
	want := []string{"Host=g", "X-A=9", "Via=v", "X-B=3", "Cookie=c"}
	if got := lines(f); !slices.Equal(got, want) || !f.Has(Cookie) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFieldsDel(t *testing.T) {
	f := fields("Host", "h", "X-A", "1", "Via", "v", "x-a", "2", "via", "w")
	if !f.Del([]byte("X-a")) || f.Del([]byte("X-B")) || f.Del([]byte("Cookie")) || !f.DelID(Via) || f.DelID(Via) || f.DelID(Other) {
		t.Error("Del says whether there was one")
	}
	if got := lines(f); !slices.Equal(got, []string{"Host=h"}) || f.Has(Via) {
		t.Errorf("left %q", got)
	}
	if !f.Del([]byte("HOST")) || f.Has(Host) || f.Get(Host) != nil {
		t.Error("Host is still there")
	}
}

func TestFieldsLists(t *testing.T) {
	f := fields("TE", "gzip;q=1", "te", " , Trailers,x", "Via", "a")
	if !f.ListContains(TE, "trailers") || f.ListContains(TE, "gzip") || f.ListContains(Cookie, "x") || f.Count(TE) != 2 || f.Count(Host) != 0 {
		t.Error("ListContains or Count")
	}
	for value := range f.Values(TE) {
		if string(value) != "gzip;q=1" {
			t.Errorf("first value %q", value)
		}
		break
	}
	var members []string
	for m := range List([]byte(" a,, b\t,c d,")) {
		members = append(members, string(m))
	}
	if !slices.Equal(members, []string{"a", "b", "c d"}) {
		t.Errorf("members %q", members)
	}
	if ListContains(nil, "a") || ListContains([]byte("ab"), "a") || !ListContains([]byte("b,A"), "a") {
		t.Error("ListContains")
	}
}

func TestConnectionNames(t *testing.T) {
	f := fields("Connection", "keep-alive, X-Hop", "connection", "Host,COOKIE", "X-Hop", "1")
	for name, want := range map[string]bool{"x-hop": true, "Cookie": true, "Host": false, "Keep-Alive": true, "X-Other": false, "Hop": false} {
		if got := f.ConnectionNames(Intern([]byte(name)), []byte(name)); got != want {
			t.Errorf("ConnectionNames(%s) = %v", name, got)
		}
	}
	if fields("X-Hop", "1").ConnectionNames(Other, []byte("X-Hop")) {
		t.Error("named without a Connection field")
	}
}

func TestUnderscore(t *testing.T) {
	for name, want := range map[string]bool{"X_Auth": true, "X-Auth": false, "_": true, "": false} {
		f := Field{Name: []byte(name)}
		if f.Underscore() != want {
			t.Errorf("%q", name)
		}
	}
}

func TestFieldsAllocateNothing(t *testing.T) {
	f := fields("Host", "h", "Connection", "a, b", "TE", "x, trailers", "X-Other", "y")
	name := []byte("x-other")
	if n := testing.AllocsPerRun(100, func() {
		f.ListContains(TE, "trailers")
		f.ConnectionNames(Other, name)
		f.Lookup(name)
		f.Set(name, name)
		f.Del(name)
		f.Add(name, name)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMethods(t *testing.T) {
	for m := MethodGet; m < MethodOther; m++ {
		if got := ParseMethod([]byte(m.String())); got != m || m.String() == "" {
			t.Errorf("%v gives %v", m, got)
		}
	}
	if ParseMethod([]byte("get")) != MethodOther || MethodOther.String() != "" || Method(200).String() != "" {
		t.Error("other methods")
	}
	for m, want := range map[Method]bool{MethodGet: true, MethodPut: true, MethodPost: false, MethodPatch: false, MethodConnect: false, MethodOther: false} {
		r := Request{Method: m}
		if r.Idempotent() != want {
			t.Errorf("%v", m)
		}
	}
}
