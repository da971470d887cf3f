import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "./clock.ts";
import { createTrees, type TreeLimits } from "./trees.ts";
import type { StartWatch } from "./watch.ts";

let base: string;
let root: string;
const open: { close(): void }[] = [];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "beige-trees-"));
  root = join(base, "stacks");
  mkdirSync(root);
});
afterEach(() => {
  for (const each of open.splice(0)) each.close();
  rmSync(base, { recursive: true, force: true });
});

function put(name: string, text = `kind: ${name}`): void {
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), text);
}

const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

function treesOf(
  more: { readonly limits?: Partial<TreeLimits>; readonly startWatch?: StartWatch; readonly onHint?: (name: string) => void } = {},
) {
  const { limits, ...rest } = more;
  const trees = createTrees({
    clock: systemClock,
    log,
    onHint: () => undefined,
    limits: { gapMs: 20, patienceMs: 2_000, ...limits },
    ...rest,
  });
  open.push(trees);
  return trees;
}
const read = (vars: Record<string, string> = {}) => treesOf().read(root, { vars });
const names = async (): Promise<readonly string[]> => (await read()).files.map(({ name }) => name);
const problems = async (): Promise<readonly string[]> => (await read()).problems.map(({ message }) => message);
const until = async (ask: () => boolean): Promise<void> => expect.poll(ask, { timeout: 5_000, interval: 20 }).toBe(true);

test("manifests at any depth are read in order, and what editors and tools leave beside them is not", async () => {
  for (const name of ["b.yaml", "a.yml", "deep/er/c.json", "deep/d.yaml"]) put(name);
  for (const name of [
    ".#b.yaml",
    "b.yaml~",
    "4913",
    ".b.yaml.swp",
    "#b.yaml#",
    "~b.yaml",
    "b.yaml.tmp",
    "README.md",
    ".hidden/x.yaml",
    "node_modules/p/x.yaml",
    ".yaml",
  ])
    put(name);
  symlinkSync("user@host.1234:5678", join(root, ".#a.yml"));
  const tree = await read();
  expect(tree.files.map(({ name, folder }) => [name, folder])).toEqual([
    ["a.yml", root],
    ["b.yaml", root],
    ["deep/d.yaml", join(root, "deep")],
    ["deep/er/c.json", join(root, "deep/er")],
  ]);
  expect(tree.problems).toEqual([]);
});

test("the hash moves with names and bytes, and with nothing else", async () => {
  put("a.yaml", "x: 1");
  const { hash } = await read();
  put("junk.txt");
  put("a.yaml", "x: 1");
  expect((await read()).hash).toBe(hash);
  put("a.yaml", "x: 2");
  const other = (await read()).hash;
  renameSync(join(root, "a.yaml"), join(root, "b.yaml"));
  const renamed = (await read()).hash;
  // The same bytes, divided otherwise.
  put("a.yaml", "x");
  put("b.yaml", ": 2");
  expect(new Set([hash, other, renamed, (await read()).hash]).size).toBe(4);
});

test("links that stay inside are followed: the folder of a revision is swapped by one rename", async () => {
  put("..1/a.yaml", "v: 1");
  put("..2/a.yaml", "v: 2");
  symlinkSync("..1", join(root, "..data"));
  symlinkSync("..data/a.yaml", join(root, "a.yaml"));
  expect((await read()).files.map(({ text }) => text)).toEqual(["v: 1"]);
  symlinkSync("..2", join(root, "..next"));
  renameSync(join(root, "..next"), join(root, "..data"));
  expect((await read()).files.map(({ name, text }) => [name, text])).toEqual([["a.yaml", "v: 2"]]);
});

