import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AgentId } from "../src/core/call.ts";
import { launcherFolder, packageFolder, socketFolder } from "../src/core/paths.ts";
import type { Kit } from "../src/core/world.ts";
import { createKits } from "./launchers.ts";

const agent: AgentId = { namespace: "default", name: "dev", uid: "0123456789ab-cdef" };
const owner = { uid: 20_000, gid: 20_000 };
let home: string;
let root: string;
let guest: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "beige-kits-"));
  root = join(home, "plugin");
  guest = join(home, "guest");
  mkdirSync(join(root, "docs"), { recursive: true });
  writeFileSync(join(root, "README.md"), "readme");
  writeFileSync(join(root, "docs/more.md"), "more");
  writeFileSync(join(root, "secret.txt"), "secret");
  writeFileSync(guest, "guest 1");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));
const kit = (more: Partial<Kit> = {}): Kit => ({
  tools: ["memory", "git"],
  packages: [{ name: "memory", root, files: ["README.md", "docs/more.md", "SKILL.md"] }],
  ...more,
});
const kits = () => createKits({ home, guest });

test("what was written is seen as the hash that was foretold, and a second write changes nothing", async () => {
  expect(await kits().seen(agent)).toBeUndefined();
  await kits().write(agent, kit(), owner);
  const hash = await kits().hash(kit());
  expect(await kits().seen(agent)).toBe(hash);
  const inode = statSync(join(packageFolder(home, agent), "memory")).ino;
  await kits().write(agent, kit({ tools: ["git", "memory"] }), owner);
  expect([await kits().seen(agent), statSync(join(packageFolder(home, agent), "memory")).ino]).toStrictEqual([hash, inode]);
});

test("launchers lead to the guest, files are copies, and everybody may read but only the gateway write", async () => {
  await kits().write(agent, kit(), owner);
  expect(readdirSync(launcherFolder(home, agent)).toSorted()).toStrictEqual(["git", "memory"]);
  expect(readlinkSync(join(launcherFolder(home, agent), "git"))).toBe("/beige/tool-client");
  const docs = join(packageFolder(home, agent), "memory");
  expect(readdirSync(docs).toSorted()).toStrictEqual(["README.md", "docs"]);
  expect(readFileSync(join(docs, "docs/more.md"), "utf8")).toBe("more");
  const mode = (path: string): number => statSync(path).mode & 0o777;
  expect([mode(socketFolder(home, agent.uid)), mode(join(socketFolder(home, agent.uid), "tool-client"))]).toStrictEqual([0o711, 0o555]);
  expect([mode(launcherFolder(home, agent)), mode(docs), mode(join(docs, "README.md"))]).toStrictEqual([0o755, 0o755, 0o444]);
});

test("each kind of change moves the hash, and writing again leads to it in the same folders", async () => {
  await kits().write(agent, kit(), owner);
  const folder = statSync(launcherFolder(home, agent)).ino;
  const hashes = new Set([await kits().hash(kit())]);
  const changes: readonly (() => Kit)[] = [
    () => kit({ tools: ["git"] }),
    () => kit({ tools: ["git", "other"] }),
    () => kit({ packages: [] }),
    () => (writeFileSync(join(root, "README.md"), "changed"), kit()),
    () => (writeFileSync(join(root, "SKILL.md"), ""), kit()),
    () => (writeFileSync(guest, "guest 2"), kit()),
  ];
  for (const change of changes) {
    const wanted = change();
    const hash = await kits().hash(wanted);
    expect(await kits().seen(agent)).not.toBe(hash);
    await kits().write(agent, wanted, owner);
    expect(await kits().seen(agent)).toBe(hash);
    hashes.add(hash);
  }
  expect(hashes.size).toBe(changes.length + 1);
  expect(statSync(launcherFolder(home, agent)).ino).toBe(folder);
});

