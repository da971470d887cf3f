import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLog } from "./log.ts";

let folder = "";
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "beige-log-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const lines = (file: string): readonly Record<string, unknown>[] =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("a line has time, level, message and fields, in a file that others cannot read", () => {
  const file = join(folder, "logs/gateway.log");
  const log = createLog({ file });
  log.info("agent started", { agent: "travel", count: 3 });
  log.debug("not shown");
  expect(lines(file)).toEqual([expect.objectContaining({ level: "info", msg: "agent started", agent: "travel", count: 3 })]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  log.close();
});

test("secrets are replaced in messages, fields, nested values and errors", () => {
  const file = join(folder, "gateway.log");
  const log = createLog({ file, redact: (text) => text.replaceAll("hunter22", "[secret]") });
  log.error("failed with hunter22", { error: new Error("401 hunter22"), deep: { list: ["x hunter22"] }, hunter22: 1 });
  expect(readFileSync(file, "utf8")).not.toContain("hunter22");
  expect(readFileSync(file, "utf8")).toContain("401 [secret]");
  log.close();
});

test("cycles, huge values and bytes are bounded", () => {
  const file = join(folder, "gateway.log");
  const log = createLog({ file });
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  log.info("odd", {
    cycle,
    big: "x".repeat(1_000_000),
    bytes: new Uint8Array(5),
    many: Array.from({ length: 10_000 }, () => 1),
    big2: 10n,
  });
  expect(statSync(file).size).toBeLessThan(40_000);
  log.close();
});

test("a full file becomes the older one, and there are never more than two", () => {
  const file = join(folder, "gateway.log");
  const log = createLog({ file, rotateBytes: 2_000 });
  for (let at = 0; at < 100; at += 1) log.info("line", { at });
  expect(existsSync(`${file}.1`)).toBe(true);
  expect(statSync(file).size + statSync(`${file}.1`).size).toBeLessThan(5_000);
  expect(lines(file).at(-1)).toMatchObject({ at: 99 });
  log.close();
});

test("a reader of standard error that goes away does not end the process, and the file goes on", async () => {
  const file = join(folder, "gateway.log");
  const program = `
      import { createLog } from ${JSON.stringify(new URL("log.ts", import.meta.url).href)};
      const log = createLog({ file: ${JSON.stringify(file)}, stderr: true });
      log.info("first");
      process.stdin.once("data", () => {
        let n = 0;
        const timer = setInterval(() => { log.info("later", { n }); if (++n === 20) { clearInterval(timer); process.stdin.destroy(); } }, 5);
      });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["pipe", "ignore", "pipe"] });
  await once(child.stderr, "data");
  child.stderr.destroy();
  child.stdin.write("go\n");
  const [code] = (await once(child, "exit")) as [number | null];
  expect(code).toBe(0);
  expect(readFileSync(file, "utf8").trim().split("\n")).toHaveLength(21);
});