test("nothing outside of the folder is read: links to files, to folders and through folders", async () => {
  mkdirSync(join(base, "outside"));
  writeFileSync(join(base, "outside/secret.yaml"), "s: 1");
  symlinkSync(join(base, "outside/secret.yaml"), join(root, "a.yaml"));
  symlinkSync("../outside", join(root, "folder"));
  symlinkSync("/etc", join(root, "etc"));
  symlinkSync("nowhere", join(root, "b.yaml"));
  // A name that only begins like the folder's.
  mkdirSync(`${root}2`);
  writeFileSync(`${root}2/x.yaml`, "s: 1");
  symlinkSync("../stacks2/x.yaml", join(root, "c.yaml"));
  expect(await names()).toEqual([]);
  expect(await problems()).toEqual([
    "a.yaml is a link that leads out of the folder",
    "b.yaml is a link that leads nowhere",
    "c.yaml is a link that leads out of the folder",
  ]);
});

test("links that go round end", async () => {
  put("a/x.yaml");
  symlinkSync("..", join(root, "a/up"));
  symlinkSync("loop", join(root, "loop"));
  symlinkSync("a", join(root, "b"));
  expect(await names()).toEqual(["a/x.yaml", "b/x.yaml"]);
});

test("what is no file, not UTF-8 or too large is a problem with its name", async () => {
  spawnSync("mkfifo", [join(root, "pipe.yaml")]);
  mkdirSync(join(root, "folder.yaml"));
  writeFileSync(join(root, "latin.yaml"), Buffer.from([0x61, 0x3a, 0x20, 0xe4]));
  writeFileSync(join(root, "large.yaml"), Buffer.alloc(4 * 1024 * 1024 + 1, "#"));
  put("good.yaml");
  expect(await names()).toEqual(["good.yaml"]);
  expect(await problems()).toEqual(["large.yaml is larger than 4096 KiB", "latin.yaml is not UTF-8 text", "pipe.yaml is not a file"]);
});

test("a folder without end is refused, not read", async () => {
  for (let i = 0; i < 12; i++) put(`m${i}.yaml`, "#".repeat(100));
  put(`${"d/".repeat(8)}x.yaml`);
  const refused = (limits: Partial<TreeLimits>) => treesOf({ limits }).read(root, { vars: {} });
  await expect(refused({ files: 10 })).rejects.toThrow("the folder has more than 10 manifests");
  await expect(refused({ entries: 10 })).rejects.toThrow("the folder has more than 10 files");
  await expect(refused({ depth: 8 })).rejects.toThrow("the folder has folders more than 8 deep");
  await expect(refused({ bytes: 1000 })).rejects.toThrow("larger than");
  expect((await refused({ files: 13, depth: 9 })).files).toHaveLength(13);
});

test("a missing folder, a file in its place and one that is a link are told apart", async () => {
  await expect(treesOf().read(join(base, "none"), { vars: {} })).rejects.toMatchObject({ code: "not_found" });
  put("file");
  await expect(treesOf().read(join(root, "file"), { vars: {} })).rejects.toMatchObject({ code: "invalid" });
  put("a.yaml");
  symlinkSync(root, join(base, "current"));
  const tree = await treesOf().read(join(base, "current"), { vars: {} });
  expect(tree.files.map(({ folder }) => folder)).toEqual([join(base, "current")]);
  expect(tree.place).toMatch(new RegExp(`^${root} \\d+:\\d+$`));
});

test("a file that is being written is read when it has settled", async () => {
  put("a.yaml", "x: 1\n");
  const half = treesOf({ limits: { gapMs: 60 } }).read(root, { vars: {} });
  for (let i = 2; i <= 6; i++) {
    await new Promise((done) => setTimeout(done, 30));
    put("a.yaml", `x: ${i}\n`);
  }
  expect((await half).files[0]?.text).toBe("x: 6\n");
});

test("a folder that never settles is said to be so, and one that is replaced while it is read is read anew", async () => {
  put("a.yaml");
  let n = 0;
  const timer = setInterval(() => put("a.yaml", `x: ${n++}`), 3);
  await expect(treesOf({ limits: { patienceMs: 200 } }).read(root, { vars: {} })).rejects.toMatchObject({ code: "unavailable" });
  clearInterval(timer);
  let swaps = 0;
  const swap = setInterval(() => {
    if (++swaps > 20) return clearInterval(swap);
    renameSync(root, `${root}.old`);
    mkdirSync(root);
    put(`b${swaps}.yaml`);
    rmSync(`${root}.old`, { recursive: true });
  }, 10);
  const tree = await treesOf({ limits: { gapMs: 50, patienceMs: 10_000 } }).read(root, { vars: {} });
  expect(tree.files.map(({ name }) => name)).toEqual(["b20.yaml"]);
});

