import { spawn } from "node:child_process";
import {
  appendFileSync,
  createReadStream,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AuditCall, AuditRow } from "../core/audit.ts";
import { chainSegments, type ChainHead, type Verified, verifyChain } from "../core/chain.ts";
import { type AuditChain, type AuditOptions, createAudit } from "./audit.ts";
import { systemClock } from "./clock.ts";

let folder = "";
let path = "";
const opened: AuditChain[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-audit-"));
  path = join(folder, "logs/audit.jsonl");
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((chain) => chain.close()));
  rmSync(folder, { recursive: true, force: true });
});

const make = (more: Partial<AuditOptions> = {}): AuditChain => {
  const chain = createAudit({ path, clock: systemClock, ...more });
  opened.push(chain);
  return chain;
};
const row: AuditCall = { agent: "travel", type: "core_tool", tool: "exec", args: ["ls"], decision: "allowed", target: "sandbox" };
const outcome = { durationMs: 5, exitCode: 0, outputBytes: 2, outcome: "ok" } as const;

const rows = (file = path): readonly AuditRow[] =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as AuditRow);

async function* bytes(): AsyncGenerator<Uint8Array> {
  const logs = join(folder, "logs");
  for (const name of chainSegments(readdirSync(logs), "audit.jsonl"))
    yield* createReadStream(join(logs, name)) as AsyncIterable<Uint8Array>;
}
const verify = (anchor?: ChainHead): Promise<Verified> => verifyChain(bytes(), anchor);

test("a call has a begin row on the disk before it is begun, and an outcome row that repeats it", async () => {
  const audit = make();
  await audit.begin("c1", row);
  expect(rows()).toEqual([expect.objectContaining({ seq: 1, call: "c1", phase: "begin", agent: "travel", tool: "exec", args: ["ls"] })]);
  await audit.end("c1", row, outcome);
  expect(rows()[1]).toMatchObject({
    seq: 2,
    call: "c1",
    phase: "end",
    tool: "exec",
    decision: "allowed",
    durationMs: 5,
    exitCode: 0,
    outputBytes: 2,
  });
  expect(audit.head()).toEqual({ seq: 2, hash: rows()[1]?.hash });
  expect(await verify(audit.head())).toMatchObject({ ok: true, rows: 2, open: 0 });
});

test("the outcome of a request rides with the next row, or goes a moment later; a close takes it along", async () => {
  const audit = make();
  const asked: AuditCall = { ...row, type: "llm", tool: "up/two", target: "provider" };
  const phases = (): readonly string[] => rows().map(({ call, phase }) => `${call} ${phase}`);
  await audit.begin("c1", asked);
  const first = audit.end("c1", asked, outcome);
  await audit.begin("c2", asked);
  expect(phases()).toEqual(["c1 begin", "c1 end", "c2 begin"]);
  await first;
  // Nobody comes after it.
  await audit.end("c2", asked, outcome);
  expect(phases().at(-1)).toBe("c2 end");
  await audit.begin("c3", asked);
  const last = audit.end("c3", asked, outcome);
  await audit.close();
  await last;
  expect(phases().at(-1)).toBe("c3 end");
  expect(await verify()).toMatchObject({ ok: true, rows: 6, open: 0 });
});

test("the file and its folder are closed to others, also when they were open before", async () => {
  await make().note("", row);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, "logs")).mode & 0o777).toBe(0o700);
});

test("secrets are replaced by value in arguments and errors, and long arguments are cut", async () => {
  const audit = make({ redact: (text) => text.replaceAll("hunter22", "[secret]") });
  await audit.denied("c1", { ...row, args: ["export KEY=hunter22", "x".repeat(9_000)], decision: "denied" }, "no: hunter22");
  expect(readFileSync(path, "utf8")).not.toContain("hunter22");
  expect(rows()[0]).toMatchObject({
    phase: "denied",
    error: "no: [secret]",
    args: ["export KEY=[secret]", expect.stringContaining("[cut: ")],
  });
  expect(statSync(path).size).toBeLessThan(5_500);
});

test("many callers share a flush and make one chain", async () => {
  const audit = make();
  await Promise.all(
    Array.from({ length: 64 }, async (_, at) => {
      for (let turn = 0; turn < 10; turn += 1) {
        await audit.begin(`${at}.${turn}`, row);
        await audit.end(`${at}.${turn}`, row, outcome);
      }
    }),
  );
  expect(await verify()).toMatchObject({ ok: true, rows: 1_280, open: 0 });
});

