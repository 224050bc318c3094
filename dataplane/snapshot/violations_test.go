package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// base is a configuration without faults, to which a fault is added. Of two
// values for one list the second is appended.
const base = `
listeners: [{name: web, address: "127.0.0.1:8080"}]
clusters:
- name: users
  endpoints: [{address: "127.0.0.1:9001"}]
routes:
- {name: users, matches: [{path: {prefix: /users}}], forward: {backends: [{cluster: users}]}}
`

// One fault for each rule: where it is and what is said of it.
var violationTests = []struct{ name, yaml, want string }{
	{"no faults", "", ""},

	// What one message knows of itself.
	{"required name", `listeners: [{address: ":1"}]`, `listeners[1].name: is required [required]`},
	{"name", `clusters: [{name: "a b"}]`, `clusters[1].name: must be 1 to 253 letters, digits, '.', '_', '-' or '/', and begin with a letter, a digit or '_' [string.resource_name]`},
	{"oneof", `routes: [{name: r, matches: [{path: {exact: /r}}]}]`, `routes[1]: needs one of forward, redirect, respond or registerDevice [required]`},
	{"range", `listeners: [{name: l, address: ":1", timeouts: {bodyIdle: -1s}}]`, `listeners[1].timeouts.bodyIdle: must be greater than or equal to 0s and less than or equal to 31536000s [duration.gte_lte]`},
	{"version", `version: "` + strings.Repeat("v", 257) + `"`, `version: must be at most 256 bytes [string.max_bytes]`},
	{"item of a list", `routes: [{name: r, hosts: [a, "*"], respond: {}}]`, `routes[1].hosts[1]: ` + "must be a host without a port, or *. and a name, such as *.example.com [string.host_pattern]"},

	// Names.
	{"duplicate listener", `listeners: [{name: web, address: ":1"}]`, `listeners[1].name: "web" is the name of listeners[0] too [name.duplicate]`},
	{"duplicate cluster", `clusters: [{name: users}]`, `clusters[1].name: "users" is the name of clusters[0] too [name.duplicate]`},
	{"duplicate route", `routes: [{name: users, matches: [{path: {exact: /r}}], respond: {}}]`, `routes[1].name: "users" is the name of routes[0] too [name.duplicate]`},
	{"cluster near", `routes: [{name: r, forward: {backends: [{cluster: usres}]}}]`, `routes[1].forward.backends[0].cluster: no cluster is named "usres": did you mean "users"? [reference.unknown]`},
	{"cluster far", `routes: [{name: r, forward: {backends: [{cluster: orders}]}}]`, `routes[1].forward.backends[0].cluster: no cluster is named "orders": there are users [reference.unknown]`},
	{"listener", `routes: [{name: r, listeners: [wbe], respond: {}}]`, `routes[1].listeners[0]: no listener is named "wbe": did you mean "web"? [reference.unknown]`},

	// Addresses.
	{"same address", `listeners: [{name: l, address: "127.0.0.1:8080"}]`, `listeners[1].address: "127.0.0.1:8080" cannot be bound: listeners[0] (web) has "127.0.0.1:8080" [address.duplicate]`},
	{"wildcard address", `listeners: [{name: l, address: ":8080"}]`, `listeners[1].address: ":8080" cannot be bound: listeners[0] (web) has "127.0.0.1:8080" [address.duplicate]`},
	{"kernel's choice", `listeners: [{name: l, address: ":0"}, {name: m, address: ":0"}]`, ``},
	{"other family", `listeners: [{name: l, address: "0.0.0.0:1"}, {name: m, address: "[::1]:1"}]`, ``},
	{"same socket", `listeners: [{name: l, address: "unix:/a"}, {name: m, address: "unix:/a"}]`, `listeners[2].address: "unix:/a" cannot be bound: listeners[1] (l) has "unix:/a" [address.duplicate]`},
	{"bad v6", `listeners: [{name: l, address: "[::zz]:1"}]`, `listeners[1].address: must be host:port, [v6]:port, :port or unix:/path [string.listen_address]`},
	{"host name", `clusters: [{name: c, endpoints: [{address: "db.internal:80"}]}]`, `clusters[1].endpoints[0].address: "db.internal:80" is a host name: an endpoint is an IP address and a port, or unix:/path; to look names up use dns instead of endpoints [address]`},
	{"not IPv4", `clusters: [{name: c, endpoints: [{address: "10.0.0.256:80"}]}]`, `clusters[1].endpoints[0].address: "10.0.0.256:80" is not an IPv4 address [address]`},
	{"unspecified", `clusters: [{name: c, endpoints: [{address: "0.0.0.0:80"}]}]`, `clusters[1].endpoints[0].address: "0.0.0.0:80" cannot be connected to: the address is unspecified [address]`},
	{"port", `clusters: [{name: c, endpoints: [{address: "10.0.0.1:70000"}]}]`, `clusters[1].endpoints[0].address: must be host:port, [v6]:port or unix:/path [string.endpoint_address]`},
	{"same endpoint", `clusters: [{name: c, endpoints: [{address: "[::1]:80"}, {address: "[0:0::1]:80"}]}]`, `clusters[1].endpoints[1].address: "[0:0::1]:80" is the address of endpoints[0] too [address.duplicate]`},
	{"prefix", `listeners: [{name: l, address: ":1", trustedProxies: [10.0.0.0/33]}]`, `listeners[1].trustedProxies[0]: must be an IP address or a prefix such as 10.0.0.0/8 [string.cidr]`},

	// HTTP/3.
	{"HTTP/3 in clear", `listeners: [{name: l, address: ":1", http3: {}}]`, `listeners[1].http3: needs tls: HTTP/3 has no clear text [http3]`},
	{"HTTP/3 on a unix socket", `{listeners: [{name: l, address: "unix:/s", tls: {certificates: [site]}, http3: {}}], certificates: [{name: site, certificateFile: a, privateKeyFile: b}]}`, `listeners[1].http3: needs a port: HTTP/3 is not spoken on a unix socket [http3]`},
	{"HTTP/3", `{listeners: [{name: l, address: ":1", tls: {certificates: [site]}, http3: {}}], certificates: [{name: site, certificateFile: a, privateKeyFile: b}]}`, ``},

	// Clusters.
	{"status syntax", `clusters: [{name: c, healthCheck: {http: {expectedStatuses: ["2xx"]}}}]`, `clusters[1].healthCheck.http.expectedStatuses[0]: must be a status such as 204 or a range such as 200-299 [http_probe.expected_statuses]`},
	{"status range", `clusters: [{name: c, healthCheck: {http: {expectedStatuses: ["299-200"]}}}]`, `clusters[1].healthCheck.http.expectedStatuses[0]: "299-200" is a range that ends before it begins [status]`},

	// Routes.
	{"weights", `routes: [{name: r, forward: {backends: [{cluster: users, weight: 0}]}}]`, `routes[1].forward.backends: all weights are 0: no request would have anywhere to go [weights]`},
	{"rewrite without matches", `routes: [{name: r, forward: {backends: [{cluster: users}], rewrite: {prefix: /}}}]`, `routes[1].forward.rewrite.prefix: there is no prefix to replace: the route has no matches with path.prefix [rewrite]`},
	{"rewrite without prefix", `routes: [{name: r, matches: [{path: {prefix: /a}}, {path: {exact: /b}}], forward: {backends: [{cluster: users}], rewrite: {prefix: /}}}]`, `routes[1].forward.rewrite.prefix: there is no prefix to replace: matches[1] has no path.prefix [rewrite]`},
	{"pattern", `routes: [{name: r, forward: {backends: [{cluster: users}], rewrite: {regex: {pattern: "a**"}}}}]`, `routes[1].forward.rewrite.regex.pattern: invalid nested repetition operator: "**" at byte 1 of "a**" [regex]`},
	{"group", `routes: [{name: r, forward: {backends: [{cluster: users}], rewrite: {regex: {pattern: "^/(.*)$", replacement: "/$2"}}}}]`, `routes[1].forward.rewrite.regex.replacement: refers to $2, but the pattern has 1 group [rewrite]`},
	{"dollar", `routes: [{name: r, forward: {backends: [{cluster: users}], rewrite: {regex: {pattern: "^/(.*)$", replacement: "/$x"}}}}]`, `routes[1].forward.rewrite.regex.replacement: has a $ at byte 1 that is followed by neither a digit nor a $: write $$ for a dollar [rewrite]`},
	{"query in a replacement", `routes: [{name: r, forward: {backends: [{cluster: users}], rewrite: {regex: {pattern: "a", replacement: "/b?c"}}}}]`, `routes[1].forward.rewrite.regex.replacement: has a '?' at byte 2: only the path is rewritten, the query is kept [rewrite]`},
	{"path regex", `routes: [{name: r, matches: [{path: {regex: "^/x/(\\d+"}}], respond: {}}]`, `routes[1].matches[0].path.regex: missing closing ) in "^/x/(\d+" [regex]`},
	{"header regex", `routes: [{name: r, matches: [{headers: [{name: x, regex: "[z-a]"}]}], respond: {}}]`, `routes[1].matches[0].headers[0].regex: invalid character class range: "z-a" at byte 1 of "[z-a]" [regex]`},
	{"query regex", `routes: [{name: r, matches: [{queryParams: [{name: x, regex: "("}]}], respond: {}}]`, `routes[1].matches[0].queryParams[0].regex: missing closing ) in "(" [regex]`},
	{"dots", `routes: [{name: r, matches: [{path: {prefix: /a/../b}}], respond: {}}]`, `routes[1].matches[0].path.prefix: "/a/../b" is the path of no request once it is normalized: write "/b" [match]`},
	{"escape", `routes: [{name: r, matches: [{path: {exact: "/%zz"}}], respond: {}}]`, `routes[1].matches[0].path.exact: "/%zz" is the path of no request: bad percent escape at byte 1 [match]`},
	{"not ASCII", `routes: [{name: r, matches: [{path: {exact: "/é"}}], respond: {}}]`, `routes[1].matches[0].path.exact: "/é" is the path of no request: byte that must be escaped at byte 1 [match]`},
	{"method", `routes: [{name: r, matches: [{methods: [get]}], respond: {}}]`, `routes[1].matches[0].methods[0]: "get" is to be written GET [match]`},
	{"framing header", `routes: [{name: r, respond: {}, responseHeaders: {set: [{name: Content-Length, value: "1"}]}}]`, `routes[1].responseHeaders.set[0].name: Content-Length frames the message: the proxy writes it [header]`},
	{"hop-by-hop header", `routes: [{name: r, respond: {}, requestHeaders: {remove: [connection]}}]`, `routes[1].requestHeaders.remove[0]: connection is for one connection only: the proxy writes it [header]`},
	{"host header", `routes: [{name: r, respond: {}, requestHeaders: {set: [{name: host, value: a}]}}]`, `routes[1].requestHeaders.set[0].name: Host is not edited as a header: use forward.rewrite.host [header]`},
	{"header name", `routes: [{name: r, respond: {}, requestHeaders: {add: [{name: "a b"}]}}]`, "routes[1].requestHeaders.add[0].name: must be a header name: letters, digits and !#$%&'*+-.^_`|~ [string.field_name]"},
	{"header value", `routes: [{name: r, respond: {}, requestHeaders: {add: [{name: a, value: "b\nc"}]}}]`, "routes[1].requestHeaders.add[0].value: must not contain control characters [string.field_value]"},
	{"white space", `routes: [{name: r, respond: {}, requestHeaders: {add: [{name: a, value: " b"}]}}]`, "routes[1].requestHeaders.add[0].value: begins or ends with white space, which no header value does [header]"},
	{"body without", `routes: [{name: r, respond: {status: 204, body: x}}]`, `routes[1].respond.body: status 204 has no body [status]`},
	{"redirect", `routes: [{name: r, redirect: {status: 200}}]`, `routes[1].redirect.status: must be in list [301, 302, 303, 307, 308] [uint32.in]`},
	{"limit", `routes: [{name: r, respond: {}, limits: {maxRequestBytes: 18446744073709551615}}]`, `routes[1].limits.maxRequestBytes: must be at most 9223372036854775807 [limits]`},

	// TLS.
	{"no such certificate", `listeners: [{name: l, address: ":1", tls: {certificates: [site]}}]`, `listeners[1].tls.certificates[0]: no certificate is named "site": there are no certificates [reference.unknown]`},
	{"certificate near", `{listeners: [{name: l, address: ":1", tls: {certificates: [sit]}}], certificates: [{name: site, certificateFile: a, privateKeyFile: b}]}`, `listeners[1].tls.certificates[0]: no certificate is named "sit": did you mean "site"? [reference.unknown]`},
	{"no such authorities", `{listeners: [{name: l, address: ":1", tls: {certificates: [site], clientAuth: {caBundle: staff}}}], certificates: [{name: site, certificateFile: a, privateKeyFile: b}]}`, `listeners[1].tls.clientAuth.caBundle: no CA bundle is named "staff": there are no CA bundles [reference.unknown]`},
	{"no certificates", `listeners: [{name: l, address: ":1", tls: {}}]`, `listeners[1].tls.certificates: must contain at least 1 item(s) [repeated.min_items]`},
	{"TLS version", `{listeners: [{name: l, address: ":1", tls: {certificates: [site], minVersion: "1.1"}}], certificates: [{name: site, certificateFile: a, privateKeyFile: b}]}`, `listeners[1].tls.minVersion: must be in list [1.2, 1.3] [string.in]`},
	{"cluster's references", `clusters: [{name: c, tls: {caBundle: ca, clientCertificate: me}}]`, `clusters[1].tls.caBundle: no CA bundle is named "ca": there are no CA bundles [reference.unknown]
clusters[1].tls.clientCertificate: no certificate is named "me": there are no certificates [reference.unknown]`},
	{"TLS over a unix socket", `clusters: [{name: c, endpoints: [{address: "unix:/s"}], tls: {}}]`, `clusters[1].tls.serverName: is needed to verify an endpoint on a unix socket, which has no host [address]`},
	{"TLS over a unix socket, named", `clusters: [{name: c, endpoints: [{address: "unix:/s"}], tls: {serverName: a.example}}]`, ``},
	{"TLS over a unix socket, unverified", `clusters: [{name: c, endpoints: [{address: "unix:/s"}], tls: {insecureSkipVerify: true}}]`, ``},
	{"duplicate certificate", `certificates: [{name: site, certificateFile: a, privateKeyFile: b}, {name: site, certificateFile: a, privateKeyFile: b}]`, `certificates[1].name: "site" is the name of certificates[0] too [name.duplicate]`},
	{"duplicate bundle", `caBundles: [{name: ca, file: a}, {name: ca, file: b}]`, `caBundles[1].name: "ca" is the name of caBundles[0] too [name.duplicate]`},
	{"no key", `certificates: [{name: site, certificateFile: a}]`, `certificates[0]: certificateFile and certificatePem need a privateKeyFile or privateKeyPem; acme makes its own key [certificate.private_key]`},
	{"no PEM", `{certificates: [{name: site, certificatePem: a, privateKeyPem: b}], caBundles: [{name: ca, pem: a}]}`, `certificates[0].certificatePem: holds no certificate in PEM [pem]
certificates[0].privateKeyPem: holds no private key in PEM [pem]
caBundles[0].pem: holds no certificate in PEM [pem]`},
	{"acme", `{certificates: [{name: site, acme: {domains: [a.example], email: a@a.example, directory: "https://acme.example/dir", caBundle: ca}}], caBundles: [{name: ca, file: a}]}`, ``},
	{"acme without names", `certificates: [{name: site, acme: {}}]`, `certificates[0].acme.domains: must contain at least 1 item(s) [repeated.min_items]`},
	{"acme for what is no name", `certificates: [{name: site, acme: {domains: [a.example, "*.a.example", 10.0.0.1, "[::1]"]}}]`, `certificates[0].acme.domains[1]: "*.a.example" takes a challenge over DNS, which is not built: list the names that it stands for [acme]
certificates[0].acme.domains[2]: "10.0.0.1" is an address: only names are certified [acme]
certificates[0].acme.domains[3]: "[::1]" is an address: only names are certified [acme]`},
	{"acme in clear", `certificates: [{name: site, acme: {domains: [a.example], directory: "http://acme.example/dir"}}]`, `certificates[0].acme.directory: must begin with https://: the account's proofs go there [acme]`},
	{"acme with a key", `certificates: [{name: site, acme: {domains: [a.example]}, privateKeyFile: a}]`, `certificates[0]: certificateFile and certificatePem need a privateKeyFile or privateKeyPem; acme makes its own key [certificate.private_key]`},
	{"acme's authorities", `certificates: [{name: site, acme: {domains: [a.example], caBundle: ca}}]`, `certificates[0].acme.caBundle: no CA bundle is named "ca": there are no CA bundles [reference.unknown]`},
	{"redacted key", `certificates: [{name: site, certificateFile: a, privateKeyPem: "[redacted]"}]`, `certificates[0].privateKeyPem: was taken out when this was read back: put the secret in again [redacted]`},

	{"fault", `routes: [{name: r, matches: [{path: {exact: /r}}], respond: {}, fault: {delay: {percent: 101}, abort: {percent: -1, status: 200}}}]`, `routes[1].fault.delay.percent: must be greater than or equal to 0 and less than or equal to 100 [double.gte_lte]
routes[1].fault.delay.duration: is required [required]
routes[1].fault.abort.percent: must be greater than or equal to 0 and less than or equal to 100 [double.gte_lte]
routes[1].fault.abort.status: must be greater than or equal to 400 and less than or equal to 599 [uint32.gte_lte]`},

	// What is not built.
	{"kind", `tiers: [{name: t}]`, `tiers: not supported yet: tiers [unsupported]`},
	{"message", `routes: [{name: r, matches: [{path: {exact: /r}}], respond: {}, cors: {allowOrigins: ["*"]}}]`, `routes[1].cors: not supported yet: routes[1].cors [unsupported]`},
	{"scalars", `routes: [{name: r, matches: [{path: {exact: /r}}], respond: {}, rateLimits: [a]}]`, `routes[1].rateLimits: not supported yet: routes[1].rateLimits [unsupported]`},
	{"member of a oneof", `routes: [{name: r, matches: [{path: {exact: /r}}], registerDevice: {tier: free}}]`, `routes[1].registerDevice: not supported yet: routes[1].registerDevice [unsupported]`},
}

