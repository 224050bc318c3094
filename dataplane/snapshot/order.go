package snapshot

import (
	"cmp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// inOrder compares two violations by where their fields stand: as the language
// declares them, and in lists by index. What concerns the whole comes first.
func inOrder(a, b Violation) int {
	at := (*configv1.Snapshot)(nil).ProtoReflect().Descriptor()
	pathA, pathB := a.Path, b.Path
	for pathA != "" && pathB != "" {
		stepA, restA := cutStep(pathA)
		stepB, restB := cutStep(pathB)
		if order := cmp.Or(cmp.Compare(position(at, stepA.name), position(at, stepB.name)),
			cmp.Compare(stepA.name, stepB.name), cmp.Compare(stepA.index, stepB.index)); order != 0 {
			return order
		}
		at, pathA, pathB = below(at, stepA.name), restA, restB
	}
	return cmp.Compare(len(pathA), len(pathB))
}

// cutStep takes the first step off a path.
func cutStep(path string) (first step, rest string) {
	name, rest, _ := strings.Cut(path, ".")
	name, index, listed := strings.Cut(name, "[")
	if !listed {
		return step{name: name, index: -1}, rest
	}
	n, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
	if err != nil {
		n = -1
	}
	return step{name: name, index: n}, rest
}

// position is that of a field in its message; unknown ones come last.
func position(m protoreflect.MessageDescriptor, name string) int {
	if m == nil {
		return 0
	}
	if fd := m.Fields().ByJSONName(name); fd != nil {
		return fd.Index()
	}
	return m.Fields().Len()
}

// below is the message of a field, or nil.
func below(m protoreflect.MessageDescriptor, name string) protoreflect.MessageDescriptor {
	if m == nil {
		return nil
	}
	if fd := m.Fields().ByJSONName(name); fd != nil {
		return fd.Message()
	}
	return nil
}
