import { expect, test } from "vitest";
import { findVerb, parseInput, unknownVerb } from "./parse.ts";
import { verbs } from "./verbs.ts";

function parse(...argv: string[]) {
  const found = findVerb(argv, verbs);
  if (!found) throw unknownVerb(argv, verbs);
  return { verb: found.verb.name, ...parseInput(found.verb, argv.slice(found.used)) };
}

test("two words win over one", () => {
  expect(parse("audit", "tail", "-n", "5")).toMatchObject({ verb: "audit tail", flags: { lines: "5" }, args: [] });
  expect(parse("gateway", "logs", "-f").verb).toBe("gateway logs");
});

test("short flags, several -f, a dash and the equals sign are read as everywhere", () => {
  const apply = parse("apply", "-f", "-", "-f", "a.yaml", "-Rfb.yaml", "--timeout=90s", "-ojson");
  expect(apply.flags).toMatchObject({ filename: ["-", "a.yaml", "b.yaml"], recursive: true, timeout: "90s", output: "json" });
});

test("a command after -- keeps its own flags and dashes", () => {
  expect(parse("exec", "travel", "--", "ls", "-l", "--", "x")).toMatchObject({ args: ["travel"], rest: ["ls", "-l", "--", "x"] });
  expect(parse("prompt", "travel", "--", "-n", "is", "a", "flag")).toMatchObject({ args: ["travel", "-n", "is", "a", "flag"] });
});

test("mistakes name the nearest right word", () => {
  const hint = (...argv: string[]): unknown => {
    try {
      parse(...argv);
    } catch (error) {
      return (error as { hint?: string }).hint;
    }
    return undefined;
  };
  expect(hint("aply")).toBe('did you mean "beige apply"?');
  expect(hint("audit", "verfy")).toBe('did you mean "beige audit verify"?');
  expect(hint("gateway")).toContain("start");
  expect(hint("apply", "--dry-rum")).toBe("did you mean --dry-run?");
  expect(hint("get", "agents", "--selectr=x")).toBe("did you mean --selector?");
  expect(hint("exec", "a", "ls", "-l")).toContain("put -- before the command");
  expect(hint("xyzzy")).toBe("beige help lists the verbs");
});

test("a missing value, a value too many, a wrong choice and a wrong count are refused", () => {
  expect(() => parse("apply", "-f")).toThrow(/--filename needs a value/);
  expect(() => parse("apply", "--prune=yes")).toThrow(/--prune takes no value/);
  expect(() => parse("get", "agents", "-o", "xml")).toThrow(/one of table, wide/);
  expect(() => parse("get")).toThrow(/needs KIND/);
  expect(() => parse("version", "please")).toThrow(/does not take "please"/);
  expect(parse("get", "agents", "-o", "jsonpath={.items}").flags["output"]).toBe("jsonpath={.items}");
});

test("--help is fine without the arguments that a verb needs", () => {
  expect(parse("get", "--help").flags["help"]).toBe(true);
  expect(parse("exec", "-h").flags["help"]).toBe(true);
});

test("words that are properties of every object are no verbs and no flags", () => {
  expect(() => parse("constructor")).toThrow(/unknown verb/);
  expect(() => parse("__proto__")).toThrow(/unknown verb/);
  expect(() => parse("get", "agents", "--__proto__=x")).toThrow(/unknown flag|takes no value/);
});

test("no verb has two flags of one name or letter, and each has an example and a summary", () => {
  for (const verb of verbs) {
    const names = verb.flags.flatMap((flag) => [flag.name, ...(flag.short ? [`-${flag.short}`] : [])]);
    expect(new Set(names).size, verb.name).toBe(names.length);
    expect(verb.summary.length, verb.name).toBeLessThanOrEqual(80);
    if (!verb.name.startsWith("__")) expect(verb.examples.length, verb.name).toBeGreaterThan(0);
  }
});

test("every example of the help is parsed by its own verb", () => {
  for (const verb of verbs) {
    for (const [line] of verb.examples) {
      const command = /(?:^|\| (?:xargs -n1 )?|<\()(beige .*?)(?: \| .*| > \w+|\))?$/.exec(line)?.[1] ?? "";
      const argv = [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3] ?? "").slice(1);
      const found = findVerb(argv, verbs);
      expect(found, line).toBeDefined();
    }
  }
});
