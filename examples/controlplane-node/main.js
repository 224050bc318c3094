// A control plane: it pushes a snapshot, says what becomes of it, and prints health events as they come.
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { SnapshotService } from "./gen/headgate/control/v1/snapshot_service_pb.js";
import { EventService } from "./gen/headgate/control/v1/event_service_pb.js";
import { EventKind, HealthState } from "./gen/headgate/control/v1/event_pb.js";
import { SnapshotState } from "./gen/headgate/control/v1/snapshot_pb.js";

const [control, listen, red, blue] = process.argv.slice(2);
if (!blue) {
  console.error("usage: node main.js CONTROL-ADDRESS LISTEN-ADDRESS RED BLUE");
  process.exit(2);
}
const transport = createGrpcTransport({ baseUrl: `http://${control}` });

const listener = { name: "web", address: listen };
const cluster = {
  name: "colours",
  endpoints: [{ address: red, weight: 3 }, { address: blue }],
  healthCheck: { probe: { case: "http", value: { path: "/healthz" } }, interval: { seconds: 1n } },
};
const route = { name: "all", action: { case: "forward", value: { backends: [{ cluster: "colours" }] } } };

async function* snapshot(version, resources) {
  yield { message: { case: "begin", value: { version } } };
  yield { message: { case: "resources", value: { resources: resources.map((resource) => ({ resource })) } } };
  yield { message: { case: "commit", value: {} } };
}

const pushed = snapshot("node-1", [
  { case: "listener", value: listener },
  { case: "cluster", value: cluster },
  { case: "route", value: route },
]);
let state;
for await (const { message } of createClient(SnapshotService, transport).push(pushed)) {
  if (message.case === "update") {
    state = message.value.state;
    console.log(`snapshot ${message.value.snapshot.version} is ${SnapshotState[state]}`, message.value.reason);
    message.value.violations.forEach((v) => console.log(`  ${v.fieldPath}: ${v.message}`));
  }
}
if (state !== SnapshotState.ACTIVE) {
  process.exit(1);
}

const wanted = { fromSequence: 0n, follow: true, kinds: [EventKind.ENDPOINT_HEALTH] };
for await (const { event } of createClient(EventService, transport).watch(wanted)) {
  const health = event.detail.value;
  console.log(`${health.endpoint} is ${HealthState[health.to]}: ${health.cause}`);
}
