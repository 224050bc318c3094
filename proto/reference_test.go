// Package proto_test holds the configuration language to its promises: a manifest that uses every field parses and
// is valid, presence is kept where absent and zero differ, and each bad value is reported at its own field.
package proto_test

import (
	"os"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

func reference(t *testing.T) *configv1.Snapshot {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

func parse(t *testing.T, manifest string) *configv1.Snapshot {
	t.Helper()
	snapshot := &configv1.Snapshot{}
	if err := protoyaml.Unmarshal([]byte(manifest), snapshot); err != nil {
		t.Fatalf("parse: %v", err)
	}
	return snapshot
}

func TestReferenceIsValid(t *testing.T) {
	if err := protovalidate.Validate(reference(t)); err != nil {
		t.Fatal(err)
	}
}

// A field that the manifest does not use is a field that no test has ever parsed.
func TestReferenceUsesEveryField(t *testing.T) {
	used := map[protoreflect.FullName]bool{}
	collectUsed(reference(t).ProtoReflect(), used)
	known := map[protoreflect.FullName]bool{}
	collectKnown((&configv1.Snapshot{}).ProtoReflect().Descriptor(), known)
	for name := range known {
		if !used[name] {
			t.Errorf("testdata/reference.yaml does not use %s", name)
		}
	}
}

func collectUsed(message protoreflect.Message, used map[protoreflect.FullName]bool) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		used[field.FullName()] = true
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				collectUsed(value.List().Get(i).Message(), used)
			}
		default:
			collectUsed(value.Message(), used)
		}
		return true
	})
}

func collectKnown(message protoreflect.MessageDescriptor, known map[protoreflect.FullName]bool) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if known[field.FullName()] {
			continue
		}
		known[field.FullName()] = true
		if inner := field.Message(); inner != nil && inner.ParentFile().Package() == message.ParentFile().Package() {
			collectKnown(inner, known)
		}
	}
}

func TestReferenceSurvivesEveryForm(t *testing.T) {
	want := reference(t)
	forms := map[string]func(*configv1.Snapshot) (*configv1.Snapshot, error){
		"yaml": func(in *configv1.Snapshot) (*configv1.Snapshot, error) {
			data, err := protoyaml.Marshal(in)
			if err != nil {
				return nil, err
			}
			out := &configv1.Snapshot{}
			return out, protoyaml.Unmarshal(data, out)
		},
		"json": func(in *configv1.Snapshot) (*configv1.Snapshot, error) {
			data, err := protojson.Marshal(in)
			if err != nil {
				return nil, err
			}
			out := &configv1.Snapshot{}
			return out, protojson.Unmarshal(data, out)
		},
		"wire": func(in *configv1.Snapshot) (*configv1.Snapshot, error) {
			data, err := proto.Marshal(in)
			if err != nil {
				return nil, err
			}
			out := &configv1.Snapshot{}
			return out, proto.Unmarshal(data, out)
		},
	}
	for name, there := range forms {
		t.Run(name, func(t *testing.T) {
			got, err := there(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDurationsAreWrittenWithUnits(t *testing.T) {
	snapshot := parse(t, `clusters: [{name: a, slowStart: 1h30m, timeouts: {connect: 25ms, keepAlive: 600s}}]`)
	cluster := snapshot.GetClusters()[0]
	got := []time.Duration{
		cluster.GetSlowStart().AsDuration(),
		cluster.GetTimeouts().GetConnect().AsDuration(),
		cluster.GetTimeouts().GetKeepAlive().AsDuration(),
	}
	want := []time.Duration{90 * time.Minute, 25 * time.Millisecond, 10 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Silence means the default, and zero means zero, also for a list.
func TestAbsentAndZeroDiffer(t *testing.T) {
	snapshot := parse(t, `
clusters:
  - {name: silent, endpoints: [{address: "a:1"}], timeouts: {}}
  - {name: zero, endpoints: [{address: "a:1", weight: 0}], panicThreshold: 0, timeouts: {keepAlive: 0s}}
routes:
  - {name: silent, respond: {}}
  - {name: zero, respond: {}, upgrades: []}
`)
	silent, zero := snapshot.GetClusters()[0], snapshot.GetClusters()[1]
	for name, present := range map[string][2]bool{
		"weight":         {silent.GetEndpoints()[0].Weight != nil, zero.GetEndpoints()[0].Weight != nil},
		"panicThreshold": {silent.PanicThreshold != nil, zero.PanicThreshold != nil},
		"keepAlive":      {silent.GetTimeouts().GetKeepAlive() != nil, zero.GetTimeouts().GetKeepAlive() != nil},
		"upgrades":       {snapshot.GetRoutes()[0].GetUpgrades() != nil, snapshot.GetRoutes()[1].GetUpgrades() != nil},
	} {
		if present != [2]bool{false, true} {
			t.Errorf("%s: present when silent: %v, present when zero: %v", name, present[0], present[1])
		}
	}
}

// What must never be shown is marked in the language itself, so that whoever redacts needs no list of its own.
func TestSecretsAreMarked(t *testing.T) {
	for _, name := range []protoreflect.FullName{
		"headgate.config.v1.Certificate.private_key_pem",
		"headgate.config.v1.BasicUser.sha256",
		"headgate.config.v1.BasicUser.bcrypt",
	} {
		if !marked(name) {
			t.Errorf("%s is not marked debug_redact", name)
		}
	}
	if marked("headgate.config.v1.Certificate.private_key_file") {
		t.Error("a file's path is marked as a secret")
	}
}
