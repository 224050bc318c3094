package corpus

import (
	"regexp"
	"strings"
)

var spacedName = regexp.MustCompile("(?m)^([-!#$%&'*+.^_`|~0-9A-Za-z]+)[ \t]+:")

// PlainNames removes the white space before colons from the heads that an answer
// begins with. That is how RFC 9112 section 5.1 has it read, which net/http does not
// do: for it the space is part of the name.
func PlainNames(answer string) string {
	head, rest, whole := strings.Cut(answer, "\r\n\r\n")
	head = spacedName.ReplaceAllString(head, "$1:")
	switch {
	case !whole:
		return head
	case strings.HasPrefix(head, "HTTP/1.1 1"):
		rest = PlainNames(rest)
	}
	return head + "\r\n\r\n" + rest
}
