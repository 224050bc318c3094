package proto_test

import (
	"errors"
	"testing"

	"buf.build/go/protovalidate"
	"buf.build/go/protoyaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

func marked(name protoreflect.FullName) bool {
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return false
	}
	options, ok := descriptor.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// violations gives "field path: rule" for each violation of a message.
func violations(t *testing.T, message proto.Message) []string {
	t.Helper()
	err := protovalidate.Validate(message)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var found []string
	for _, violation := range invalid.Violations {
		found = append(found, protovalidate.FieldPathString(violation.Proto.GetField())+": "+violation.Proto.GetRuleId())
	}
	return found
}

func TestViolationsNameTheirField(t *testing.T) {
	for name, test := range map[string]struct {
		manifest string
		want     []string
	}{
		"nothing": {`{}`, nil},
		"listener without name and address": {`listeners: [{}]`,
			[]string{"listeners[0].name: required", "listeners[0].address: required"}},
		"listener address without a port": {`listeners: [{name: a, address: localhost}]`,
			[]string{"listeners[0].address: string.listen_address"}},
		"port too high": {`listeners: [{name: a, address: ":65536"}]`,
			[]string{"listeners[0].address: string.listen_address"}},
		"name with a blank": {`listeners: [{name: "a b", address: ":80"}]`,
			[]string{"listeners[0].name: string.resource_name"}},
		"not a prefix": {`listeners: [{name: a, address: ":80", trustedProxies: [10.0.0.0/8, 10.0.0.0/33]}]`,
			[]string{"listeners[0].trusted_proxies[1]: string.cidr"}},
		"old TLS": {`listeners: [{name: a, address: ":80", tls: {certificates: [], minVersion: "1.1"}}]`,
			[]string{"listeners[0].tls.certificates: repeated.min_items", "listeners[0].tls.min_version: string.in"}},
		"negative timeout": {`listeners: [{name: a, address: ":80", timeouts: {header: -1s}}]`,
			[]string{"listeners[0].timeouts.header: duration.gte_lte"}},
		"certificate without a key": {`certificates: [{name: a, certificateFile: a.crt}]`,
			[]string{"certificates[0]: certificate.private_key"}},
		"certificate from nowhere": {`certificates: [{name: a, privateKeyFile: a.key}]`,
			[]string{"certificates[0].source: required"}},
		"acme with a key": {`certificates: [{name: a, acme: {domains: [a.example]}, privateKeyFile: a.key}]`,
			[]string{"certificates[0]: certificate.private_key"}},
		"endpoint on port 0": {`clusters: [{name: a, endpoints: [{address: "a:1"}, {address: "a:0"}]}]`,
			[]string{"clusters[0].endpoints[1].address: string.endpoint_address"}},
		"endpoints and dns": {`clusters: [{name: a, endpoints: [{address: "a:1"}], dns: {name: b, port: 1}}]`,
			[]string{"clusters[0]: message.oneof"}},
		"no policy": {`clusters: [{name: a, loadBalancing: {}}]`,
			[]string{"clusters[0].load_balancing.policy: required"}},
		"panic over 100": {`clusters: [{name: a, panicThreshold: 101}]`,
			[]string{"clusters[0].panic_threshold: uint32.lte"}},
		"bad status range": {`clusters: [{name: a, healthCheck: {http: {expectedStatuses: ["200", 2xx]}}}]`,
			[]string{"clusters[0].health_check.http.expected_statuses[1]: http_probe.expected_statuses"}},
		"health check without a probe": {`clusters: [{name: a, healthCheck: {interval: 1s, unhealthyThreshold: 0}}]`,
			[]string{"clusters[0].health_check.probe: required", "clusters[0].health_check.unhealthy_threshold: uint32.gte_lte"}},
		"limit without an algorithm": {`rateLimits: [{name: a, key: {}}]`,
			[]string{"rate_limits[0].algorithm: required", "rate_limits[0].key.kind: required"}},
		"window missing": {`rateLimits: [{name: a, fixedWindow: {requests: 1}}]`,
			[]string{"rate_limits[0].fixed_window.window: required"}},
		"no refill": {`rateLimits: [{name: a, tokenBucket: {capacity: 1, refillPerSecond: 0}}]`,
			[]string{"rate_limits[0].token_bucket.refill_per_second: double.gt_lte"}},
		"key instead of its hash": {`apiKeys: [{id: a, tier: b, sha256: secret}]`,
			[]string{"api_keys[0].sha256: api_key.sha256"}},
		"route without an action": {`routes: [{name: a}]`,
			[]string{"routes[0].action: required"}},
		"path without a slash": {`routes: [{name: a, matches: [{path: {prefix: v1}}], respond: {}}]`,
			[]string{"routes[0].matches[0].path.prefix: string.url_path"}},
		"host with a port": {`routes: [{name: a, hosts: ["a.example:80"], respond: {}}]`,
			[]string{"routes[0].hosts[0]: string.host_pattern"}},
		"header name with a colon": {`routes: [{name: a, matches: [{headers: [{name: "x:", exact: a}]}], respond: {}}]`,
			[]string{"routes[0].matches[0].headers[0].name: string.field_name"}},
		"header value with a line break": {`routes: [{name: a, requestHeaders: {set: [{name: x, value: "a\r\nb: c"}]}, respond: {}}]`,
			[]string{"routes[0].request_headers.set[0].value: string.field_value"}},
		"no backends": {`routes: [{name: a, forward: {}}]`,
			[]string{"routes[0].forward.backends: repeated.min_items"}},
		"unknown retry condition": {`routes: [{name: a, forward: {backends: [{cluster: b}], retry: {on: [5xx, always]}}}]`,
			[]string{"routes[0].forward.retry.on[1]: retry.on"}},
		"redirect with 200": {`routes: [{name: a, redirect: {status: 200, path: /}}]`,
			[]string{"routes[0].redirect.status: uint32.in"}},
		"upgrade in capitals": {`routes: [{name: a, respond: {}, upgrades: [WebSocket]}]`,
			[]string{"routes[0].upgrades: route.upgrades"}},
		"upgrade that is a number": {`routes: [{name: a, respond: {}, upgrades: [websocket, 7]}]`,
			[]string{"routes[0].upgrades: route.upgrades"}},
		"unknown encoding": {`routes: [{name: a, respond: {}, compression: {encodings: [deflate]}}]`,
			[]string{"routes[0].compression.encodings[0]: string.in"}},
		"same encoding twice": {`routes: [{name: a, respond: {}, compression: {encodings: [br, br]}}]`,
			[]string{"routes[0].compression.encodings: repeated.unique"}},
		"ratio over 1": {`telemetry: {tracing: {sampleRatio: 1.5}, accessLog: {format: xml}}`,
			[]string{"telemetry.tracing.sample_ratio: double.gte_lte", "telemetry.access_log.format: string.in"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations(t, parse(t, test.manifest))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the language cannot express is refused before any rule is asked.
func TestNotInTheLanguage(t *testing.T) {
	for name, manifest := range map[string]string{
		"unknown field":          `clusters: [{name: a, endpoint: []}]`,
		"two actions":            `routes: [{name: a, respond: {}, redirect: {path: /}}]`,
		"two ways of matching":   `routes: [{name: a, matches: [{path: {exact: /a, prefix: /b}}], respond: {}}]`,
		"duration without unit":  `clusters: [{name: a, slowStart: 30}]`,
		"negative weight":        `clusters: [{name: a, endpoints: [{address: "a:1", weight: -1}]}]`,
		"upgrades is not a list": `routes: [{name: a, respond: {}, upgrades: websocket}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := protoyaml.Unmarshal([]byte(manifest), &configv1.Snapshot{}); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestControlMessagesAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		message proto.Message
		want    []string
	}{
		"empty push": {&controlv1.PushRequest{}, []string{"message: required"}},
		"begin": {&controlv1.PushRequest{Message: &controlv1.PushRequest_Begin{Begin: &controlv1.PushBegin{
			Version: "v1", Options: &controlv1.ApplyOptions{Term: 3},
		}}}, nil},
		"short digest": {&controlv1.PushRequest{Message: &controlv1.PushRequest_Commit{Commit: &controlv1.PushCommit{
			ExpectedDigest: "abc",
		}}}, []string{"commit.expected_digest: string.pattern"}},
		"resource without content": {&controlv1.PushResources{Resources: []*controlv1.Resource{{}}},
			[]string{"resources[0].resource: required"}},
		"removed without a kind": {&controlv1.PushResources{Removed: []*controlv1.ResourceName{{Name: "a"}}},
			[]string{"removed[0].kind: enum.not_in"}},
		"apply without a snapshot":  {&controlv1.ApplyRequest{}, []string{"snapshot: required"}},
		"watch of an unknown kind":  {&controlv1.WatchRequest{Kinds: []controlv1.EventKind{99}}, []string{"kinds[0]: enum.defined_only"}},
		"explain without a request": {&controlv1.ExplainRequest{}, []string{"request: required"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations(t, test.message)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