test("a torn last line is cut, its hash is told, and the chain goes on", async () => {
  const first = make();
  await first.begin("c1", row);
  await first.end("c1", row, outcome);
  await first.close();
  appendFileSync(path, '{"seq":3,"ts":"20');
  const second = make();
  await second.begin("c2", row);
  expect(rows().map(({ tool, phase }) => `${phase} ${tool}`)).toEqual(["begin exec", "end exec", "note recovered", "begin exec"]);
  expect(rows()[2]?.args).toEqual([expect.stringMatching(/^sha256 [0-9a-f]{64}$/), "bytes 17"]);
  expect(readdirSync(join(folder, "logs")).filter((name) => name.includes(".cut-"))).toHaveLength(1);
  expect(await verify()).toMatchObject({ ok: true, rows: 4 });
});

test("garbage and zeros behind the last row are cut as well", async () => {
  const first = make();
  await first.note("", row);
  await first.close();
  appendFileSync(path, Buffer.concat([Buffer.from("hello\n{}\n"), Buffer.alloc(4_096)]));
  await make().note("", row);
  expect(await verify()).toMatchObject({ ok: true, rows: 3 });
});

test("a file without one whole row is set aside and a chain is begun", async () => {
  const audit = make();
  await audit.note("", row);
  await audit.close();
  writeFileSync(path, "garbage\n");
  await make().note("", row);
  expect(rows()[0]).toMatchObject({ seq: 1, tool: "recovered" });
  expect(await verify()).toMatchObject({ ok: true });
});

test("calls that a dead gateway left open get an unknown outcome, once", async () => {
  const first = make();
  await first.begin("done", row);
  await first.end("done", row, outcome);
  await first.begin("lost", { ...row, args: ["sleep 9"] });
  await first.close();
  const second = make();
  await second.begin("new", row);
  expect(rows().slice(3)).toEqual([
    expect.objectContaining({ call: "lost", phase: "end", outcome: "unknown", args: ["sleep 9"] }),
    expect.objectContaining({ call: "new", phase: "begin" }),
  ]);
  await second.end("new", row, outcome);
  await second.close();
  await make().ready();
  expect(rows()).toHaveLength(6);
  expect(await verify()).toMatchObject({ ok: true, open: 0 });
});

test("a call that goes on over a restart waits for whoever takes it, and is unknown when nobody does", async () => {
  const first = make();
  for (const call of ["goes", "stays", "gone"]) await first.begin(call, { ...row, args: [call] });
  await first.close();
  const second = make({ goesOn: (call) => call !== "gone" });
  await second.ready();
  expect(rows().slice(3)).toMatchObject([{ call: "gone", phase: "end", outcome: "unknown" }]);
  const taken = second.left.take("goes");
  expect(taken).toStrictEqual({ ...row, args: ["goes"] });
  expect([second.left.take("goes"), second.left.take("gone")]).toStrictEqual([undefined, undefined]);
  await second.left.close();
  if (taken !== undefined) await second.end("goes", taken, outcome);
  expect(rows().slice(4)).toMatchObject([
    { call: "stays", phase: "end", outcome: "unknown" },
    { call: "goes", phase: "end", outcome: outcome.outcome },
  ]);
  await second.close();
  expect(await verify()).toMatchObject({ ok: true, open: 0 });
});

test("a full file becomes a segment and the chain goes on behind it, over restarts too", async () => {
  const audit = make({ rotateBytes: 2_000 });
  for (let at = 0; at < 30; at += 1) await audit.note(`c${at}`, row);
  await audit.close();
  const again = make({ rotateBytes: 2_000 });
  for (let at = 0; at < 10; at += 1) await again.note(`d${at}`, row);
  expect(chainSegments(readdirSync(join(folder, "logs")), "audit.jsonl").length).toBeGreaterThan(3);
  expect(await verify(again.head())).toMatchObject({ ok: true, rows: 40 });
});

test("an empty or missing newest file does not start the chain anew: it walks back to the segments (P117)", async () => {
  for (const damage of [() => truncateSync(path, 0), () => rmSync(path), () => truncateSync(path, 5)]) {
    rmSync(join(folder, "logs"), { recursive: true, force: true });
    const audit = make({ rotateBytes: 1_500 });
    for (let at = 0; at < 9; at += 1) await audit.note(`c${at}`, row);
    await audit.close();
    const last = rows(join(folder, "logs", chainSegments(readdirSync(join(folder, "logs")), "audit.jsonl").at(-2) ?? "")).at(-1);
    damage();
    await make().note("later", row);
    expect(rows()[0]).toMatchObject({ seq: (last?.seq ?? 0) + 1, prev_hash: last?.hash });
    expect(await verify()).toMatchObject({ ok: true });
  }
});

test("an open call is closed although its begin lies in the segment before", async () => {
  const audit = make({ rotateBytes: 1_000 });
  await audit.begin("lost", row);
  for (let at = 0; at < 3; at += 1) await audit.note(`c${at}`, row);
  await audit.close();
  await make({ rotateBytes: 1_000 }).ready();
  expect(await verify()).toMatchObject({ ok: true, open: 0 });
});

