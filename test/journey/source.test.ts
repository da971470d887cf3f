// A git work tree under a Source, from the command line: good, broken and mended revisions, hands that interfere, and an emptied folder.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGateway, until } from "../gateway.ts";

const work = mkdtempSync(join(tmpdir(), "beige-source-"));
const stacks = join(work, "stacks");
const gateway = makeGateway();

const git = (...args: string[]): string => {
  const who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
  const ran = spawnSync("git", ["-C", work, ...who, ...args], { encoding: "utf8" });
  expect(ran.status, ran.stderr).toBe(0);
  return ran.stdout.trim();
};
const commit = (): string => {
  git("add", "-A");
  git("commit", "-q", "--allow-empty", "-m", "next");
  return git("rev-parse", "HEAD").slice(0, 7);
};

const agent = (name: string, model: string, more = ""): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: ${name}}\nspec:\n  model: {provider: echo, id: ${model}}\n  suspend: true\n${more}`;
const put = (name: string, text: string): void => writeFileSync(join(stacks, name), text);

interface Seen {
  readonly spec: any; // eslint-disable-line -- tests look into arbitrary answers
  readonly metadata: { readonly annotations?: Record<string, string> };
  readonly status?: {
    readonly observed?: Record<string, unknown>;
    readonly conditions: readonly { readonly type: string; readonly status: string; readonly reason: string; readonly message: string }[];
  };
}
const path = (kind: string, name: string): string =>
  `/apis/beige.dev/v1/${kind === "sources" || kind === "providers" ? "" : "namespaces/default/"}${kind}/${name}`;
const get = async (kind: string, name: string): Promise<Seen | undefined> => {
  const { status, body } = await gateway.request("GET", path(kind, name));
  return status === 200 ? (body as Seen) : undefined;
};
const ready = (object: Seen | undefined) => object?.status?.conditions.find(({ type }) => type === "Ready");
const revision = async (text: string) =>
  until(
    async () => {
      const source = await get("sources", "stacks");
      return source?.status?.observed?.["revision"] === text && ready(source)?.status === "True";
    },
    10_000,
    `revision ${text}`,
  );
const modelOf = async (name: string): Promise<string | undefined> => (await get("agents", name))?.spec.model.id;

beforeAll(async () => {
  mkdirSync(stacks);
  spawnSync("git", ["init", "-q", "-b", "main", work]);
  writeFileSync(join(gateway.home, "host.yaml"), `paths: {workspaces: [${work}]}\n`, { mode: 0o600 });
  await gateway.start();
  await gateway.apply("apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: echo}\nspec: {api: echo}\n", { set: "base" });
}, 60_000);
afterAll(async () => {
  await gateway.clean();
  rmSync(work, { recursive: true, force: true });
});

test("a commit becomes what is wanted, and is shown as branch and commit", async () => {
  for (const name of ["one", "two", "three", "four"]) put(`${name}.yaml`, agent(name, "a"));
  const first = commit();
  await gateway.apply(
    `apiVersion: beige.dev/v1\nkind: Source\nmetadata: {name: stacks}\nspec: {path: ${stacks}, prune: true, interval: 2s}\n`,
    { set: "ops" },
  );
  await revision(`main@${first}`);
  expect(await modelOf("four")).toBe("a");
  const { out } = await gateway.beige("get", "sources");
  expect(out).toMatch(/^NAME +READY +REVISION +APPLIED +OBJECTS +DRIFT +AGE +WHY\nstacks +yes +main@[0-9a-f]{7} +\d+s +4 +0 /);
});

test("a broken commit changes nothing, keeps the last good one, and beige status names the line and exits 1", async () => {
  put("one.yaml", agent("one", "b"));
  put("two.yaml", agent("two", "b", "  tool: [x]\n"));
  const broken = commit();
  const source = await until(
    async () => {
      const seen = await get("sources", "stacks");
      return ready(seen)?.reason === "InvalidRevision" ? seen : undefined;
    },
    10_000,
    "the broken revision is refused",
  );
  expect(ready(source)?.message).toContain(`main@${broken} is not valid: two.yaml:7:3 unknown field "tool"`);
  expect(ready(source)?.message).toContain("keeps running");
  expect(source.status?.conditions.find(({ type }) => type === "Degraded")?.status).toBe("True");
  expect([await modelOf("one"), await modelOf("two")]).toEqual(["a", "a"]);
  const status = await gateway.beige("status");
  expect(status.code).toBe(1);
  expect(status.out).toMatch(/^OBJECT .*\nsource\/stacks +no +InvalidRevision +.*two\.yaml:7:3/);
});

test("while it is broken, an object that somebody deletes comes back", async () => {
  expect((await gateway.beige("delete", "agent/three")).code).toBe(0);
  await until(() => get("agents", "three"), 10_000, "the agent is back");
  expect(ready(await get("sources", "stacks"))?.reason).toBe("InvalidRevision");
});

test.each([
  ["a wrong field", () => agent("two", "b", "  tool: [x]\n")],
  ["half a file", () => agent("two", "b").slice(0, 60)],
  ["two files in one", () => `${agent("two", "b")}<<<<<<< HEAD\n${agent("two", "c")}`],
  ["bytes that are no text", () => Buffer.from([0xff, 0xfe, 0x00, 0x61])],
])(
  "a gateway that is started on %s keeps the last good revision running and leaves the file alone (P111)",
  async (_what, text) => {
    const file = join(stacks, "two.yaml");
    writeFileSync(file, text());
    const before = readFileSync(file);
    await gateway.kill();
    await gateway.start();
    await until(async () => ready(await get("sources", "stacks"))?.reason === "InvalidRevision", 10_000, "the revision is refused");
    expect([await modelOf("one"), await modelOf("two")]).toEqual(["a", "a"]);
    const status = await gateway.beige("status");
    expect([status.code, status.out]).toEqual([1, expect.stringContaining("two.yaml")]);
    expect(readFileSync(file)).toEqual(before);
  },
  40_000,
);

test("the next good commit is applied", async () => {
  put("two.yaml", agent("two", "b"));
  await revision(`main@${commit()}`);
  expect([await modelOf("one"), await modelOf("two")]).toEqual(["b", "b"]);
  expect((await gateway.beige("status")).code).toBe(0);
});

test("a save without a commit is applied and shown as such, and the commit gives it its name", async () => {
  const head = git("rev-parse", "HEAD").slice(0, 7);
  put("one.yaml", agent("one", "c"));
  await until(async () => (await modelOf("one")) === "c", 10_000, "the save is applied");
  const shown = await until(
    async () => (await get("sources", "stacks"))?.status?.observed?.["revision"] !== `main@${head}`,
    10_000,
    "it has another name",
  );
  expect(shown && (await get("sources", "stacks"))?.status?.observed?.["revision"]).toMatch(new RegExp(`^main@${head}\\+[0-9a-f]{7}$`));
  await revision(`main@${commit()}`);
});

test("other hands are refused: an apply and a patch name the source, and nothing changes", async () => {
  const hand = join(work, "hand.yaml");
  writeFileSync(hand, agent("one", "mine"));
  const applied = await gateway.beige("apply", "-f", hand, "--yes");
  rmSync(hand);
  expect(applied.code).toBe(3);
  expect(applied.err).toContain("agent/one spec.model.id is owned by source/stacks");
  const suspended = await gateway.beige("resume", "agent/one");
  expect(suspended.code).toBe(3);
  expect(suspended.err).toContain("spec.suspend is owned by source/stacks");
  expect(await modelOf("one")).toBe("c");
});

test("what is taken by force is put back, with an event", async () => {
  const hand = join(work, "hand.yaml");
  writeFileSync(hand, agent("one", "mine"));
  expect((await gateway.beige("apply", "-f", hand, "--yes", "--force-conflicts", "--no-wait")).code).toBe(0);
  rmSync(hand);
  await until(async () => (await modelOf("one")) === "c", 10_000, "the field is back");
  const { out } = await gateway.beige("events", "source/stacks");
  expect(out).toMatch(/Repaired .*put back revision main@/);
});

test("an emptied folder is taken for an accident", async () => {
  renameSync(stacks, `${stacks}.away`);
  mkdirSync(stacks);
  await until(async () => ready(await get("sources", "stacks"))?.reason === "PruneRefused", 10_000, "it is refused");
  expect(ready(await get("sources", "stacks"))?.message).toContain("allowEmpty");
  expect(await modelOf("four")).toBe("a");
  rmSync(stacks, { recursive: true });
  await until(async () => ready(await get("sources", "stacks"))?.reason === "PathMissing", 10_000, "it is missed");
  renameSync(`${stacks}.away`, stacks);
  await until(async () => ready(await get("sources", "stacks"))?.status === "True", 10_000, "it is back");
});

test("one manifest that is removed takes its object along; three of four are too many at once", async () => {
  rmSync(join(stacks, "four.yaml"));
  await until(async () => (await get("agents", "four")) === undefined, 10_000, "the agent is gone");
  for (const name of ["two", "three"]) rmSync(join(stacks, `${name}.yaml`));
  await until(async () => ready(await get("sources", "stacks"))?.reason === "PruneRefused", 10_000, "it is refused");
  expect(await modelOf("two")).toBe("b");
  for (const name of ["two", "three"]) put(`${name}.yaml`, agent(name, "b"));
  await until(async () => ready(await get("sources", "stacks"))?.status === "True", 10_000, "it is well again");
});

test("a Provider in the folder is refused with the line of host.yaml that allows it", async () => {
  put("p.yaml", "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: mine}\nspec: {api: echo}\n");
  const { code, out } = await gateway.beige("reconcile", "source/stacks");
  expect([code, out]).toEqual([
    1,
    expect.stringContaining(
      "p.yaml:2:7 a Source may not bring a Provider; the operator allows it in host.yaml: sources: {kinds: [Agent, Schedule, Provider]}",
    ),
  ]);
  rmSync(join(stacks, "p.yaml"));
  expect((await gateway.beige("reconcile", "source/stacks")).code).toBe(0);
});

test("a suspended source reads nothing; resumed, it finds what was saved meanwhile", async () => {
  expect((await gateway.beige("suspend", "source/stacks")).out).toBe("source/stacks suspended\n");
  put("one.yaml", agent("one", "d"));
  await new Promise((done) => setTimeout(done, 700));
  expect(await modelOf("one")).toBe("c");
  expect((await gateway.beige("status")).code).toBe(0);
  expect((await gateway.beige("resume", "source/stacks")).code).toBe(0);
  await until(async () => (await modelOf("one")) === "d", 10_000, "the save is found");
});

test("a save while the gateway is down is found when it is up again", async () => {
  await gateway.kill();
  put("one.yaml", agent("one", "e"));
  await gateway.start();
  await until(async () => (await modelOf("one")) === "e", 10_000, "the save is found");
}, 60_000);

test("no agent may write into the folder, and no file outside of it is read", async () => {
  put("evil.yaml", agent("evil", "a", `  workspace: {path: ${stacks}/work}\n`));
  const reconciled = await gateway.beige("reconcile", "source/stacks");
  expect(reconciled.out).toContain("overlaps");
  rmSync(join(stacks, "evil.yaml"));
  symlinkSync("/etc/hostname", join(stacks, "evil.yaml"));
  expect((await gateway.beige("reconcile", "source/stacks")).out).toContain("evil.yaml is a link that leads out of the folder");
  rmSync(join(stacks, "evil.yaml"));
});

test("deleting a source that prunes deletes its objects, but not one that an apply holds as well", async () => {
  expect((await gateway.beige("delete", "source/stacks")).code).toBe(0);
  await until(async () => (await get("agents", "two")) === undefined, 10_000, "its agents are gone");
  expect(await modelOf("one")).toBe("e");
  expect(await get("providers", "echo")).toBeDefined();
});
