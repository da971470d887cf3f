import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import host from "../../schemas/host.json" with { type: "json" };
import { EMPTY, sealRow } from "../core/chain.ts";
import { stand, type Stand } from "./harness.ts";
import { yamlValue } from "./offline.ts";

const stands: Stand[] = [];
async function open(): Promise<Stand> {
  const made = await stand();
  stands.push(made);
  return made;
}
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});
const mode = (path: string): number => statSync(path).mode & 0o777;

test("a secret's value comes from standard input into a private file, and only its name and hosts are ever shown", async () => {
  const made = await open();
  const set = await made.run(["secret", "set", "openai", "--host", "api.openai.com", "--host", "*.openai.com:443"], {
    stdin: "sk-planted-value\n",
  });
  expect(set).toMatchObject({ code: 0, out: "secret openai set: may be sent to api.openai.com, *.openai.com:443\n" });
  expect(readFileSync(join(made.home, "secrets/openai"), "utf8")).toBe("sk-planted-value\n");
  expect([mode(join(made.home, "secrets")), mode(join(made.home, "secrets/openai")), mode(join(made.home, "host.yaml"))]).toEqual([
    0o700, 0o600, 0o600,
  ]);
  const shown = [await made.run(["secret", "list"]), await made.run(["secret", "list", "-o", "json"]), await made.run(["doctor"]), set];
  for (const ran of shown) expect(ran.out + ran.err).not.toContain("sk-planted");
  expect(readFileSync(join(made.home, "host.yaml"), "utf8")).not.toContain("sk-planted");
  expect((await made.run(["secret", "rm", "openai"])).code).toBe(0);
  expect(existsSync(join(made.home, "secrets/openai"))).toBe(false);
  expect((await made.run(["secret", "rm", "openai"])).code).toBe(1);
});

test("no other part of host.yaml is lost or filled with defaults when a secret is set or forgotten", async () => {
  const made = await open();
  const path = join(made.home, "host.yaml");
  const rest = {
    paths: { plugins: ["/srv"] },
    egress: { private: ["wiki.corp:80"] },
    build: { network: "none" },
    tracing: { endpoint: "http://127.0.0.1:4318" },
    warm: [{ image: "beige-base:1", count: 2 }],
    sources: { kinds: ["Agent"] },
  };
  // As every part that there is: a new one is to be named here.
  expect(Object.keys(rest).toSorted()).toEqual(
    Object.keys(host.properties)
      .filter((name) => name !== "secrets")
      .toSorted(),
  );
  writeFileSync(path, `# mine\n${JSON.stringify(rest)}\n`, { mode: 0o600 });
  expect(await made.run(["secret", "set", "b", "--env", "B", "--host", "b.example"])).toMatchObject({ code: 0, err: "" });
  expect(yamlValue(readFileSync(path, "utf8"))).toEqual({ value: { ...rest, secrets: [{ name: "b", env: "B", hosts: ["b.example"] }] } });
  expect((await made.run(["secret", "rm", "b"])).code).toBe(0);
  expect(yamlValue(readFileSync(path, "utf8"))).toEqual({ value: { ...rest, secrets: [] } });
});

test("what an operator wrote into host.yaml stays: paths, other secrets, comments", async () => {
  const made = await open();
  const path = join(made.home, "host.yaml");
  writeFileSync(path, "# mine\n# two lines\nsecrets:\n  - {name: a, env: A, hosts: [a.example]} # inner\npaths: {mounts: [/srv]}\n", {
    mode: 0o600,
  });
  expect((await made.run(["secret", "set", "b", "--env", "B", "--host", "b.example"])).code).toBe(0);
  const text = readFileSync(path, "utf8");
  expect(text.startsWith("# mine\n# two lines\n")).toBe(true);
  expect(text).toContain("/srv");
  expect(JSON.parse((await made.run(["secret", "list", "-o", "json"])).out)).toEqual({
    items: [
      { name: "a", env: "A", hosts: ["a.example"] },
      { name: "b", env: "B", hosts: ["b.example"] },
    ],
  });
  expect(readFileSync(`${path}.bak`, "utf8")).toContain("# inner");
});