test("where nothing can be written the call is refused as unavailable, and all is well once it can", async () => {
  const audit = make();
  await audit.begin("c0", row);
  rmSync(join(folder, "logs"), { recursive: true });
  writeFileSync(join(folder, "logs"), "in the way");
  await expect(audit.begin("c1", row)).rejects.toMatchObject({ code: "unavailable" });
  await expect(audit.end("c0", row, outcome)).rejects.toMatchObject({ code: "unavailable" });
  rmSync(join(folder, "logs"));
  await audit.begin("c2", row);
  expect(rows().map(({ call, phase }) => `${call} ${phase}`)).toEqual(["c0 end", "c2 begin"]);
  expect(await verify()).toMatchObject({ ok: true });
});

test("a link in the place of the file is not followed", async () => {
  const target = join(folder, "target");
  writeFileSync(target, "");
  await make()
    .ready()
    .catch(() => undefined);
  await opened[0]?.close();
  rmSync(path);
  symlinkSync(target, path);
  await expect(make().begin("c", row)).rejects.toMatchObject({ code: "unavailable" });
  expect(readFileSync(target, "utf8")).toBe("");
});

test("a closed chain refuses", async () => {
  const audit = make();
  await audit.begin("c", row);
  await audit.close();
  await expect(audit.begin("d", row)).rejects.toMatchObject({ code: "unavailable" });
});

const modules = { audit: new URL("./audit.ts", import.meta.url).href, clock: new URL("./clock.ts", import.meta.url).href };

/** Runs code with `audit` and `row` in a process of its own; answers its exit code and output. */
function child(
  body: string,
  options: { readonly before?: string; readonly more?: string } = {},
): Promise<{ code: number | null; out: string }> {
  const code = `
    const { createAudit } = await import(${JSON.stringify(modules.audit)});
    const { systemClock } = await import(${JSON.stringify(modules.clock)});
    const row = ${JSON.stringify(row)}, outcome = ${JSON.stringify(outcome)};
    const audit = createAudit({ path: ${JSON.stringify(path)}, clock: systemClock, closeOpen: false, ${options.more ?? ""} });
    ${body}`;
  const args = ["-c", `${options.before ?? ":"}; exec "$@"`, "sh", process.execPath, "--input-type=module", "-e", code];
  const started = spawn("sh", args, { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  started.stdout.on("data", (part: Buffer) => (out += part.toString()));
  return new Promise((done) => started.on("close", (code) => done({ code, out })));
}

test("eight processes append a thousand rows each and make one chain (P115)", async () => {
  const body = `
    await Promise.all(Array.from({ length: 20 }, async (_, a) => { for (let b = 0; b < 50; b++) await audit.note(process.pid + "." + a + "." + b, row); }));
    await audit.close();`;
  const more = `lockPath: ${JSON.stringify(join(folder, "audit.lock"))}, rotateBytes: 500_000`;
  const ended = await Promise.all(Array.from({ length: 8 }, () => child(body, { more })));
  expect(ended.map(({ code }) => code)).toEqual(Array.from({ length: 8 }, () => 0));
  expect(await verify()).toMatchObject({ ok: true, rows: 8_000 });
}, 60_000);

test("a disk that is full refuses calls, and leaves no half row", async () => {
  const body = `
    let had = 0, refused = 0, code = "";
    for (let at = 0; at < 60; at++) await audit.begin("c" + at, row).then(() => had++, (error) => { refused++; code = error.code; });
    console.log(JSON.stringify({ had, refused, code }));`;
  const { out } = await child(body, { before: "ulimit -f 8" });
  const told = JSON.parse(out) as { had: number; refused: number; code: string };
  expect(told).toMatchObject({ code: "unavailable" });
  expect(told.refused).toBeGreaterThan(5);
  expect(await verify()).toMatchObject({ ok: true, rows: told.had });
});

test("killed while it writes, the chain is whole and every call that was begun is there", async () => {
  for (let round = 0; round < 3; round += 1) {
    const body = `
      let at = 0;
      setTimeout(() => process.kill(process.pid, "SIGKILL"), ${20 + round * 17});
      const print = (id) => require("node:fs").writeSync(1, id + "\\n");
      const { createRequire } = await import("node:module"); const require = createRequire("/");
      await Promise.all(Array.from({ length: 16 }, async () => { for (;;) { const id = "r${round}." + at++; await audit.begin(id, row); print(id); } }));`;
    const { out } = await child(body);
    const begun = new Set(rows().map(({ call }) => call));
    for (const id of out.split("\n").slice(0, -1)) expect(begun.has(id), id).toBe(true);
    await make().ready();
    await opened.pop()?.close();
    expect(await verify()).toMatchObject({ ok: true, open: 0 });
  }
});
