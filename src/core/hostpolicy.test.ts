import { expect, test } from "vitest";
import type { HostPolicy } from "../../schemas/types.ts";
import { hostMatches, hostOf, secretAllowed } from "./hostpolicy.ts";

const policy: HostPolicy = {
  secrets: [
    { name: "openai", env: "OPENAI_API_KEY", hosts: ["api.openai.com:443"] },
    { name: "github", file: "/k", hosts: ["*.github.com", "github.com"] },
    { name: "lonely", env: "X", hosts: [] },
  ],
  paths: { mounts: [], workspaces: [], plugins: [] },
};

test("a host matches by whole labels, whatever the case, and by port where one is named", () => {
  for (const [pattern, host] of [
    ["api.x.com", "API.x.com:443"],
    ["api.x.com", "api.x.com."],
    ["api.x.com:443", "api.x.com:443"],
    ["*.x.com", "a.b.x.com:1"],
    ["*.X.com:443", "a.x.COM:443"],
    ["[::1]:80", "[::1]:80"],
    ["127.0.0.1", "127.0.0.1:9"],
  ] as const)
    expect([pattern, host, hostMatches(pattern, host)]).toEqual([pattern, host, true]);
  for (const [pattern, host] of [
    ["x.com", "evilx.com"],
    ["x.com", "x.com.evil.net"],
    ["x.com", "a.x.com"],
    ["*.x.com", "x.com"],
    ["*.x.com", "evilx.com"],
    ["*.x.com", ".x.com"],
    ["*.x.com", "a..x.com"],
    ["x.com:443", "x.com"],
    ["x.com:443", "x.com:4430"],
    ["x.com", "x.com@evil.net"],
    ["x.com", "x.com/evil"],
    ["*", "x.com"],
    ["", ""],
    ["*.com", "com"],
    ["x.com", "x.com\n"],
    ["x.com", "xacom"],
  ] as const)
    expect([pattern, host, hostMatches(pattern, host)]).toEqual([pattern, host, false]);
});

test("a secret goes only to the hosts that it is bound to", () => {
  expect(secretAllowed(policy, { secret: "openai" }, "api.openai.com:443")).toMatchObject({ ok: true, entry: { name: "openai" } });
  expect(secretAllowed(policy, { secret: "openai" }, "evil.net:443")).toEqual({
    ok: false,
    reason: "SecretNotBound",
    message: 'secret "openai" may be sent to api.openai.com:443, not to evil.net:443',
    hint: "in host.yaml: {name: openai, hosts: [api.openai.com:443, evil.net:443]}",
  });
  expect(secretAllowed(policy, { secret: "lonely" }, "x.com:443").ok).toBe(false);
  expect(secretAllowed(policy, { secret: "github" }, "api.github.com:443").ok).toBe(true);
  expect(secretAllowed(policy, { secret: "lonely" }).ok).toBe(true);
});

test("an unknown secret suggests the nearest, and the shorthand of the operator is bound by its object", () => {
  expect(secretAllowed(policy, { secret: "opnai" }, "x")).toMatchObject({
    ok: false,
    reason: "SecretUnknown",
    hint: 'did you mean "openai"?; run: beige secret set opnai --host x',
  });
  expect(secretAllowed(policy, { env: "KEY" }, "x.com:443")).toEqual({ ok: true, env: "KEY" });
  for (const odd of [{}, { env: "A", secret: "openai" }])
    expect(secretAllowed(policy, odd, "api.openai.com:443")).toMatchObject({ ok: false, reason: "SecretMalformed" });
});

test("the host of an address always has its port", () => {
  expect([hostOf("https://API.x.com/v1"), hostOf("http://127.0.0.1:8080/v1"), hostOf("http://x"), hostOf("https://[::1]/")]).toEqual([
    "api.x.com:443",
    "127.0.0.1:8080",
    "x:80",
    "[::1]:443",
  ]);
  for (const bad of ["", "ftp://x", "file:///etc/passwd", "x.com", "https://"]) expect(hostOf(bad)).toBeUndefined();
});
