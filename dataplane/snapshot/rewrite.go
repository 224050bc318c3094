package snapshot

import (
	"regexp"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/message"
)

// Apply appends the rewritten path to dst and returns it. path is normalized
// and has no query; prefixLen is the number of its bytes that a prefix match
// covered. The result begins with "/". Nothing is allocated for a prefix if dst
// has room.
//
// A prefix takes the place of the one that matched, by whole elements: with
// /v1 for /api, /v1/x becomes /api/x, and with / it becomes /x. An expression
// is looked for once, and only its first match is replaced; a path in which
// there is none is kept. The result of an expression is normalized again, since
// its groups can put dots and slashes side by side that were apart before.
func (r *Rewrite) Apply(dst, path []byte, prefixLen int) []byte {
	switch {
	case r.HasPrefix:
		return r.applyPrefix(dst, path, prefixLen)
	case r.Regex != nil:
		return r.applyRegex(dst, path)
	}
	return append(dst, path...)
}

func (r *Rewrite) applyPrefix(dst, path []byte, prefixLen int) []byte {
	rest := path[min(prefixLen, len(path)):]
	if len(rest) == 0 && r.Prefix != "" {
		return append(dst, r.Prefix...)
	}
	dst = append(dst, strings.TrimSuffix(r.Prefix, "/")...)
	if len(rest) == 0 || rest[0] != '/' {
		dst = append(dst, '/')
	}
	return append(dst, rest...)
}

func (r *Rewrite) applyRegex(dst, path []byte) []byte {
	groups := r.Regex.FindSubmatchIndex(path)
	if groups == nil {
		return append(dst, path...)
	}
	start := len(dst)
	dst = append(dst, path[:groups[0]]...)
	dst = expand(dst, r.Replacement, path, groups)
	dst = append(dst, path[groups[1]:]...)
	if len(dst) == start || dst[start] != '/' {
		dst = append(dst, 0)
		copy(dst[start+1:], dst[start:])
		dst[start] = '/'
	}
	if normal, err := message.NormalizePath(nil, dst[start:], false); err == nil {
		dst = append(dst[:start], normal...)
	}
	return dst
}

// expand appends a replacement. $0 is the whole match, $1 to $9 are its groups,
// $$ is a dollar. A digit ends the reference: $1x is group 1 and then x, which
// is not so in package regexp. A group that took no part is empty.
func expand(dst []byte, replacement string, path []byte, groups []int) []byte {
	for i := 0; i < len(replacement); i++ {
		c := replacement[i]
		if c != '$' || i+1 == len(replacement) {
			dst = append(dst, c)
			continue
		}
		i++
		group := 2 * (int(replacement[i]) - '0')
		switch {
		case replacement[i] == '$':
			dst = append(dst, '$')
		case group < 0 || group > 18:
			dst = append(dst, '$', replacement[i])
		case group+1 < len(groups) && groups[group] >= 0:
			dst = append(dst, path[groups[group]:groups[group+1]]...)
		}
	}
	return dst
}

// compileRewrite reads a rewrite and holds it against the matches of its route.
func compileRewrite(in *configv1.Rewrite, matches []*configv1.Match, f *faults) Rewrite {
	out := Rewrite{Host: in.GetHost()}
	switch path := in.GetPath().(type) {
	case *configv1.Rewrite_Prefix:
		out.HasPrefix, out.Prefix = true, path.Prefix
		checkNormal(path.Prefix, "forward.rewrite.prefix", f)
		checkPrefixes(matches, f)
	case *configv1.Rewrite_Regex:
		out.Replacement = path.Regex.GetReplacement()
		pattern, err := regexp.Compile(path.Regex.GetPattern())
		if err != nil {
			f.add(RuleRegex, "forward.rewrite.regex.pattern", "%s", regexFault(path.Regex.GetPattern(), err))
			break
		}
		out.Regex = pattern
		checkReplacement(out.Replacement, pattern.NumSubexp(), f)
	}
	return out
}

// checkPrefixes wants a prefix in each match: it is what is replaced.
func checkPrefixes(matches []*configv1.Match, f *faults) {
	const path = "forward.rewrite.prefix"
	if len(matches) == 0 {
		f.add(RuleRewrite, path, "there is no prefix to replace: the route has no matches with path.prefix")
	}
	for i, m := range matches {
		if _, ok := m.GetPath().GetKind().(*configv1.PathMatch_Prefix); !ok {
			f.add(RuleRewrite, path, "there is no prefix to replace: matches[%d] has no path.prefix", i)
		}
	}
}

// checkReplacement wants groups that exist, and bytes that can stand in a path.
func checkReplacement(replacement string, groups int, f *faults) {
	const path = "forward.rewrite.regex.replacement"
	for i := 0; i < len(replacement); i++ {
		switch c := replacement[i]; {
		case c == '?' || c == '#':
			f.add(RuleRewrite, path, "has a %q at byte %d: only the path is rewritten, the query is kept", c, i)
		case c <= ' ' || c >= 0x7f || c == '\\':
			f.add(RuleRewrite, path, "has a byte %q at byte %d that must be percent-escaped in a path", c, i)
		case c == '$' && (i+1 == len(replacement) || !strings.Contains("$0123456789", replacement[i+1:i+2])):
			f.add(RuleRewrite, path, "has a $ at byte %d that is followed by neither a digit nor a $: write $$ for a dollar", i)
		case c == '$':
			i++
			if digit := int(replacement[i]) - '0'; replacement[i] != '$' && digit > groups {
				f.add(RuleRewrite, path, "refers to $%d, but the pattern has %s", digit, plural(groups, "group"))
			}
		}
	}
}

func plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
