package message

import (
	"errors"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNormalizePath(t *testing.T) {
	for _, c := range []struct{ in, merged, kept string }{
		{"/", "/", "/"},
		{"/a/b", "/a/b", "/a/b"},
		{"/a/b/", "/a/b/", "/a/b/"},
		{"", "/", "/"},
		{"a", "/a", "/a"},
		{"..", "/", "/"},
		// Case 18 of the field: one form to match and to forward.
		{"//admin", "/admin", "//admin"},
		{"/x/../admin", "/admin", "/admin"},
		{"/x/%2e%2e/admin", "/admin", "/admin"},
		{"/x/%2E./admin", "/admin", "/admin"},
		{"/x/.%2e/admin", "/admin", "/admin"},
		{"///x//../admin", "/admin", "///x/admin"},
		// Case 17: an escaped slash is no slash, and nothing is decoded twice.
		{"/a%2Fb", "/a%2Fb", "/a%2Fb"},
		{"/a%2fb", "/a%2fb", "/a%2fb"},
		{"/a%252Fb", "/a%252Fb", "/a%252Fb"},
		{"/a%5Cb", "/a%5Cb", "/a%5Cb"},
		{"/x/..%2fadmin", "/x/..%2fadmin", "/x/..%2fadmin"},
		{"/%252e%252e/a", "/%252e%252e/a", "/%252e%252e/a"},
		// Escapes of unreserved bytes (RFC 3986 section 6.2.2.2).
		{"/%41%7A%30%2D%5F%7e", "/Az0-_~", "/Az0-_~"},
		{"/%61dmin", "/admin", "/admin"},
		{"/%3F%23%20%c3%A9%25", "/%3F%23%20%c3%A9%25", "/%3F%23%20%c3%A9%25"},
		{"/a;b=c:d@e!$&'()*+,", "/a;b=c:d@e!$&'()*+,", "/a;b=c:d@e!$&'()*+,"},
		{`/"<>^` + "`{|}", `/"<>^` + "`{|}", `/"<>^` + "`{|}"},
		// Dot segments (RFC 3986 section 5.2.4).
		{"/.", "/", "/"},
		{"/..", "/", "/"},
		{"/../", "/", "/"},
		{"/../..", "/", "/"},
		{"/../a", "/a", "/a"},
		{"/./a", "/a", "/a"},
		{"/a/.", "/a/", "/a/"},
		{"/a/./", "/a/", "/a/"},
		{"/a/..", "/", "/"},
		{"/a/../", "/", "/"},
		{"/a/b/..", "/a/", "/a/"},
		{"/a/b/../", "/a/", "/a/"},
		{"/a/b/c/./../../g", "/a/g", "/a/g"},
		{"/a/../../../g", "/g", "/g"},
		{"/...", "/...", "/..."},
		{"/.a/..b/c..", "/.a/..b/c..", "/.a/..b/c.."},
		{"/.well-known/x", "/.well-known/x", "/.well-known/x"},
		// Runs of slashes.
		{"//", "/", "//"},
		{"///", "/", "///"},
		{"/a//b", "/a/b", "/a//b"},
		{"/a//", "/a/", "/a//"},
		{"/a//..", "/", "/a/"},
		{"/a//../b", "/b", "/a/b"},
		{"/a/.//b", "/a/b", "/a//b"},
		{"/a/..//b", "/b", "//b"},
	} {
		for merge, want := range map[bool]string{true: c.merged, false: c.kept} {
			got, err := NormalizePath(nil, []byte(c.in), merge)
			if err != nil || string(got) != want {
				t.Errorf("NormalizePath(%q, %v) = %q, %v; want %q", c.in, merge, got, err, want)
			}
		}
	}
}

func TestNormalizePathRefuses(t *testing.T) {
	for _, c := range []struct {
		in     string
		offset int
		reason string
	}{
		{"/a%", 2, "bad percent escape"},
		{"/a%2", 2, "bad percent escape"},
		{"/a%2/b", 2, "bad percent escape"},
		{"/a%zz", 2, "bad percent escape"},
		{"/a%2x", 2, "bad percent escape"},
		{"/a%u0041", 2, "bad percent escape"},
		{"/%%32%65", 1, "bad percent escape"},
		{"/a/../%", 6, "bad percent escape"},
		{"/a%00", 2, "escaped control byte"},
		{"/a%0a", 2, "escaped control byte"},
		{"/a%0D%0A", 2, "escaped control byte"},
		{"/a%7f", 2, "escaped control byte"},
		{"/a\x00", 2, "control byte"},
		{"/a\n", 2, "control byte"},
		{"/a\x7f", 2, "control byte"},
		{"/a b", 2, "byte that must be escaped"},
		{"/a?b", 2, "byte that must be escaped"},
		{"/a#b", 2, "byte that must be escaped"},
		{`/a\..\b`, 2, "byte that must be escaped"},
		{"/\xc3\xa9", 1, "byte that must be escaped"},
	} {
		for _, merge := range []bool{true, false} {
			got, err := NormalizePath(nil, []byte(c.in), merge)
			var e *PathError
			if got != nil || !errors.As(err, &e) || e.Offset != c.offset || e.Reason != c.reason {
				t.Errorf("NormalizePath(%q, %v) = %q, %#v", c.in, merge, got, err)
			} else if e.Error() != "path: "+c.reason {
				t.Error(e.Error())
			}
		}
	}
}

// paths draws what normalizing has work with.
var paths = rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{
	"/", "/", ".", "..", "a", "bc", "%2e", "%2E", "%2F", "%5c", "%41", "%25", "%32", "~", ":",
})), func(parts []string) string { return "/" + strings.Join(parts, "") })

func TestNormalizePathIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, merge := paths.Draw(t, "path"), rapid.Bool().Draw(t, "merge")
		once, err := NormalizePath(nil, []byte(in), merge)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		twice, err := NormalizePath(nil, once, merge)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q gives %q, which gives %q, %v", in, once, twice, err)
		}
		if once[0] != '/' || merge && strings.Contains(string(once), "//") {
			t.Fatalf("%q gives %q", in, once)
		}
		for segment := range strings.SplitSeq(string(once), "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q gives %q, with a dot segment", in, once)
			}
		}
	})
}

// With slashes merged the result is that of path.Clean, but for the slash at the
// end.
func TestNormalizePathAgreesWithClean(t *testing.T) {
	decode := strings.NewReplacer("%2e", ".", "%2E", ".", "%41", "A", "%32", "2")
	rapid.Check(t, func(t *rapid.T) {
		in := paths.Draw(t, "path")
		got, err := NormalizePath(nil, []byte(in), true)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		want := path.Clean(decode.Replace(in))
		if trimmed := strings.TrimSuffix(string(got), "/"); trimmed != strings.TrimSuffix(want, "/") {
			t.Fatalf("%q gives %q, path.Clean %q", in, got, want)
		}
	})
}

func TestNormalPathIsNotCopied(t *testing.T) {
	in := []byte("/v1/users/42/teams")
	got, err := NormalizePath(make([]byte, 64), in, true)
	if err != nil || &got[0] != &in[0] {
		t.Errorf("%q, %v: copied", got, err)
	}
	dst := make([]byte, 64)
	got, err = NormalizePath(dst, []byte("/a/../b"), true)
	if err != nil || &got[0] != &dst[0] {
		t.Errorf("%q, %v: not in dst", got, err)
	}
}

func TestNormalizePathAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 64)
	for _, in := range []string{"/v1/users", "/a/%2e%2e/b%2Fc//d"} {
		path := []byte(in)
		if n := testing.AllocsPerRun(100, func() { NormalizePath(dst, path, true) }); n != 0 {
			t.Errorf("%q: %v allocations", in, n)
		}
	}
}

func BenchmarkNormalizePath(b *testing.B) {
	dst := make([]byte, 0, 64)
	for _, in := range []string{"/v1/users/42/teams", "/v1/users/../%61dmin"} {
		b.Run(in, func(b *testing.B) {
			path := []byte(in)
			for b.Loop() {
				NormalizePath(dst, path, true)
			}
		})
	}
}