// merged reads base and more as one configuration.
func merged(t *testing.T, more string) []Violation {
	in, extra := read(t, base), read(t, more)
	in.Listeners = append(in.Listeners, extra.Listeners...)
	in.Clusters = append(in.Clusters, extra.Clusters...)
	in.Routes = append(in.Routes, extra.Routes...)
	in.Certificates, in.CaBundles = extra.Certificates, extra.CaBundles
	in.Tiers, in.Version = extra.Tiers, extra.Version
	s, violations := Compile(in)
	var errors []Violation
	for _, v := range violations {
		if !v.Warning {
			errors = append(errors, v)
		}
	}
	if (s == nil) != (len(errors) > 0) {
		t.Errorf("snapshot %v with %d errors", s != nil, len(errors))
	}
	return errors
}

func TestViolations(t *testing.T) {
	for _, test := range violationTests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, v := range merged(t, test.yaml) {
				got = append(got, fmt.Sprintf("%v [%s]", v, v.Rule))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// Every fault is listed, in the order of the file.
func TestViolationsInOrder(t *testing.T) {
	_, violations := Compile(read(t, `
routes:
- {name: a, forward: {backends: [{cluster: x}]}, hosts: [a.example.com:80]}
- {name: a, respond: {status: 1}, matches: [{path: {exact: /b}}, {path: {exact: c}}]}
clusters: [{name: c, http2: {}}, {name: "c/"}, {name: c}]
listeners: [{name: web, address: nowhere}, {name: web, address: "10.0.0.1:0"}]
telemetry: {recentRequests: 1000001}
`))
	var got []string
	for _, v := range violations {
		if !v.Warning {
			got = append(got, v.Path)
		}
	}
	want := []string{
		"listeners[0].address", "listeners[1].name",
		"clusters[2].name",
		"routes[0].hosts[0]", "routes[0].forward.backends[0].cluster",
		"routes[1].name", "routes[1].matches[1].path.exact", "routes[1].respond.status",
		"telemetry.recentRequests",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// Warnings come with a snapshot.
func TestWarnings(t *testing.T) {
	s, violations := Compile(read(t, base+`
- {name: more, matches: [{path: {prefix: /users}}, {path: {prefix: /more}}], forward: {backends: [{cluster: users}]}}
`))
	if s == nil {
		t.Fatal(violations)
	}
	want := []Violation{{
		Path: "routes[1].matches[0]", Rule: RuleUnreachable, Warning: true,
		Message: `is never reached: route "users" (routes[0]) takes every request that it would`,
	}}
	if diff := cmp.Diff(want, violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
