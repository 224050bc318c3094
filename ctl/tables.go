package ctl

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// maxListed is how many items of a list a cell shows.
const maxListed = 3

func (c *CLI) wide() bool { return c.flags.output == formatWide }

// digest is a digest as a table shows it: short, unless wide output is asked
// for.
func (c *CLI) digest(digest string) string {
	if c.wide() {
		return digest
	}
	return short(digest)
}

// since is how long ago something was, "" if that is not known.
func (c *CLI) since(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return age(c.now().Sub(t.AsTime()))
}

func number[N int | uint32 | uint64](n N) string { return fmt.Sprint(n) }

func sizeOf(m proto.Message) int { return proto.Size(m) }

// listed is a list in a cell.
func listed(items []string) string {
	if len(items) <= maxListed {
		return strings.Join(items, ",")
	}
	return fmt.Sprintf("%s,+%d more", strings.Join(items[:maxListed], ","), len(items)-maxListed)
}

// resourceTable shows the resources of a kind.
func (c *CLI) resourceTable(k kind, s *configv1.Snapshot) *table {
	switch k.enum {
	case controlv1.ResourceKind_RESOURCE_KIND_LISTENER:
		return listenerTable(s.GetListeners())
	case controlv1.ResourceKind_RESOURCE_KIND_CLUSTER:
		return clusterTable(s.GetClusters())
	default:
		return routeTable(s.GetRoutes())
	}
}

func listenerTable(listeners []*configv1.Listener) *table {
	rows := newTable("NAME", "ADDRESS", "PROTOCOLS", "+TRUSTED PROXIES")
	for _, l := range listeners {
		rows.add(l.GetName(), l.GetAddress(), protocols(l), listed(l.GetTrustedProxies()))
	}
	return rows
}

func protocols(l *configv1.Listener) string {
	switch {
	case l.GetTls() != nil && l.GetHttp3() != nil:
		return "https,http3"
	case l.GetTls() != nil:
		return "https"
	}
	return "http"
}

func clusterTable(clusters []*configv1.Cluster) *table {
	rows := newTable("NAME", "ENDPOINTS", "BALANCING", "HEALTH CHECK", "+ADDRESSES")
	for _, cl := range clusters {
		rows.add(cl.GetName(), endpointCount(cl), balancing(cl), healthCheck(cl), listed(addresses(cl)))
	}
	return rows
}

func endpointCount(cl *configv1.Cluster) string {
	if cl.GetDns() != nil {
		return "dns"
	}
	return number(len(cl.GetEndpoints()))
}

func addresses(cl *configv1.Cluster) []string {
	if dns := cl.GetDns(); dns != nil {
		return []string{fmt.Sprintf("%s:%d", dns.GetName(), dns.GetPort())}
	}
	list := make([]string, len(cl.GetEndpoints()))
	for i, e := range cl.GetEndpoints() {
		list[i] = e.GetAddress()
	}
	return list
}

// balancing is the name of the policy, as the manifest has it.
func balancing(cl *configv1.Cluster) string {
	if name := chosen(cl.GetLoadBalancing(), "policy"); name != "" {
		return name
	}
	return "roundRobin"
}

func healthCheck(cl *configv1.Cluster) string {
	check := cl.GetHealthCheck()
	if check == nil {
		return ""
	}
	if probe := check.GetHttp(); probe != nil {
		return strings.TrimSpace("http " + probe.GetPath())
	}
	return chosen(check, "probe")
}

// chosen is the JSON name of the member of a oneof that is set, "" if none is.
func chosen(m proto.Message, oneof string) string {
	r := m.ProtoReflect()
	if !r.IsValid() {
		return ""
	}
	for i := range r.Descriptor().Oneofs().Len() {
		o := r.Descriptor().Oneofs().Get(i)
		if string(o.Name()) != oneof {
			continue
		}
		if field := r.WhichOneof(o); field != nil {
			return field.JSONName()
		}
	}
	return ""
}

func routeTable(routes []*configv1.Route) *table {
	rows := newTable("NAME", "HOSTS", "MATCHES", "ACTION", "+LISTENERS", "+PRIORITY")
	for _, r := range routes {
		matches := make([]string, len(r.GetMatches()))
		for i, m := range r.GetMatches() {
			matches[i] = matchText(m)
		}
		rows.add(r.GetName(), orAny(listed(r.GetHosts())), orAny(listed(matches)), actionText(r),
			orAny(listed(r.GetListeners())), fmt.Sprint(r.GetPriority()))
	}
	return rows
}

func orAny(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

// matchText is one match in short: "GET /v1/* +2" has two conditions besides.
func matchText(m *configv1.Match) string {
	var words []string
	if len(m.GetMethods()) > 0 {
		words = append(words, strings.Join(m.GetMethods(), "|"))
	}
	switch path := m.GetPath(); {
	case path.GetExact() != "":
		words = append(words, path.GetExact())
	case path.GetPrefix() != "":
		words = append(words, strings.TrimSuffix(path.GetPrefix(), "/")+"/*")
	case path.GetRegex() != "":
		words = append(words, "~"+path.GetRegex())
	default:
		words = append(words, "*")
	}
	if more := len(m.GetHeaders()) + len(m.GetQueryParams()) + len(m.GetSources()); more > 0 {
		words = append(words, fmt.Sprintf("+%d", more))
	}
	return strings.Join(words, " ")
}

// actionText is what a route does, in short.
func actionText(r *configv1.Route) string {
	switch {
	case r.GetForward() != nil:
		return "forward " + backendText(r.GetForward().GetBackends())
	case r.GetRedirect() != nil:
		return strings.TrimSpace(fmt.Sprintf("redirect %d %s", orDefault(r.GetRedirect().GetStatus(), 302), r.GetRedirect().GetPath()))
	case r.GetRespond() != nil:
		return fmt.Sprintf("respond %d", orDefault(r.GetRespond().GetStatus(), 200))
	}
	return chosen(r, "action")
}

func orDefault(n, silence uint32) uint32 {
	if n == 0 {
		return silence
	}
	return n
}

func backendText(backends []*configv1.Backend) string {
	if len(backends) == 1 {
		return backends[0].GetCluster()
	}
	list := make([]string, len(backends))
	for i, b := range backends {
		weight := uint32(1)
		if b.Weight != nil {
			weight = b.GetWeight()
		}
		list[i] = fmt.Sprintf("%s:%d", b.GetCluster(), weight)
	}
	return listed(list)
}
