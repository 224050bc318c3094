package snapshot

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// What is put together of the resources is what protobuf makes of the whole,
// however the snapshot came about.
func TestEncodedIsTheSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &configv1.Snapshot{}
		var prev *Snapshot
		for range rapid.IntRange(1, 12).Draw(t, "edits") {
			in = &configv1.Snapshot{Version: in.Version, Listeners: slices.Clone(in.Listeners), Clusters: slices.Clone(in.Clusters), Routes: slices.Clone(in.Routes)}
			edit(t, in)
			want, err := deterministic.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			next := prev
			for _, compile := range []func(*Snapshot, *configv1.Snapshot) (*Snapshot, []Violation){CompileFrom, CompilePatched} {
				s, _ := compile(prev, in)
				if s == nil {
					continue
				}
				if got := s.Encoded(); !bytes.Equal(got, want) {
					t.Fatalf("%x, not %x", got, want)
				}
				next = s
			}
			prev = next
		}
	})
}

// Every field of a snapshot but the version is in its contents, under its
// number and as protobuf has it, and a nil resource is an empty one.
func TestEncodeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &configv1.Snapshot{}
		anything(t, in.ProtoReflect(), 0)
		in.Version = ""
		if rapid.Bool().Draw(t, "nil") {
			in.Routes = append(in.Routes, nil)
		}
		in.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x07, 0x01})
		want, err := deterministic.Marshal(in)
		if err != nil {
			return // it holds text that is not UTF-8
		}
		out := &Snapshot{Source: in, made: made{contents: encode(in, nil, nil)}}
		unknown := out.made.contents[0].wire
		delete(out.made.contents, 0)
		if got := string(out.Encoded()) + unknown; got != string(want) {
			t.Fatalf("%x, not %x", got, want)
		}
	})
}

// A resource that is the same in content keeps its digest, and one that is the
// same message is not even read.
func TestSharedIsNotRead(t *testing.T) {
	in := large(3)
	known := encode(in, nil, nil)
	in.Routes[1].Name = "written against the rule"
	if again := encode(in, in, known); again.digest() != known.digest() {
		t.Error("a message that is shared was read")
	}
	if again := encode(in, nil, known); again.digest() == known.digest() {
		t.Error("a message that is not shared was not read")
	}
}

// Text that cannot be encoded is refused where it stands, even if no rule of its
// field does.
func TestTextIsUTF8(t *testing.T) {
	in := large(2)
	in.Routes[1].Action = &configv1.Route_Respond{Respond: &configv1.Respond{Body: "a\xff"}}
	before := mustCompile(t, nil, large(2))
	s, violations := CompileFrom(before, in)
	if s != nil {
		t.Fatal("accepted")
	}
	at := slices.IndexFunc(violations, func(v Violation) bool { return v.Rule == RuleText })
	if at < 0 || violations[at].Path != "routes[1].respond.body" || violations[at].Message != "is not UTF-8" {
		t.Error(violations)
	}
}