test("a host.yaml that is not valid is not touched, and bad names, hosts and values are refused", async () => {
  const made = await open();
  const set = (args: readonly string[], stdin = "v\n") => made.run(["secret", "set", ...args], { stdin });
  expect(await set(["../evil"])).toMatchObject({ code: 2 });
  expect(await set(["a", "--host", "https://x.example/v1"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("fix:  --host x.example\n") as string,
  });
  const fix = 'fix:  printf %s "$KEY" | beige secret set a --host a.example --host b.example:8080\n';
  expect(await set(["a", "--host", "a.example", "--host", "b.example:8080"], "")).toMatchObject({
    code: 2,
    err: expect.stringContaining(fix) as string,
  });
  expect(await set(["a"], "one\ntwo\n")).toMatchObject({ code: 2 });
  expect(await set(["a", "the-value-on-the-command-line"])).toMatchObject({ code: 2 });
  expect(existsSync(join(made.home, "host.yaml"))).toBe(false);
  writeFileSync(join(made.home, "host.yaml"), "secret: []\n", { mode: 0o600 });
  expect(await set(["a"])).toMatchObject({ code: 2, err: expect.stringContaining("host.yaml") as string });
  expect(readFileSync(join(made.home, "host.yaml"), "utf8")).toBe("secret: []\n");
});

function chain(made: Stand, rows: number): string {
  const path = join(made.home, "logs/audit.jsonl");
  mkdirSync(join(made.home, "logs"), { recursive: true });
  let head = EMPTY;
  let text = "";
  for (let i = 0; i < rows; i++) {
    const denied = i % 5 === 0;
    const row = {
      ts: "2026-01-01T00:00:00.000Z",
      call: `c${i}`,
      phase: denied ? ("denied" as const) : ("note" as const),
      agent: i % 2 ? "travel" : "team.ops",
      type: "core_tool" as const,
      tool: "exec",
      args: [`echo ${i}`],
      decision: denied ? ("denied" as const) : ("allowed" as const),
    };
    const sealed = sealRow(head, row);
    head = sealed.head;
    text += sealed.line;
  }
  writeFileSync(path, text);
  return path;
}

test("audit tail leaves the arguments of a call without any empty, and shows its error alone", async () => {
  const made = await open();
  mkdirSync(join(made.home, "logs"), { recursive: true });
  const row = { ts: "2026-01-01T00:00:00.000Z", call: "c", phase: "end", agent: "a", type: "prompt", tool: "prompt", decision: "allowed" };
  const rows = [row, { ...row, error: "too late" }];
  writeFileSync(join(made.home, "logs/audit.jsonl"), rows.map((each) => `${JSON.stringify(each)}\n`).join(""));
  const ran = await made.run(["audit", "tail"]);
  expect(ran.out).not.toContain('""');
  expect(ran.out.split("\n").map((line) => line.trim().split(/ {3,}/).at(-1))).toEqual(["ARGS", "end", "too late", ""]);
});

test("audit tail shows the last rows that are wanted, oldest first", async () => {
  const made = await open();
  chain(made, 3000);
  const ran = await made.run(["audit", "tail", "-n", "2"]);
  expect(
    ran.out
      .split("\n")
      .slice(1, 3)
      .map((line) => line.split(/ {3,}/).at(-1)),
  ).toEqual(["echo 2998", "echo 2999"]);
  const json = await made.run(["audit", "tail", "-n", "3", "--denied", "--agent", "travel", "-o", "json"]);
  expect(
    json.out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { seq: number }).seq),
  ).toEqual([2976, 2986, 2996]);
});

test("audit verify passes on a whole chain, fails after one changed byte, and with an anchor after a cut tail", async () => {
  const made = await open();
  const path = chain(made, 200);
  const anchor = (await made.run(["audit", "anchor"])).out.trim();
  expect(anchor).toMatch(/^200:[0-9a-f]{64}$/);
  expect(await made.run(["audit", "verify", "--anchor", anchor])).toMatchObject({
    code: 0,
    out: expect.stringContaining("200 rows") as string,
  });
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.split("\n").slice(0, 150).join("\n") + "\n");
  expect(await made.run(["audit", "verify"])).toMatchObject({ code: 0 });
  expect(await made.run(["audit", "verify", "--anchor", anchor])).toMatchObject({
    code: 1,
    err: expect.stringContaining("tail was cut") as string,
  });
  writeFileSync(path, text.replace("echo 77", "echo 78"));
  expect(await made.run(["audit", "verify"])).toMatchObject({ code: 1, err: expect.stringContaining("line 78") as string });
  expect(await made.run(["audit", "anchor"])).toMatchObject({ code: 3 });
  expect(await made.run(["audit", "verify", "--anchor", "x"])).toMatchObject({ code: 2 });
});

