package ctl

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

type explainOptions struct {
	headers  []string
	source   string
	listener string
	files    []string
	limit    uint32
}

func (c *CLI) explainVerb() *cobra.Command {
	var o explainOptions
	verb := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "Say which route a request takes, and why the others do not",
		Long: `Say which route a request takes, and why the others do not, by the code that routes.

URL is a whole one or begins with "/". With -f nothing is sent: the manifest is asked.`,
		Example: "  ctl explain GET http://api.example.com/v1/users/7 -H 'x-canary: 1'\n" +
			"  ctl explain POST /auth/register -f routes.yaml",
		GroupID:           groupLook,
		Args:              exactly(2),
		ValidArgsFunction: completeMethods,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := o.describe(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			return c.explain(cmd.Context(), request, o.files)
		},
	}
	f := verb.Flags()
	f.StringArrayVarP(&o.headers, "header", "H", nil, "header field, as 'name: value'; can be given several times")
	f.StringVar(&o.source, "source", "", "address of the client (default 127.0.0.1)")
	f.StringVar(&o.listener, "listener", "", "listener that the request comes in by (default: the first)")
	f.StringArrayVarP(&o.files, "filename", "f", nil, "ask this manifest instead of what runs")
	f.Uint32Var(&o.limit, "limit", 20, "show at most this many routes that do not win")
	return verb
}

// describe makes a description of the request from the command line.
func (o *explainOptions) describe(cmd *cobra.Command, method, target string) (*controlv1.ExplainRequest, error) {
	where, err := url.Parse(target)
	if err != nil || (where.Host == "" && !strings.HasPrefix(target, "/")) {
		return nil, usagef(cmd, "%q is not a URL; expected http://host/path or /path", target)
	}
	if where.Scheme != "" && where.Scheme != "http" && where.Scheme != "https" {
		return nil, usagef(cmd, "%q is not a scheme; expected http or https", where.Scheme)
	}
	request := &controlv1.RequestDescription{
		Method: method, Scheme: where.Scheme, Host: where.Host, Path: rawPath(target, where),
		Listener: o.listener, SourceAddress: o.source,
	}
	if o.source != "" {
		if _, err := netip.ParseAddr(o.source); err != nil {
			return nil, usagef(cmd, "--source: %q is not an IP address", o.source)
		}
	}
	for _, line := range o.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, usagef(cmd, "--header: %q is not a header; expected 'name: value'", line)
		}
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "host") {
			request.Host = value
			continue
		}
		request.Headers = append(request.Headers, &configv1.Header{Name: name, Value: value})
	}
	return &controlv1.ExplainRequest{Request: request, MaxCandidates: min(o.limit+1, 1000)}, nil
}

// rawPath is the path with its query as it was typed: what the URL parser
// would decode or clean is what is to be explained.
func rawPath(target string, where *url.URL) string {
	if where.Scheme != "" {
		_, target, _ = strings.Cut(target, "://")
		i := strings.IndexAny(target, "/?#")
		if i < 0 {
			return "/"
		}
		target = target[i:]
	}
	target, _, _ = strings.Cut(target, "#")
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return target
}

func (c *CLI) explain(ctx context.Context, ask *controlv1.ExplainRequest, files []string) error {
	answer, err := c.askExplanation(ctx, ask, files)
	if err != nil {
		return err
	}
	switch {
	case c.structured():
		return c.writeMessage(answer)
	case c.flags.output == formatName:
		if name := answer.GetExplanation().GetRoute(); name != "" {
			fmt.Fprintln(c.stdout, "route/"+name)
		}
		return nil
	}
	c.writeExplanation(ask.GetRequest(), answer.GetExplanation())
	return nil
}

