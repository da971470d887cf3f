// Who asks, through which door: keys, roles, variables of the gateway and the records, with a real gateway and the real command line.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { makeGateway, type Ran } from "../gateway.ts";

vi.setConfig({ testTimeout: 60_000 });
const folder = mkdtempSync(join(tmpdir(), "beige-keys-"));
const gateway = makeGateway({ args: ["--listen", "127.0.0.1:0"] });
let url = "";
beforeAll(async () => {
  await gateway.start({ LENT: "hunter2hunter2" });
  url = ((await gateway.request("GET", "/api/health")).body as { url: string }).url;
  await gateway.apply("apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: base}\nspec: {api: echo}\n", { wait: false });
}, 40_000);
afterAll(async () => {
  await gateway.clean();
  rmSync(folder, { recursive: true, force: true });
});

/** By the port, with a token of its own instead of the home's. */
const remote = (token: string, ...args: string[]): Promise<Ran> => {
  const file = join(folder, `token-${token.slice(-6)}`);
  writeFileSync(file, `${token}\n`);
  return makeGateway({ home: folder, env: { BEIGE_GATEWAY: url, BEIGE_TOKEN_FILE: file } }).beige(...args);
};
const key = async (...args: string[]): Promise<string> => {
  const made = await gateway.beige("key", "create", ...args);
  expect(made.err).toContain("it is shown only now");
  return made.out.trim();
};
const rows = (chain: string): Record<string, unknown>[] =>
  readFileSync(join(gateway.home, `logs/${chain}.jsonl`), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const manifest = (text: string): string => {
  const path = join(folder, "s.yaml");
  writeFileSync(path, text);
  return path;
};

test("a viewer's key reads from afar and changes nothing; revoked it is refused at the next request", async () => {
  const viewer = await key("eyes", "--role", "viewer");
  expect(await remote(viewer, "get", "providers", "-o", "name")).toMatchObject({ code: 0, out: expect.stringContaining("base") as string });
  const written = await remote(viewer, "label", "provider/base", "x=y");
  expect([written.code, written.err]).toEqual([4, expect.stringContaining("a viewer may read, and nothing else")]);
  expect((await remote(viewer, "key", "list")).code).toBe(4);
  const listed = await gateway.beige("key", "list");
  expect(listed.out).toMatch(/eyes +viewer +good/);
  expect(listed.out).not.toContain(viewer);
  expect((await gateway.beige("key", "revoke", "eyes")).code).toBe(0);
  const after = await remote(viewer, "get", "providers");
  expect([after.code, after.err]).toEqual([4, expect.stringContaining("this key was revoked")]);
});

test("keys and their revocation outlive a kill; no file of the home holds a key", async () => {
  const [stays, goes] = [await key("stays", "--role", "viewer"), await key("goes", "--role", "viewer")];
  await gateway.beige("key", "revoke", "goes");
  await gateway.kill();
  await gateway.start({ LENT: "hunter2hunter2" });
  url = ((await gateway.request("GET", "/api/health")).body as { url: string }).url;
  expect((await remote(stays, "get", "providers")).code).toBe(0);
  expect((await remote(goes, "get", "providers")).code).toBe(4);
  for (const name of ["state.db", "state.db-wal", "logs/gateway.log", "logs/access.jsonl", "logs/control.jsonl"])
    expect(readFileSync(join(gateway.home, name)).includes(stays), name).toBe(false);
});

test("the gateway's variables are lent to the operator at the unix socket, and to nobody else", async () => {
  const root = await key("root", "--role", "operator");
  const text =
    "apiVersion: beige.dev/v1\nkind: Provider\nmetadata: {name: lent}\nspec: {api: openai-completions, baseUrl: 'http://127.0.0.1:9/v1', apiKey: {env: LENT}}\n";
  const refused = await remote(root, "apply", "-f", manifest(text), "--no-wait");
  expect([refused.code, refused.err]).toEqual([
    2,
    expect.stringMatching(/\{env: LENT\} is for the operator at the unix socket only[\s\S]*s\.yaml:4:/),
  ]);
  expect((await gateway.beige("apply", "-f", manifest(text), "--no-wait")).code).toBe(0);
  // The same again changes nothing; another address would be where the value goes.
  expect((await remote(root, "apply", "-f", manifest(text), "--no-wait")).code).toBe(0);
  const moved = await remote(root, "patch", "provider/lent", "-p", "spec: {baseUrl: 'https://evil.example/v1'}");
  expect([moved.code, moved.err]).toEqual([2, expect.stringContaining("{env: LENT} is for the operator")]);
  expect((await remote(root, "label", "provider/lent", "x=y")).code).toBe(0);
});

test("the records say who did it, through which door and as whom, and one verify covers all of them", async () => {
  const root = await key("hand", "--role", "operator");
  expect((await remote(root, "patch", "provider/base", "-p", "spec: {timeoutSeconds: 7}")).code).toBe(0);
  await gateway.beige("delete", "provider/base", "--yes");
  const deeds = rows("control").filter((row) => row["phase"] === "note" && (row["args"] as string[]).includes("provider/base"));
  const said = deeds.map((row) => [row["tool"], row["principal"], row["door"], row["manager"]]);
  expect(said).toContainEqual(["apply", "operator", "socket", "apply/default"]);
  expect(said).toContainEqual(["update", "key/hand", "tcp", "patch"]);
  expect(said).toContainEqual(["delete", "operator", "socket", undefined]);
  const visits = rows("access").map((row) => [row["tool"], row["principal"], row["door"], row["status"]]);
  expect(visits).toContainEqual(["PATCH", "key/hand", "tcp", 200]);
  expect(visits).toContainEqual(["GET", undefined, "tcp", 401]);
  const verified = await gateway.beige("audit", "verify");
  expect([verified.code, verified.out]).toEqual([0, expect.stringMatching(/control\.jsonl: \d+ rows[\s\S]*access\.jsonl: \d+ rows/)]);
});

test("a token never leaves for another machine in the clear", async () => {
  for (const to of ["http://example.com:7433", "http://10.0.0.1:7433", "http://127.0.0.1.evil.example", "https://example.com"]) {
    const ran = await gateway.beige("get", "providers", "--gateway", to);
    expect([ran.code, ran.err]).toEqual([4, expect.stringContaining("the token is not sent there")]);
  }
  expect((await gateway.beige("get", "providers", "--gateway", "nonsense")).code).toBe(2);
});