test("a known hash needs one look only", async () => {
  put("a.yaml");
  const { hash } = await treesOf().read(root, { vars: {} });
  // A second look would come after this test's own end.
  const slow = treesOf({ limits: { gapMs: 3_600_000 } });
  expect((await slow.read(root, { vars: {}, known: hash })).hash).toBe(hash);
});

const AGENT = (file: string): string =>
  `apiVersion: beige.dev/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  instructions: {file: ${file}}\n`;

test("text files that a manifest names belong to the revision, those outside of the folder do not", async () => {
  put("team/a.yaml", AGENT("./a.md"));
  put("team/b.yaml", AGENT('"${WHO}.md"'));
  put("team/c.yaml", AGENT("leak.md"));
  put("team/a.md", "one");
  put("team/ops.md", "two");
  symlinkSync("/etc/passwd", join(root, "team/leak.md"));
  const trees = treesOf();
  const tree = await trees.read(root, { vars: { WHO: "ops" } });
  expect(tree.files.map(({ files }) => files)).toEqual([{ "./a.md": "one" }, { "ops.md": "two" }, {}]);
  expect(tree.problems.map(({ message }) => message)).toEqual(["team/leak.md is a link that leads out of the folder"]);
  put("team/a.md", "three");
  const next = await trees.read(root, { vars: { WHO: "ops" } });
  expect(next.hash).not.toBe(tree.hash);
  expect(next.files[0]?.files).toEqual({ "./a.md": "three" });
});

const git = (...args: string[]): string =>
  spawnSync("git", ["-C", base, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", ...args], {
    encoding: "utf8",
  }).stdout.trim();

test("the commit and the branch are read by hand: loose, packed, detached, in a further work tree, and none before the first", async () => {
  put("a.yaml");
  const checkout = async (path = root) => (await treesOf().read(path, { vars: {} })).git;
  expect(await checkout()).toBeUndefined();
  git("init", "-q", "-b", "team/main");
  expect(await checkout()).toBeUndefined();
  git("add", "-A");
  git("commit", "-q", "-m", "one");
  const commit = git("rev-parse", "HEAD");
  expect(await checkout()).toEqual({ commit, branch: "team/main" });
  git("pack-refs", "--all");
  expect(await checkout()).toEqual({ commit, branch: "team/main" });
  git("worktree", "add", "-q", "-b", "side", join(base, "side"));
  expect(await checkout(join(base, "side/stacks"))).toEqual({ commit, branch: "side" });
  git("checkout", "-q", "--detach");
  expect(await checkout()).toEqual({ commit });
});

test("half a checkout is not read: git's lock says that it is at work, unless it was left behind", async () => {
  put("a.yaml");
  git("init", "-q");
  const lock = join(base, ".git/index.lock");
  writeFileSync(lock, "");
  const busy = treesOf({ limits: { patienceMs: 300 } }).read(root, { vars: {} });
  await expect(busy).rejects.toMatchObject({ code: "unavailable" });
  const waiting = read();
  setTimeout(() => {
    put("b.yaml");
    unlinkSync(lock);
  }, 200);
  expect((await waiting).files.map(({ name }) => name)).toEqual(["a.yaml", "b.yaml"]);
  writeFileSync(lock, "");
  const hourAgo = new Date(Date.now() - 3_600_000);
  utimesSync(lock, hourAgo, hourAgo);
  expect((await read()).files).toHaveLength(2);
});