test("whatever was changed by hand is seen and mended", async () => {
  const hash = await kits().hash(kit());
  const bin = launcherFolder(home, agent);
  const docs = packageFolder(home, agent);
  const spoil: readonly (() => void)[] = [
    () => rmSync(join(bin, "git")),
    () => writeFileSync(join(bin, "extra"), "#!/bin/sh"),
    () => symlinkSync("/bin/sh", join(bin, "sh")),
    () => (rmSync(join(bin, "git")), mkdirSync(join(bin, "git")), writeFileSync(join(bin, "git/x"), "x")),
    () => (rmSync(join(bin, "git")), symlinkSync("/elsewhere", join(bin, "git"))),
    () => writeFileSync(join(docs, "memory/planted"), "x"),
    () => symlinkSync("/etc/passwd", join(docs, "memory/link")),
    () => mkdirSync(join(docs, "other")),
    () => writeFileSync(join(docs, "file"), "x"),
    () => rmSync(join(socketFolder(home, agent.uid), "tool-client")),
    () => (
      chmodSync(join(socketFolder(home, agent.uid), "tool-client"), 0o755),
      writeFileSync(join(socketFolder(home, agent.uid), "tool-client"), "evil")
    ),
    () => rmSync(docs, { recursive: true }),
    () => mkdirSync(join(docs, ".new-leftover")),
  ];
  await kits().write(agent, kit(), owner);
  for (const [index, change] of spoil.entries()) {
    change();
    expect([index, await kits().seen(agent)]).not.toStrictEqual([index, hash]);
    await kits().write(agent, kit(), owner);
    expect([index, await kits().seen(agent)]).toStrictEqual([index, hash]);
  }
});

test("no file from outside a plugin's folder is ever copied, whatever names or links say", async () => {
  writeFileSync(join(home, "outside"), "outside");
  symlinkSync(join(home, "outside"), join(root, "link"));
  symlinkSync(home, join(root, "up"));
  symlinkSync("README.md", join(root, "inner"));
  for (const file of ["../outside", "/etc/passwd", "docs/../../outside", "link", "up/outside", "", "a\0b", ".."]) {
    await expect(kits().hash(kit({ packages: [{ name: "memory", root, files: [file] }] })), file).rejects.toMatchObject({
      code: "invalid",
    });
  }
  await kits().write(agent, kit({ packages: [{ name: "memory", root, files: ["inner", "docs/../README.md"] }] }), owner);
  expect(readdirSync(join(packageFolder(home, agent), "memory")).toSorted()).toStrictEqual(["README.md", "inner"]);
  expect(existsSync(join(packageFolder(home, agent), "memory/secret.txt"))).toBe(false);
});

test("folders, devices, files that are too large and names that are none are refused", async () => {
  writeFileSync(join(root, "large"), Buffer.alloc((1 << 20) + 1));
  for (const file of ["docs", "large", "."]) {
    await expect(kits().hash(kit({ packages: [{ name: "memory", root, files: [file] }] })), file).rejects.toMatchObject({
      code: "invalid",
    });
  }
  for (const tools of [["../x"], ["a/b"], [""], [".hidden"], ["UPPER"]])
    await expect(kits().hash(kit({ tools }))).rejects.toMatchObject({ code: "invalid" });
  for (const name of ["..", "a/b", ""])
    await expect(kits().hash(kit({ packages: [{ name, root, files: [] }] }))).rejects.toMatchObject({ code: "invalid" });
  await expect(kits().hash(kit({ packages: [{ name: "x", root: join(home, "absent"), files: [] }] }))).rejects.toMatchObject({
    code: "not_found",
  });
});

test("a removal leaves the workspace and somebody else's socket alone", async () => {
  await kits().write(agent, kit(), owner);
  const workspace = join(home, "agents/default.dev/workspace");
  mkdirSync(workspace);
  writeFileSync(join(socketFolder(home, agent.uid), "gateway.sock"), "");
  await kits().remove(agent);
  await kits().remove(agent);
  expect(existsSync(workspace)).toBe(true);
  expect(readdirSync(socketFolder(home, agent.uid))).toStrictEqual(["gateway.sock"]);
  expect(existsSync(launcherFolder(home, agent))).toBe(false);
  expect(await kits().seen(agent)).toBeUndefined();
});
