import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const here = dirname(fileURLToPath(import.meta.url));

/** In a process of its own: what was loaded once stays. */
function run(script: string): Record<string, unknown> {
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", cwd: here });
  expect(stderr).not.toContain("Error");
  return JSON.parse(stdout) as Record<string, unknown>;
}

test("modules run in the order in which one import would run them, circles included, and a broken one is told by whoever needs it", () => {
  const folder = mkdtempSync(join(tmpdir(), "beige-warm-"));
  const file = (name: string, text: string): void =>
    writeFileSync(join(folder, `${name}.js`), `${text}\n(globalThis.ran ??= []).push("${name}");\n`);
  file("index", 'import { a } from "./a.js";\nexport { c } from "./c.js";\nimport "./d.js";\nexport const all = a;');
  // b uses a at once, so it may only run behind a; a and b name each other.
  file("a", 'import { late } from "./b.js";\nexport const a = late();');
  file("b", 'import { a } from "./a.js";\nimport "./leaf.js";\nexport function late() { return 1; }\nexport const use = () => a;');
  file("c", 'import { a } from "./a.js";\nexport const c = () => a;');
  file("leaf", 'export const text = `import "./never.js"`;');
  writeFileSync(join(folder, "bad.js"), 'import "./leaf.js";\nthrow new Error("broken");\n');
  const load = `import { loadGently } from ${JSON.stringify(pathToFileURL(join(here, "warm.ts")).href)};
const at = (name) => ${JSON.stringify(pathToFileURL(folder).href)} + "/" + name + ".js";
const nowhere = () => { throw new Error("unknown"); };`;
  try {
    file("d", 'import "node:fs";');
    const entry = `await import(at("index"));`;
    const natural = run(`${load} ${entry} console.log(JSON.stringify({ ran }));`);
    const gentle = run(
      `${load} await loadGently(at("index"), nowhere); const early = [...ran]; ${entry} console.log(JSON.stringify({ ran, early }));`,
    );
    expect(gentle).toEqual({ ran: natural["ran"], early: natural["ran"] });
    const broken = run(
      `${load} await loadGently(at("bad"), nowhere); const why = await import(at("bad")).catch((e) => e.message); console.log(JSON.stringify({ why, ran }));`,
    );
    expect(broken).toEqual({ why: "broken", ran: ["leaf"] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the agent loop is loaded ahead in steps, and its first use finds it there", () => {
  const script = `import { createPi } from ${JSON.stringify(pathToFileURL(join(here, "../pi.ts")).href)};
const warned = [];
const pi = createPi({ log: { debug() {}, info() {}, error() {}, warn: (text) => warned.push(text) } });
let turns = 0, over = false;
const turn = () => { turns += 1; if (!over) setImmediate(turn); };
setImmediate(turn);
await pi.warm();
over = true;
const since = process.cpuUsage();
await import(${JSON.stringify(pathToFileURL(join(here, "session.ts")).href)});
const { user, system } = process.cpuUsage(since);
console.log(JSON.stringify({ warned, turns, ms: (user + system) / 1000 }));
process.exit(0);`;
  const { warned, turns, ms } = run(script) as { warned: string[]; turns: number; ms: number };
  expect(warned).toEqual([]);
  // One block would be a handful of turns; CPU time and not the clock, since others may be working.
  expect(turns).toBeGreaterThan(20);
  expect(ms).toBeLessThan(150);
});