test("what a planted git folder says is not believed beyond a commit's name, and nothing of it runs", async () => {
  put("a.yaml");
  mkdirSync(join(root, ".git/refs/heads"), { recursive: true });
  const marker = join(base, "ran");
  writeFileSync(join(root, ".git/config"), `[core]\n\tfsmonitor = "touch ${marker}"\n`);
  const checkout = async () => (await read()).git;
  for (const head of ["ref: ../../../etc/passwd", "ref: refs/heads/../../x", "root:x:0:0", "ref: refs/heads/none", ""]) {
    writeFileSync(join(root, ".git/HEAD"), head);
    expect(await checkout()).toBeUndefined();
  }
  unlinkSync(join(root, ".git/HEAD"));
  spawnSync("mkfifo", [join(root, ".git/HEAD")]);
  expect(await checkout()).toBeUndefined();
  writeFileSync(join(root, ".git/refs/heads/loop"), "ref: refs/heads/loop");
  rmSync(join(root, ".git/HEAD"));
  writeFileSync(join(root, ".git/HEAD"), "ref: refs/heads/loop");
  expect(await checkout()).toBeUndefined();
  expect(spawnSync("ls", [marker]).status).not.toBe(0);
});

test("a watch hints at atomic saves, renames, new folders and a link that is pointed elsewhere", async () => {
  put("a.yaml");
  put("sub/b.yaml");
  symlinkSync("sub", join(root, "..data"));
  const hints: string[] = [];
  const trees = treesOf({ onHint: (name) => hints.push(name) });
  const { place } = await trees.read(root, { vars: {} });
  trees.watch("stacks", root, place);
  expect(trees.watched("stacks")).toBe(place);
  // The watch stands: that is a hint too.
  await until(() => hints.length > 0);
  const changes = [
    () => {
      put("a.yaml.new", "x: 2");
      renameSync(join(root, "a.yaml.new"), join(root, "a.yaml"));
    },
    () => put("sub/b.yaml", "x: 3"),
    () => put("new/c.yaml"),
    () => put("new/c.yaml", "x: 4"),
    () => rmSync(join(root, "sub/b.yaml")),
    () => {
      symlinkSync("new", join(root, "..next"));
      renameSync(join(root, "..next"), join(root, "..data"));
    },
  ];
  for (const [i, change] of changes.entries()) {
    await new Promise((done) => setTimeout(done, 250));
    hints.length = 0;
    change();
    await expect.poll(() => hints.length, { timeout: 5_000, interval: 20, message: `change ${i}` }).toBeGreaterThan(0);
  }
  trees.unwatch("stacks");
  expect([trees.watched("stacks"), trees.names()]).toEqual([undefined, []]);
});

test("many changes at once are few hints", async () => {
  const hints: string[] = [];
  const trees = treesOf({ onHint: (name) => hints.push(name) });
  trees.watch("stacks", root, (await trees.read(root, { vars: {} })).place);
  await until(() => hints.length > 0);
  hints.length = 0;
  for (let i = 0; i < 300; i++) put(`m${i}.yaml`);
  await until(() => hints.length > 0);
  await new Promise((done) => setTimeout(done, 500));
  expect(hints.length).toBeLessThan(20);
});

test("a folder that cannot be watched is still read, and the watch is tried again later", async () => {
  let now = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + now };
  const startWatch: StartWatch = () => ({ failedAt: () => clock.monotonic() - now, close: () => undefined });
  const trees = createTrees({ clock, log, onHint: () => undefined, limits: { gapMs: 1 }, startWatch });
  put("a.yaml");
  const { place, files } = await trees.read(root, { vars: {} });
  trees.watch("stacks", root, place);
  expect([files.length, trees.watched("stacks")]).toEqual([1, place]);
  now = 301_000;
  expect(trees.watched("stacks")).toBeUndefined();
});

test("a thousand manifests are read in well under two seconds", async () => {
  for (let i = 0; i < 1000; i++) put(`t${i % 10}/m${i}.yaml`, AGENT("x.md").replace("name: a", `name: a${i}`));
  for (let i = 0; i < 10; i++) put(`t${i}/x.md`, "text");
  const trees = treesOf({ limits: { gapMs: 100 } });
  const started = performance.now();
  const tree = await trees.read(root, { vars: {} });
  expect(tree.files).toHaveLength(1000);
  expect(performance.now() - started).toBeLessThan(8_000);
});
