package snapshot

import (
	"strconv"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/message"
)

// compileHeaders reads the edits of a head. direction is the name of the field
// that holds them.
func compileHeaders(in *configv1.HeaderOperations, direction string, f *faults) HeaderOps {
	out := HeaderOps{
		Set: compileFields(in.GetSet(), direction+".set", f),
		Add: compileFields(in.GetAdd(), direction+".add", f),
	}
	for i, name := range in.GetRemove() {
		checkField(name, item(direction+".remove", i), f)
		out.Remove = append(out.Remove, strings.ToLower(name))
	}
	return out
}

func compileFields(in []*configv1.Header, path string, f *faults) []Header {
	var out []Header
	for i, h := range in {
		at := item(path, i)
		checkField(h.GetName(), at+".name", f)
		checkFieldValue(h.GetValue(), at+".value", f)
		out = append(out, Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return out
}

// checkField refuses what is no field name (RFC 9110 section 5.1) and the
// fields by which a message is framed or a connection run: those are for the
// proxy to write, and an edit of them would break it.
func checkField(name, path string, f *faults) {
	if !isToken(name) {
		f.add(RuleHeader, path, "%s is not a header name", quote(name))
		return
	}
	id := message.Intern([]byte(name))
	switch {
	case id == message.Host:
		f.add(RuleHeader, path, "Host is not edited as a header: use forward.rewrite.host")
	case id == message.ContentLength:
		f.add(RuleHeader, path, "Content-Length frames the message: the proxy writes it")
	case id == message.Expect:
		f.add(RuleHeader, path, "Expect is between the client and the upstream: the proxy relays it")
	case id.HopByHop():
		f.add(RuleHeader, path, "%s is for one connection only: the proxy writes it", name)
	}
}

// checkFieldValue refuses what cannot stand in a field line: control bytes
// other than a tab, and white space at its ends (RFC 9110 section 5.5).
func checkFieldValue(value, path string, f *faults) {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			f.add(RuleHeader, path, "has a control character at byte %d", i)
			return
		}
	}
	if strings.Trim(value, " \t") != value {
		f.add(RuleHeader, path, "begins or ends with white space, which no header value does")
	}
}

// isToken follows RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func itoa(n int) string { return strconv.Itoa(n) }
