package ctl

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// word is the value of an enum as people say it: HEALTH_STATE_UNHEALTHY is
// "unhealthy", EVENT_KIND_RATE_LIMIT is "rate-limit".
func word(value protoreflect.Enum) string {
	known := value.Descriptor().Values().ByNumber(value.Number())
	if known == nil {
		return "unknown"
	}
	name := strings.TrimPrefix(string(known.Name()), enumPrefix(value.Descriptor()))
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// words are those of all values but the unspecified one.
func words(value protoreflect.Enum) []string {
	values := value.Descriptor().Values()
	var list []string
	for i := range values.Len() {
		if n := values.Get(i).Number(); n != 0 {
			list = append(list, word(value.Type().New(n)))
		}
	}
	return list
}

// valueOf is the value of an enum that people call that.
func valueOf[E interface {
	~int32
	protoreflect.Enum
}](called string) (value E, ok bool) {
	values := value.Descriptor().Values()
	for i := range values.Len() {
		value = E(values.Get(i).Number())
		if value != 0 && word(value) == called {
			return value, true
		}
	}
	return 0, false
}

// enumPrefix is what the names of all values begin with: the name of the enum.
// The value 0 has it, followed by UNSPECIFIED.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	zero := d.Values().ByNumber(0)
	if zero == nil {
		return ""
	}
	return strings.TrimSuffix(string(zero.Name()), "UNSPECIFIED")
}
