// beige top against a small API, and the kernel's files that it reads.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { usedBy, wholeId } from "./cgroup.ts";
import { json, paper, stand } from "./harness.ts";
import { bytesText, drawTop } from "./render/top.ts";
import { slotsIn } from "./verbs/top.ts";

const ID = "0123456789abcdef".repeat(4);

function kernel(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), "beige-cgroup-"));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

test("memory and time of a container are read from both versions of the kernel's files; nothing is made up where there are none", () => {
  const two = kernel({
    [`system.slice/docker-${ID}.scope/memory.current`]: "5000000\n",
    [`system.slice/docker-${ID}.scope/memory.stat`]: "anon 1\ninactive_file 1000000\n",
    [`system.slice/docker-${ID}.scope/cpu.stat`]: "usage_usec 250000\nuser_usec 1\n",
  });
  const one = kernel({
    [`memory/docker/${ID}/memory.usage_in_bytes`]: "5000000\n",
    [`memory/docker/${ID}/memory.stat`]: "inactive_file 5\ntotal_inactive_file 1000000\n",
    [`cpuacct/docker/${ID}/cpuacct.usage`]: "250000000\n",
  });
  try {
    for (const root of [two, one]) expect(usedBy(ID, root)).toEqual({ memoryBytes: 4_000_000, cpuMs: 250 });
    expect(usedBy("f".repeat(64), two)).toBeUndefined();
    expect(usedBy(`../../${ID}`, two)).toBeUndefined();
  } finally {
    for (const root of [two, one]) rmSync(root, { recursive: true });
  }
});

test("a short id names a container only when it is one container's", () => {
  const other = `${ID.slice(0, 12)}${"f".repeat(52)}`;
  expect(wholeId(ID.slice(0, 12), [`docker-${ID}.scope`, "init.scope"])).toBe(ID);
  expect(wholeId(ID.slice(0, 12), [ID, other])).toBeUndefined();
  expect(wholeId(ID.slice(0, 4), [ID])).toBeUndefined();
});

test("slots are read from the metrics, and bytes as people write them", () => {
  const text = `# HELP x\nbeige_provider_slots_used{provider="a"} 2\nbeige_provider_slots_waiting{provider="a"} 1\nbeige_provider_slots_limit{provider="a"} -1\n`;
  expect(slotsIn(text)).toEqual([{ provider: "a", used: 2, waiting: 1, limit: -1 }]);
  expect([1, 5 * 1024 ** 2, 1.5 * 1024 ** 3].map(bytesText)).toEqual(["1Ki", "5Mi", "1.5Gi"]);
});

test("a narrow terminal shows fewer columns, whole, and a pipe all of them", () => {
  const row = {
    agent: "proof-reader",
    state: "ImageBuildFailed",
    sessions: 1,
    turns: 0,
    requests: 0,
    requestsPerMinute: 3,
    tokens: 339,
    usd: 1,
    unpriced: 0,
    cpuPercent: 0.4,
    memoryBytes: 5000,
  };
  const head = (columns: number, tty = true): string | undefined => drawTop(paper({ tty, columns }), { rows: [row], slots: [] })[0];
  expect(head(80)).toBe("AGENT          STATE              TURNS   TOKENS    COST    CPU   MEMORY");
  expect(head(120)).toContain("SESSIONS");
  expect(head(80, false)).toContain("SESSIONS");
});

test("in a pipe it looks once: the busiest agent first, with what runs, what it used today and how providers stand", async () => {
  const agent = (name: string, ready: string) => ({
    kind: "Agent",
    metadata: { namespace: "default", name, uid: name, generation: 1 },
    spec: { suspend: false },
    status: {
      conditions: [{ type: "Ready", status: ready, reason: ready === "True" ? "Ready" : "ImageMissing", message: "" }],
      observed: {},
    },
  });
  const line = (name: string, requests: number, open: number) => ({
    name,
    requests,
    open,
    tokens: 12_345,
    usd: 0.5,
    unpriced: name === "busy" ? 1 : 0,
  });
  const at = await stand({
    "GET /apis/beige.dev/v1/agents": ({ response }) => json(response, { items: [agent("idle", "True"), agent("busy", "False")] }),
    "GET /api/agents/idle/sessions": ({ response }) => json(response, { sessions: [{ running: false }] }),
    "GET /api/agents/busy/sessions": ({ response }) => json(response, { sessions: [{ running: true }, { running: false }] }),
    "GET /api/usage": ({ response, url }) => {
      const recent = Date.now() - Number(url.searchParams.get("since")) < 65_000;
      json(response, { items: recent ? [line("busy", 7, 0)] : [line("busy", 90, 3)] });
    },
    "GET /metrics": ({ response }) =>
      response.writeHead(200, { "content-type": "text/plain" }).end(`beige_provider_slots_used{provider="scripted"} 3
`),
  });
  try {
    const ran = await at.run(["top"]);
    expect(ran.err).toBe("");
    const lines = ran.out.trimEnd().split("\n");
    expect(lines.map((text) => text.split(/ {2,}/))).toEqual([
      ["requests at providers: scripted 3"],
      ["AGENT", "STATE", "SESSIONS", "TURNS", "LLM", "REQ/MIN", "TOKENS", "COST", "CPU", "MEMORY"],
      ["busy", "ImageMissing", "2", "1", "3", "7", "12.3k", "$0.50+", "-", "-"],
      ["idle", "ready", "1", "0", "0", "0", "0", "$0.00", "-", "-"],
    ]);
    const told = JSON.parse((await at.run(["top", "-o", "json"])).out) as { rows: { agent: string; turns: number }[] };
    expect(told.rows.map(({ agent: name, turns }) => [name, turns])).toEqual([
      ["idle", 0],
      ["busy", 1],
    ]);
  } finally {
    await at.close();
  }
});
