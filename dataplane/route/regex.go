package route

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// A pathRegex is an expression with what is known of all paths that match it.
type pathRegex struct {
	*regexp.Regexp
	literal []byte // every match is a path that begins with this; may be empty
}

// compileRegex compiles an expression in RE2 syntax, unanchored unless it
// anchors itself. Matching takes time linear in the length of the path.
func compileRegex(expr string) (*pathRegex, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return &pathRegex{Regexp: re, literal: anchoredLiteral(expr)}, nil
}

// match looks at the literal first: most of many regexes under one host are
// dismissed by a byte comparison.
func (r *pathRegex) match(path []byte) bool {
	return bytes.HasPrefix(path, r.literal) && r.Match(path)
}

// onlySlash reports whether all matches are paths that begin with a slash. A
// path that does not is "*" or empty (RFC 9112 section 3.2).
func (r *pathRegex) onlySlash() bool {
	return !r.match([]byte("*")) && !r.match(nil)
}

// anchoredLiteral returns the literal text after a leading ^, if the whole
// expression has one.
func anchoredLiteral(expr string) []byte {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	tree = tree.Simplify()
	if tree.Op != syntax.OpConcat || tree.Sub[0].Op != syntax.OpBeginText {
		return nil
	}
	lit := tree.Sub[1]
	if lit.Op != syntax.OpLiteral || lit.Flags&syntax.FoldCase != 0 {
		return nil
	}
	var text []byte
	for _, r := range lit.Rune {
		if r == utf8.RuneError {
			break // would also match any byte that is not UTF-8
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}
