// The client library of Kubernetes for JavaScript against a real gateway: objects, patches, informers, expired watches, exec.
import { PassThrough, Readable } from "node:stream";
import {
  ApiException,
  CoreV1Api,
  Exec,
  KubeConfig,
  KubernetesObjectApi,
  makeInformer,
  PatchStrategy,
  Watch,
  type KubernetesObject,
  type V1Status,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../gateway.ts";
import { BENCH_MS, bench, type Bench } from "./rig.ts";

interface Provider extends KubernetesObject {
  readonly spec: { readonly api: string; readonly concurrency?: number };
}

const PROVIDERS = "/apis/beige.dev/v1/providers";
let at: Bench;
const config = new KubeConfig();
let objects: KubernetesObjectApi;

beforeAll(async () => {
  at = await bench();
  config.loadFromFile(at.kubeconfig);
  objects = KubernetesObjectApi.makeApiClient(config);
}, BENCH_MS);
afterAll(() => at.end(), 30_000);

const named = (name: string) => ({ apiVersion: "beige.dev/v1", kind: "Provider", metadata: { name } });
const read = (name: string): Promise<Provider> => objects.read<Provider>(named(name));
const code = (error: unknown): number | undefined => (error instanceof ApiException ? error.code : undefined);

test("objects are created, read, listed, replaced and deleted", async () => {
  await objects.create<Provider>({ ...named("crud"), spec: { api: "echo" } });
  expect(await objects.create<Provider>({ ...named("crud"), spec: { api: "echo" } }).catch(code)).toBe(409);
  const listed = await objects.list("beige.dev/v1", "Provider");
  expect(listed.items.map((item) => item.metadata?.name)).toContain("crud");
  const ready = (object: Provider): boolean => JSON.stringify(object).includes('"Ready","status":"True"');
  const made = await until(async () => read("crud").then((object) => (ready(object) ? object : undefined)), 5_000, "it is ready");
  const changed = await objects.replace<Provider>({ ...made, spec: { api: "echo", concurrency: 3 } });
  expect([changed.metadata?.uid, changed.metadata?.generation, changed.spec.concurrency]).toEqual([made.metadata?.uid, 2, 3]);
  // The version that was read first is no longer there.
  expect(await objects.replace<Provider>({ ...made, spec: { api: "echo", concurrency: 4 } }).catch(code)).toBe(409);
  await objects.delete(named("crud"));
  expect(await read("crud").catch(code)).toBe(404);
});

test("merge, JSON and apply patches change what they name; a strategic one is refused", async () => {
  await objects.create<Provider>({ ...named("patched"), spec: { api: "echo" } });
  const patch = (body: object, strategy: PatchStrategy, manager = "m"): Promise<KubernetesObject> =>
    objects.patch(body, undefined, undefined, manager, undefined, strategy);
  const spec = (concurrency: number): object => ({ ...named("patched"), spec: { concurrency } });
  await patch(spec(2), PatchStrategy.MergePatch);
  expect((await read("patched")).spec.concurrency).toBe(2);
  expect(await patch(spec(3), PatchStrategy.ServerSideApply, "other").catch(code)).toBe(409);
  await patch(spec(2), PatchStrategy.ServerSideApply, "other");
  expect((await read("patched")).metadata?.managedFields?.map((each) => each.manager)).toContain("other");
  expect(await patch(spec(4), PatchStrategy.StrategicMergePatch).catch(code)).toBe(415);
  expect((await read("patched")).spec.concurrency).toBe(2);
  await objects.delete(named("patched"));
});

test("an informer hears of what is there, of changes and of ends", async () => {
  const heard: string[] = [];
  const list = async () => {
    const answer = await objects.list<Provider>("beige.dev/v1", "Provider");
    return answer as never;
  };
  const informer = makeInformer<Provider>(config, PROVIDERS, list);
  for (const verb of ["add", "update", "delete"] as const)
    informer.on(verb, (object) => void heard.push(`${verb} ${object.metadata?.name} ${object.spec.concurrency}`));
  await informer.start();
  await until(() => heard.includes("add echo -1"), 5_000, "the informer lists");
  await objects.create<Provider>({ ...named("seen"), spec: { api: "echo", concurrency: 1 } });
  await until(() => heard.includes("add seen 1"), 5_000, "it hears of a new one");
  await at.gateway.request("GET", "/api/health");
  await objects.patch(
    { ...named("seen"), spec: { concurrency: 2 } } as KubernetesObject,
    undefined,
    undefined,
    "m",
    undefined,
    PatchStrategy.MergePatch,
  );
  await until(() => heard.includes("update seen 2"), 5_000, "it hears of a change");
  await objects.delete(named("seen"));
  await until(() => heard.some((line) => line.startsWith("delete seen")), 5_000, "it hears of an end");
  await informer.stop();
});

test("a watch from a version that is not kept gets 410", async () => {
  const told: unknown[] = [];
  await new Promise<unknown>((resolve) => {
    const query = { resourceVersion: "9999999999999999999" };
    void new Watch(config).watch(PROVIDERS, query, (phase, object) => void told.push([phase, object]), resolve);
  });
  expect(told).toEqual([["ERROR", expect.objectContaining({ kind: "Status", code: 410, reason: "Expired" })]]);
});

test("an initial state is told whole, and its end is marked", async () => {
  const told: string[] = [];
  const query = { sendInitialEvents: true, allowWatchBookmarks: true, resourceVersionMatch: "NotOlderThan", timeoutSeconds: 1 };
  await new Promise<unknown>((resolve) => {
    void new Watch(config).watch(
      PROVIDERS,
      query,
      (phase, object) => void told.push(`${phase} ${object.metadata?.name ?? object.metadata?.annotations?.["k8s.io/initial-events-end"]}`),
      resolve,
    );
  });
  expect(told.at(-1)).toBe("BOOKMARK true");
  expect(told.slice(0, -1)).toEqual(["ADDED echo"]);
});

test("pods are read, and their logs", async () => {
  await at.gateway.request("POST", "/api/agents/travel/exec", { command: "echo logged" });
  const core = config.makeApiClient(CoreV1Api);
  const pods = await core.listNamespacedPod({ namespace: "default" });
  expect(pods.items.map((pod) => [pod.metadata?.name, pod.metadata?.ownerReferences?.[0]?.kind, pod.status?.phase])).toEqual([
    ["travel", "Agent", "Running"],
  ]);
  expect(await core.readNamespacedPodLog({ namespace: "default", name: "travel", tailLines: 1 })).toContain('["echo logged"]');
  expect(await core.createNamespacedPod({ namespace: "default", body: {} }).catch(code)).toBe(405);
});

test("exec carries both outputs, standard input and the exit code, and is in the audit log", async () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const kept: Record<string, string> = { out: "", err: "" };
  stdout.on("data", (part: Buffer) => (kept["out"] += part.toString()));
  stderr.on("data", (part: Buffer) => (kept["err"] += part.toString()));
  const command = ["sh", "-c", 'head -c 5; echo "it\'s err" >&2; exit 7'];
  const status = await new Promise<V1Status>((resolve, reject) => {
    new Exec(config)
      .exec("default", "travel", "sandbox", command, stdout, stderr, Readable.from(["hello world"]), false, resolve)
      .catch(reject);
  });
  expect(kept).toEqual({ out: "hello", err: "it's err\n" });
  expect(status).toMatchObject({
    status: "Failure",
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: "7" }] },
  });
  const { body } = await at.gateway.request("GET", "/api/audit/tail?agent=travel&limit=1");
  expect(body.items).toMatchObject([{ tool: "exec", decision: "allowed", principal: "operator", exitCode: 7 }]);
});

test("without the token nothing is answered", async () => {
  const other = new KubeConfig();
  other.loadFromFile(at.kubeconfig);
  const user = other.getCurrentUser();
  other.users = [{ ...user, name: user?.name ?? "", token: "wrong" }];
  expect(await KubernetesObjectApi.makeApiClient(other).read(named("echo")).catch(code)).toBe(401);
  const refused = await new Exec(other).exec("default", "travel", "sandbox", ["true"], null, null, null, false).then(
    () => "open",
    (error: unknown) => String((error as { message?: string }).message ?? error),
  );
  expect(refused).toContain("401");
});