test("logs of an agent are its own, in whatever way a line names it", async () => {
  const made = await open();
  mkdirSync(join(made.home, "logs"));
  const line = (msg: string, more: object = {}): string =>
    `${JSON.stringify({ level: "info", time: "2026-01-01T00:00:00.000Z", pid: 1, msg, ...more })}\n`;
  const lines = [
    line("one", { agent: "travel" }),
    line("two", { agent: "default.travel" }),
    line("three", { ref: { kind: "Agent", namespace: "default", name: "travel" } }),
    line("four", { key: "Agent/default/travel" }),
    line("other namespace", { agent: "team.travel" }),
    line("other kind", { key: "Plugin//travel" }),
    line("no name", { path: "/srv/travel" }),
    line("evil\u001B[2J\nfake line", { agent: "travel", level: "error" }),
    "not json travel\n",
    '{"agent":"travel"',
  ];
  writeFileSync(join(made.home, "logs/gateway.log"), lines.join(""));
  const ran = await made.run(["logs", "travel"]);
  expect(ran.out.split("\n").map((each) => each.split(/\s+/)[2])).toEqual(["one", "two", "three", "four", "evil[2J", undefined]);
  expect((await made.run(["logs", "agent/team.travel"])).out).toContain("other namespace");
  expect((await made.run(["logs", "--level", "error"])).out.trim().split("\n")).toHaveLength(1);
  expect((await made.run(["logs", "--tail", "2", "-o", "json"])).out.trim().split("\n")).toHaveLength(2);
});

test("logs -f goes on over a rotation", async () => {
  const made = await open();
  mkdirSync(join(made.home, "logs"));
  const path = join(made.home, "logs/gateway.log");
  const line = (msg: string): string => `${JSON.stringify({ level: "info", time: "2026-01-01T00:00:00.000Z", msg })}\n`;
  writeFileSync(path, line("first"));
  const child = made.start(["logs", "-f", "-o", "json"]);
  let out = "";
  child.stdout?.on("data", (part: Buffer) => (out += part.toString()));
  const said = (): string[] =>
    out
      .trim()
      .split("\n")
      .filter(Boolean)
      .map((each) => (JSON.parse(each) as { msg: string }).msg);
  await expect.poll(said, { timeout: 10_000 }).toEqual(["first"]);
  writeFileSync(path, line("grüße 🦊"), { flag: "a" });
  await expect.poll(said, { timeout: 5000 }).toEqual(["first", "grüße 🦊"]);
  writeFileSync(path, line("x"));
  await expect.poll(said, { timeout: 5000 }).toEqual(["first", "grüße 🦊", "x"]);
  child.kill("SIGTERM");
  expect(await new Promise((ended) => child.on("exit", ended))).toBe(143);
});

test("init writes a stack that is valid, and keeps what is there", async () => {
  const made = await open();
  expect(await made.run(["init", "travel"])).toMatchObject({ code: 0, out: expect.stringContaining("next:") as string });
  expect(await made.run(["validate", "-f", "travel.yaml"])).toMatchObject({ code: 0, out: "2 objects in 1 file: valid\n" });
  const text = readFileSync(join(made.home, "travel.yaml"), "utf8");
  expect(text).toContain("name: travel");
  expect(text.match(/yaml-language-server/g)).toHaveLength(2);
  writeFileSync(join(made.home, "travel.yaml"), `${text}# mine\n`);
  expect((await made.run(["init", "travel"])).out).toMatch(/kept +travel\.yaml/);
  expect(readFileSync(join(made.home, "travel.yaml"), "utf8")).toContain("# mine");
  const keyed = await open();
  await keyed.run(["init"], { env: { OPENAI_API_KEY: "sk-planted-value" } });
  expect(await keyed.run(["validate", "-f", "stack.yaml"])).toMatchObject({ code: 0 });
  expect(readFileSync(join(keyed.home, "stack.yaml"), "utf8")).not.toContain("sk-planted");
});

test.each(["/proc/none/deep", "none/deep", "/dev/null/x"])("init into %s, which cannot be made, is refused at once", async (dir) => {
  const made = await open();
  expect((await made.run(["init", "travel", "--dir", dir])).code).toBeGreaterThan(0);
});

test("schema prints what editors read, and knows the short names", async () => {
  const made = await open();
  expect(JSON.parse((await made.run(["schema", "ag"])).out)).toMatchObject({ title: "Agent" });
  expect(existsSync((await made.run(["schema", "--path"])).out.trim())).toBe(true);
  expect(await made.run(["schema", "../package"])).toMatchObject({ code: 2 });
});

test("completion knows verbs, flags and kinds without a gateway", async () => {
  const made = await open();
  const words = async (...given: string[]): Promise<string[]> => (await made.run(["__complete", "--", ...given])).out.trim().split("\n");
  expect(await words("app")).toEqual(["apply"]);
  expect(await words("audit", "")).toEqual(["tail", "verify", "anchor"]);
  expect(await words("get", "agents", "--sel")).toEqual(["--selector"]);
  expect(await words("get", "pl")).toEqual(["plugins", "plugin/"]);
  expect(await words("get", "agents", "-o", "js")).toEqual(["json", "jsonpath="]);
  expect((await made.run(["completion", "bash"])).out).toContain("complete -o default -F _beige beige");
  expect((await made.run(["completion", "pwsh"])).out).toContain("Register-ArgumentCompleter -Native -CommandName beige");
});
