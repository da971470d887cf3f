import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import fc from "fast-check";
import { type Asked, json, stand, type Stand } from "./harness.ts";
import { hiderOf } from "./values.ts";

const stands: Stand[] = [];
afterEach(async () => {
  for (const made of stands.splice(0)) await made.close();
});

const SECRETS = {
  kept: "kept-planted-0001",
  token: "token-planted-0002",
  variable: "variable-planted-0003",
  file: "file-planted-0004",
  shell: "shell planted/0005",
};

function plant(made: Stand): void {
  mkdirSync(join(made.home, "secrets"), { mode: 0o700 });
  mkdirSync(join(made.home, "logs"));
  writeFileSync(join(made.home, "secrets/openai"), `${SECRETS.kept}\n`);
  writeFileSync(join(made.home, "token"), SECRETS.token);
  writeFileSync(join(made.home, "env"), `OPENAI="${SECRETS.variable}"\n`);
  writeFileSync(join(made.home, "elsewhere"), `${SECRETS.file}\nsecond line\n`);
  writeFileSync(join(made.home, "host.yaml"), `secrets: [{name: x, file: ${join(made.home, "elsewhere")}, hosts: [a.example]}]\n`, {
    mode: 0o600,
  });
  const all = Object.values(SECRETS);
  const lines = all.flatMap((each) => [
    each,
    encodeURIComponent(each),
    Buffer.from(each).toString("hex"),
    Buffer.from(`ab${each}c`).toString("base64"),
  ]);
  writeFileSync(
    join(made.home, "logs/gateway.log"),
    `${lines.map((msg) => JSON.stringify({ level: "info", msg, sk: ["sk", "abcdefghijkl1234"].join("-") })).join("\n")}\nthe last line\n`,
  );
}

const contents = (folder: string): string =>
  readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");

test("a report holds versions, objects, events and log, and none of the secrets that the machine keeps, in any form", async () => {
  const none = ({ response }: Asked): void => json(response, { items: [] });
  const base = "/apis/beige.dev/v1";
  const made = await stand({
    ...Object.fromEntries(["providers", "plugins", "schedules", "sources"].map((plural) => [`GET ${base}/${plural}`, none])),
    [`GET ${base}/agents`]: ({ response }) =>
      json(response, {
        items: [
          {
            metadata: { name: "travel", namespace: "default" },
            spec: { instructions: "my private prompt", sandbox: { env: { A: "env-planted" } } },
            status: { conditions: [{ type: "Ready", message: `bad ${SECRETS.kept}` }] },
          },
        ],
      }),
    "GET /api/events": ({ response }) => json(response, { items: [{ message: `saw ${SECRETS.token}` }] }),
    "GET /api/health": ({ response }) => json(response, { status: "ok", version: "9.9.9" }),
  });
  stands.push(made);
  plant(made);
  const ran = await made.run(["bugreport", "--dir", "report"], { env: { MY_API_KEY: SECRETS.shell } });
  const folder = join(made.home, "report");
  expect([ran.code, ran.out]).toEqual([0, `${folder}\n`]);
  const all = contents(folder);
  for (const each of ["9.9.9", "travel", "the last line", "[secret]", "(17 characters)", '"name": "node"']) expect(all).toContain(each);
  for (const each of [...Object.values(SECRETS), "planted", "private prompt", "abcdefghijkl1234", made.home])
    expect(all).not.toContain(each);
  for (const value of Object.values(SECRETS))
    for (const form of ["hex", "base64"] as const) expect(all).not.toContain(Buffer.from(value).toString(form).replace(/=+$/, ""));
  expect(
    [statSync(folder).mode & 0o777, ...readdirSync(folder).map((name) => statSync(join(folder, name)).mode & 0o777)].every(
      (mode) => (mode & 0o077) === 0,
    ),
  ).toBe(true);
  expect((await made.run(["bugreport", "--dir", "report"])).code).toBe(2);
});

test("without a gateway the report says what is missing", async () => {
  const made = await stand();
  stands.push(made);
  expect((await made.run(["bugreport", "--dir", "report"])).code).toBe(0);
  expect(readFileSync(join(made.home, "report/objects.json"), "utf8")).toContain("no gateway answers");
});

test("whatever surrounds a value, nothing of it is found after hiding", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 6, maxLength: 24, unit: "grapheme-ascii" }), { minLength: 1, maxLength: 4 }),
      fc.array(fc.string({ maxLength: 20 }), { maxLength: 6 }),
      (values, parts) => {
        // A value that is a part of the mark itself cannot be told from it.
        fc.pre(values.every((value) => !"[secret]".includes(value) && !value.includes("[secret]") && value.trim() === value));
        const text = parts.flatMap((part, i) => [part, values[i % values.length] ?? ""]).join("|");
        const hidden = hiderOf(values).hide(text);
        for (const value of values) expect(hidden.includes(value)).toBe(false);
      },
    ),
  );
});
