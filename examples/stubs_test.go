package examples_test

import (
	"encoding/base64"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// embedded is the description of a .proto file inside of its JavaScript stub.
var embedded = regexp.MustCompile(`fileDesc\("([^"]+)"`)

// The JavaScript stubs are generated from the same files as the Go ones. Only
// npm run generate makes them, so a change of the API could pass them by.
func TestStubsAreOfTheAPI(t *testing.T) {
	root := filepath.Join("controlplane-node", "gen")
	stubs := append(glob(t, root+"/headgate/config/v1/*.js"), glob(t, root+"/headgate/control/v1/*.js")...)
	if len(stubs) < 20 {
		t.Fatalf("%d stubs", len(stubs))
	}
	for _, stub := range stubs {
		relative, err := filepath.Rel(root, stub)
		if err != nil {
			t.Fatal(err)
		}
		file, err := protoregistry.GlobalFiles.FindFileByPath(strings.TrimSuffix(filepath.ToSlash(relative), "_pb.js") + ".proto")
		if err != nil {
			t.Errorf("%s: %v", stub, err)
			continue
		}
		if diff := cmp.Diff(plain(protodesc.ToFileDescriptorProto(file)), plain(description(t, stub)), protocmp.Transform()); diff != "" {
			t.Errorf("%s is not what npm run generate makes (-proto +stub):\n%s", stub, diff)
		}
	}
}

func description(t *testing.T, stub string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	found := embedded.FindSubmatch(mustRead(t, stub))
	if found == nil {
		t.Fatalf("%s describes no file", stub)
	}
	wire, err := base64.RawStdEncoding.DecodeString(string(found[1]))
	file := &descriptorpb.FileDescriptorProto{}
	if err == nil {
		err = proto.Unmarshal(wire, file)
	}
	if err != nil {
		t.Fatalf("%s: %v", stub, err)
	}
	return file
}

// plain leaves out what a generator may leave out: it follows from the rest.
func plain(file *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	file = proto.CloneOf(file)
	file.Dependency, file.PublicDependency, file.WeakDependency = nil, nil, nil
	for _, message := range file.MessageType {
		withoutJSONNames(message)
	}
	return file
}

func withoutJSONNames(message *descriptorpb.DescriptorProto) {
	for _, field := range message.Field {
		field.JsonName = nil
	}
	for _, nested := range message.NestedType {
		withoutJSONNames(nested)
	}
}