// askExplanation asks a manifest if there is one, and what runs otherwise.
func (c *CLI) askExplanation(ctx context.Context, ask *controlv1.ExplainRequest, files []string) (*controlv1.ExplainResponse, error) {
	if len(files) > 0 {
		r, err := c.read(files, "", "nothing was explained")
		if err != nil {
			return nil, err
		}
		return snapshot.Explain(r.compiled, ask)
	}
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	k, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer k.close()
	answer, err := k.inspect.Explain(ctx, ask)
	return answer, failedCall(k.where, err)
}

// writeExplanation shows the winner, what would be done, and the others.
func (c *CLI) writeExplanation(r *controlv1.RequestDescription, e *controlv1.Explanation) {
	fmt.Fprintf(c.stdout, "%s %s%s: %s\n", printable(r.GetMethod()), printable(r.GetHost()), printable(r.GetPath()), verdictText(e))
	fmt.Fprintf(c.stdout, "  %-8s %s\n", "listener", printable(e.GetListener()))
	for _, line := range actionLines(e) {
		fmt.Fprintf(c.stdout, "  %-8s %s\n", line[0], printable(line[1]))
	}
	if len(e.GetCandidates()) == 0 {
		return
	}
	fmt.Fprintln(c.stdout)
	rows := newTable("ROUTE", "MATCH", "VERDICT", "WHY", "+FIELD")
	for _, candidate := range e.GetCandidates() {
		match := ""
		if candidate.MatchIndex != nil {
			match = number(candidate.GetMatchIndex())
		}
		rows.add(candidate.GetRoute(), match, verdictWord(candidate.GetVerdict()), candidate.GetReason(), candidate.GetFieldPath())
	}
	rows.write(c.stdout, c.wide())
	if left := int(e.GetRouteCount()) - len(e.GetCandidates()); left > 0 {
		c.say("... and %s not shown", plural(left, "route"))
	}
}

func verdictText(e *controlv1.Explanation) string {
	switch {
	case e.GetRefusal() != "":
		return "refused before routing: " + printable(e.GetRefusal())
	case e.GetRoute() == "":
		return "no route matches, 404"
	case e.MatchIndex != nil:
		return fmt.Sprintf("route %s, matches[%d]", printable(e.GetRoute()), e.GetMatchIndex())
	}
	return "route " + printable(e.GetRoute())
}

func verdictWord(v controlv1.Verdict) string {
	return strings.ReplaceAll(word(v), "-", " ")
}

// actionLines says what would be done, as pairs of a title and a text.
func actionLines(e *controlv1.Explanation) [][2]string {
	switch action := e.GetAction(); {
	case action.GetForward() != nil:
		return forwardLines(action.GetForward())
	case action.GetRedirect() != nil:
		return [][2]string{{"redirect", fmt.Sprintf("%d to %s", action.GetRedirect().GetStatus(), action.GetRedirect().GetLocation())}}
	case action.GetRespond() != nil:
		return [][2]string{{"respond", fmt.Sprintf("%d with %d bytes", action.GetRespond().GetStatus(), action.GetRespond().GetBodyBytes())}}
	case action.GetRegisterDeviceTier() != "":
		return [][2]string{{"register", "a device in tier " + action.GetRegisterDeviceTier()}}
	}
	return nil
}

func forwardLines(f *controlv1.ForwardResult) [][2]string {
	shares := make([]string, len(f.GetBackends()))
	for i, b := range f.GetBackends() {
		shares[i] = fmt.Sprintf("%s %.4g%%", b.GetCluster(), 100*b.GetShare())
	}
	lines := [][2]string{{"forward", strings.Join(shares, ", ")}, {"path", f.GetPath()}}
	if f.GetHost() != "" {
		lines = append(lines, [2]string{"host", f.GetHost()})
	}
	for _, h := range f.GetHeaders() {
		lines = append(lines, [2]string{"header", h.GetName() + ": " + h.GetValue()})
	}
	if len(f.GetRemovedHeaders()) > 0 {
		lines = append(lines, [2]string{"removed", strings.Join(f.GetRemovedHeaders(), ", ")})
	}
	return lines
}
