package control

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// resourceKey names a resource within a snapshot.
type resourceKey struct {
	kind controlv1.ResourceKind
	name string
}

func keyOf(n *controlv1.ResourceName) resourceKey {
	return resourceKey{n.GetKind(), n.GetName()}
}

// resources goes through a snapshot in the order of kinds, and of each kind in
// its own order.
func resources(s *configv1.Snapshot) iter.Seq[*controlv1.Resource] {
	return func(yield func(*controlv1.Resource) bool) {
		_ = each(s.Listeners, func(m *configv1.Listener) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_Listener{Listener: m}})
		}) && each(s.Certificates, func(m *configv1.Certificate) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_Certificate{Certificate: m}})
		}) && each(s.CaBundles, func(m *configv1.CaBundle) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_CaBundle{CaBundle: m}})
		}) && each(s.Clusters, func(m *configv1.Cluster) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_Cluster{Cluster: m}})
		}) && each(s.RateLimits, func(m *configv1.RateLimit) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_RateLimit{RateLimit: m}})
		}) && each(s.Tiers, func(m *configv1.Tier) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_Tier{Tier: m}})
		}) && each(s.ApiKeys, func(m *configv1.ApiKey) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_ApiKey{ApiKey: m}})
		}) && each(s.Routes, func(m *configv1.Route) bool {
			return yield(&controlv1.Resource{Resource: &controlv1.Resource_Route{Route: m}})
		}) && s.Telemetry != nil &&
			yield(&controlv1.Resource{Resource: &controlv1.Resource_Telemetry{Telemetry: s.Telemetry}})
	}
}

func each[T any](list []T, yield func(T) bool) bool {
	for _, m := range list {
		if !yield(m) {
			return false
		}
	}
	return true
}

func countResources(s *configv1.Snapshot) int {
	n := len(s.Listeners) + len(s.Certificates) + len(s.CaBundles) + len(s.Clusters) +
		len(s.RateLimits) + len(s.Tiers) + len(s.ApiKeys) + len(s.Routes)
	if s.Telemetry != nil {
		n++
	}
	return n
}

// index finds every resource by its key. Of two with one name it has the last.
func index(s *configv1.Snapshot) map[resourceKey]*controlv1.Resource {
	m := make(map[resourceKey]*controlv1.Resource, countResources(s))
	for r := range resources(s) {
		m[resourceKeyOf(r)] = r
	}
	return m
}

// resourceKeyOf is the zero key if nothing is in r.
func resourceKeyOf(r *controlv1.Resource) resourceKey {
	switch m := r.GetResource().(type) {
	case *controlv1.Resource_Listener:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_LISTENER, m.Listener.GetName()}
	case *controlv1.Resource_Certificate:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_CERTIFICATE, m.Certificate.GetName()}
	case *controlv1.Resource_CaBundle:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_CA_BUNDLE, m.CaBundle.GetName()}
	case *controlv1.Resource_Cluster:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_CLUSTER, m.Cluster.GetName()}
	case *controlv1.Resource_RateLimit:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_RATE_LIMIT, m.RateLimit.GetName()}
	case *controlv1.Resource_Tier:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_TIER, m.Tier.GetName()}
	case *controlv1.Resource_ApiKey:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_API_KEY, m.ApiKey.GetId()}
	case *controlv1.Resource_Route:
		return resourceKey{controlv1.ResourceKind_RESOURCE_KIND_ROUTE, m.Route.GetName()}
	case *controlv1.Resource_Telemetry:
		return resourceKey{kind: controlv1.ResourceKind_RESOURCE_KIND_TELEMETRY}
	}
	return resourceKey{}
}

// appendResource adds r after those of its kind. Telemetry takes the place of
// the one that is there.
func appendResource(s *configv1.Snapshot, r *controlv1.Resource) {
	switch m := r.GetResource().(type) {
	case *controlv1.Resource_Listener:
		s.Listeners = append(s.Listeners, m.Listener)
	case *controlv1.Resource_Certificate:
		s.Certificates = append(s.Certificates, m.Certificate)
	case *controlv1.Resource_CaBundle:
		s.CaBundles = append(s.CaBundles, m.CaBundle)
	case *controlv1.Resource_Cluster:
		s.Clusters = append(s.Clusters, m.Cluster)
	case *controlv1.Resource_RateLimit:
		s.RateLimits = append(s.RateLimits, m.RateLimit)
	case *controlv1.Resource_Tier:
		s.Tiers = append(s.Tiers, m.Tier)
	case *controlv1.Resource_ApiKey:
		s.ApiKeys = append(s.ApiKeys, m.ApiKey)
	case *controlv1.Resource_Route:
		s.Routes = append(s.Routes, m.Route)
	case *controlv1.Resource_Telemetry:
		s.Telemetry = m.Telemetry
	}
}

// pieces packs resources into lists of at most limit bytes; one that is larger
// has a list of its own.
func pieces(all iter.Seq[*controlv1.Resource], limit int) iter.Seq[[]*controlv1.Resource] {
	return func(yield func([]*controlv1.Resource) bool) {
		var piece []*controlv1.Resource
		size := 0
		for r := range all {
			n := proto.Size(r) + 8
			if len(piece) > 0 && size+n > limit {
				if !yield(piece) {
					return
				}
				piece, size = nil, 0
			}
			piece, size = append(piece, r), size+n
		}
		if len(piece) > 0 {
			yield(piece)
		}
	}
}

// pick keeps resources of these kinds and names; no kinds are all kinds, and no
// names all names.
func pick(all iter.Seq[*controlv1.Resource], kinds []controlv1.ResourceKind, names []string) iter.Seq[*controlv1.Resource] {
	wantedName := make(map[string]bool, len(names))
	for _, n := range names {
		wantedName[n] = true
	}
	return func(yield func(*controlv1.Resource) bool) {
		for r := range all {
			key := resourceKeyOf(r)
			if len(kinds) > 0 && !slices.Contains(kinds, key.kind) || len(names) > 0 && !wantedName[key.name] {
				continue
			}
			if !yield(r) {
				return
			}
		}
	}
}
