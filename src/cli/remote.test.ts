import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { forAgent } from "./output.ts";
import { remotePlace } from "./remote.ts";

const home = mkdtempSync(join(tmpdir(), "beige-remote-"));
afterEach(() => rmSync(join(home, "token"), { force: true }));
const token = "bge_0123456789abcdef";
const place = (flag: string | undefined, env: NodeJS.ProcessEnv = { BEIGE_TOKEN: token }) => remotePlace({ env, flag, home });

test("an address on loopback is taken, with the port that it says", () => {
  expect(place("http://127.0.0.1:7500")).toEqual({ host: "127.0.0.1", port: 7500, token });
  expect(place("http://[::1]:7500/")).toEqual({ host: "::1", port: 7500, token });
  expect(place("http://localhost")).toMatchObject({ port: 7433 });
  expect(place(undefined, { BEIGE_TOKEN: token, BEIGE_GATEWAY: "http://localhost:1" })).toMatchObject({ port: 1 });
  expect(place(undefined, {})).toBeUndefined();
});

test.each([
  "http://example.com:7433",
  "http://127.0.0.1.example.com",
  "https://127.0.0.1:7433",
  "http://0.0.0.0:7433",
  "http://[::ffff:10.0.0.1]:1",
])("no token goes to %s", (address) => expect(() => place(address)).toThrow(/the token is not sent there/));

test.each(["nonsense", "http://user:word@127.0.0.1:1", "http://127.0.0.1:1/path", "http://127.0.0.1:1/?x=y"])(
  "%s is no gateway",
  (address) => expect(() => place(address)).toThrow(/is not the address/),
);

test("the token comes from its variable, the named file, or the home; what is none is not sent", () => {
  expect(() => place("http://localhost", {})).toThrow(/no token for the gateway/);
  writeFileSync(join(home, "token"), `${token}-home\n`);
  writeFileSync(join(home, "other"), `${token}-file\n`);
  expect(place("http://localhost", {})).toMatchObject({ token: `${token}-home` });
  expect(place("http://localhost", { BEIGE_TOKEN_FILE: join(home, "other") })).toMatchObject({ token: `${token}-file` });
  expect(() => place("http://localhost", { BEIGE_TOKEN: "a b\r\nx-injected: 1 and more" })).toThrow(/is not one/);
});

test("agents are known by what they set, and a person may say otherwise", () => {
  expect([forAgent({}), forAgent({ CLAUDECODE: "1" }), forAgent({ BEIGE_OUTPUT: "agent" })]).toEqual([false, true, true]);
  expect(forAgent({ CLAUDECODE: "1", BEIGE_OUTPUT: "person" })).toBe(false);
});
