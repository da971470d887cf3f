// The guest's own filter of system calls is the profile that the engine gets, and the kernel keeps to it.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SECCOMP } from "../docker/seccomp.ts";
import { guestPath } from "../guest.ts";

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly args?: readonly { readonly index: number; readonly value: number; readonly valueTwo?: number }[];
}
const rules = (JSON.parse(SECCOMP) as { readonly syscalls: readonly Rule[] }).syscalls;
const source = readFileSync(new URL("filter.c", import.meta.url), "utf8");
const words = (name: string): readonly number[] =>
  (new RegExp(`${name}\\[\\] = \\{([^}]*)\\}`).exec(source)?.[1] ?? "").split(",").map(Number);
const define = (name: string): number => Number(new RegExp(`#define ${name} (0x[0-9a-f]+|\\d+)`).exec(source)?.[1]);
const first = (name: string, index: number): readonly (readonly [number, number | undefined])[] =>
  rules
    .filter(({ names }) => names[0] === name)
    .flatMap(({ args = [] }) => args.filter((one) => one.index === index).map((one) => [one.value, one.valueTwo] as const));

test("it names the same calls as the engine's profile", () => {
  const list = source.slice(source.indexOf("allowed[] ="), source.indexOf("#define NUMBERS"));
  const named = [...list.matchAll(/N\((\w+)\)/g)].map((match) => match[1]);
  expect(named).toStrictEqual(rules[0]?.names);
  expect(named.length).toBeGreaterThan(250);
  expect([...new Set(rules.flatMap(({ names }) => names))].slice(named.length).toSorted()).toStrictEqual([
    "clone",
    "clone3",
    "personality",
    "socket",
  ]);
});

test("its rules on arguments are the profile's", () => {
  const families = first("socket", 0).map(([value]) => value);
  expect([...words("families"), define("NETLINK")]).toStrictEqual([...new Set(families)]);
  const types = first("socket", 1);
  expect([...new Set(types.map(([mask]) => mask))]).toStrictEqual([define("TYPE_MASK")]);
  expect(words("types")).toStrictEqual([...new Set(types.map(([, type]) => type))]);
  expect(words("personalities")).toStrictEqual(first("personality", 0).map(([value]) => value));
  expect(first("clone", 0)).toStrictEqual([[define("NAMESPACES"), 0]]);
});

test("a guest that is told so has no new privileges and a filter for good, and says when it is told what it does not know", () => {
  const run = (...args: string[]) =>
    spawnSync(
      "sh",
      [
        "-c",
        '"$@" <&3 >/dev/null & sleep 0.3; grep -E "^(NoNewPrivs|Seccomp):|^Max processes" /proc/$!/status /proc/$!/limits -h; kill -9 $!',
        "sh",
      ].concat(guestPath(), "init", ...args),
      { encoding: "utf8", stdio: ["ignore", "pipe", "pipe", "pipe"] },
    );
  expect(run("--processes", "77", "--filter").stdout.replaceAll(/[\t ]+/g, " ")).toBe(
    "NoNewPrivs: 1\nSeccomp: 2\nMax processes 77 77 processes \n",
  );
  expect(run().stdout.replaceAll(/[\t ]+/g, " ")).toMatch(/NoNewPrivs: 0\nSeccomp: 0\n/);
  for (const args of [["--other"], ["--processes"], ["--processes", "x"]])
    expect(spawnSync(guestPath(), ["init", ...args], { encoding: "utf8" })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("init") as string,
    });
});
