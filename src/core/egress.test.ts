import fc from "fast-check";
import { expect, test } from "vitest";
import type { AgentSpec } from "../../schemas/types.ts";
import {
  addressRefusal,
  allowLine,
  egressEnvironment,
  entryProblems,
  parseEntry,
  parseTarget,
  ruleFor,
  rulesOf,
  targetText,
  type Rule,
} from "./egress.ts";
import { notPublic } from "./egressaddress.ts";

type Network = AgentSpec["sandbox"]["network"];
const network = (...allow: NonNullable<Network["allow"]>): Network => ({ mode: "allowlist", allow });
const NOBODY = { egress: { private: [] } };
const allowed = (net: Network, text: string): boolean => {
  const target = parseTarget(text, 443);
  return target !== undefined && ruleFor(rulesOf(net), target) !== undefined;
};

test("a target is a host and a port, and nothing that another parser could read otherwise", () => {
  expect(parseTarget("API.Example.com.:443")).toEqual({ host: "api.example.com", port: 443, literal: false });
  expect(parseTarget("10.1.2.3:80")).toEqual({ host: "10.1.2.3", port: 80, literal: true });
  expect(parseTarget("[::FFFF:1.2.3.4]:80")).toEqual({ host: "0:0:0:0:0:ffff:102:304", port: 80, literal: true });
  expect(targetText({ host: "0:0:0:0:0:0:0:1", port: 1 })).toBe("[0:0:0:0:0:0:0:1]:1");
  const bad = [
    "",
    ":443",
    "a",
    "a:0",
    "a:65536",
    "a:443:443",
    "a:4 43",
    "user@a:443",
    "a/b:443",
    "a#:443",
    "a\\b:443",
    "a..b:443",
    ".a:443",
    "-a:443",
    "a%2e:443",
  ];
  const numbers = [
    "2130706433:80",
    "0x7f000001:80",
    "0177.0.0.1:80",
    "127.1:80",
    "1.2.3.4.5:80",
    "a.0x1:80",
    "a.1:80",
    "::1:80",
    "[1.2.3.4]:80",
    "[::1%lo]:80",
    "[a]:80",
  ];
  for (const text of [...bad, ...numbers]) expect([text, parseTarget(text)]).toEqual([text, undefined]);
});

test("an entry names a host and ports, and *.HOST names what is below it but not the host", () => {
  const net = network("api.example.com:8443", "*.github.com", { host: "pkg.dev", ports: [80, 443] });
  for (const yes of ["api.example.com:8443", "a.github.com", "a.b.github.com:443", "pkg.dev:80", "PKG.dev."])
    expect([yes, allowed(net, yes)]).toEqual([yes, true]);
  for (const no of [
    "api.example.com:443",
    "github.com",
    "xgithub.com",
    "a.github.com:80",
    "pkg.dev:22",
    "evil-pkg.dev",
    "a.github.com.evil.dev",
  ])
    expect([no, allowed(net, no)]).toEqual([no, false]);
  expect(allowed({ ...net, mode: "none" }, "pkg.dev")).toBe(false);
  expect(allowed({ ...net, mode: "open" }, "pkg.dev")).toBe(false);
  expect(allowed({ mode: "allowlist" }, "pkg.dev")).toBe(false);
});

test("a wildcard never allows an address", () => {
  expect(allowed(network("*.1"), "10.0.0.1:443")).toBe(false);
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      expect(allowed(network("*.com", "*.dev:80"), `${address}:443`)).toBe(false);
    }),
  );
});

test("what cannot be read is told with its place, and allows nothing", () => {
  const net = network(
    "*",
    "http://a.dev",
    "*.10.0.0.1",
    { host: "a.dev:443" },
    { host: "*.a.dev", private: true },
    { host: "*.a.dev", secret: "s" },
    { host: "a.dev", header: "X" },
    { host: "a.dev", secret: "s", header: "Host" },
  );
  expect(entryProblems(net).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(rulesOf(net)).toEqual([]);
  expect(parseEntry({ host: "a.dev", secret: "s" })).toMatchObject({
    injection: { secret: "s", header: "authorization", prefix: "Bearer " },
  });
  expect(parseEntry({ host: "a.dev", secret: "s", header: "X-Key" })).toMatchObject({ injection: { header: "x-key", prefix: "" } });
});

test("the host's own entry wins over one for names below another", () => {
  const net = network("*.a.dev", { host: "x.a.dev", secret: "s" }, "x.a.dev");
  expect(ruleFor(rulesOf(net), { host: "x.a.dev", port: 443, literal: false })?.injection?.secret).toBe("s");
});

test("property: no address that is not public passes without the manifest and the operator", () => {
  const target = { host: "a.dev", port: 443, literal: false };
  const rule: Rule = { host: "a.dev", wild: false, ports: [443], private: false };
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.constantFrom("127.0.0.1", "169.254.169.254", "::1")), { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      (addresses, wants) => {
        const refusal = addressRefusal({ target, rule: { ...rule, private: wants }, host: NOBODY }, addresses);
        expect(refusal === undefined).toBe(addresses.every((address) => notPublic(address) === undefined));
      },
    ),
    { numRuns: 3000 },
  );
});

test("a private host needs the manifest's word and the operator's, and nowhere is never allowed", () => {
  const target = { host: "wiki.corp", port: 80, literal: false };
  const rule: Rule = { host: "wiki.corp", wild: false, ports: [80], private: true };
  const refused = (host: object, addresses: readonly string[], it: Rule = rule): boolean =>
    addressRefusal({ target, rule: it, host }, addresses) !== undefined;
  const operator = { egress: { private: ["wiki.corp:80"] } };
  expect(refused(operator, ["10.0.0.7"])).toBe(false);
  expect(refused({ egress: { private: ["*.corp"] } }, ["10.0.0.7"])).toBe(false);
  expect(refused({}, ["10.0.0.7"])).toBe(true);
  expect(refused({ egress: { private: ["wiki.corp:81", "other.corp"] } }, ["10.0.0.7"])).toBe(true);
  expect(refused(operator, ["10.0.0.7"], { ...rule, private: false })).toBe(true);
  expect(refused(operator, ["1.1.1.1", "0.0.0.0"])).toBe(true);
  expect(refused(operator, [])).toBe(true);
  expect(addressRefusal({ target, rule, host: {} }, ["10.0.0.7"])?.hint).toBe('in host.yaml: egress: {private: ["wiki.corp:80"]}');
});

test("a refusal shows the line that would allow it", () => {
  expect(allowLine(network("a.dev"), { host: "b.dev", port: 443 })).toBe(
    'spec.sandbox.network: {mode: allowlist, allow: ["a.dev", "b.dev:443"]}',
  );
  expect(allowLine({ mode: "none" }, { host: "b.dev", port: 80 })).toBe('spec.sandbox.network: {mode: allowlist, allow: ["b.dev:80"]}');
});

test("commands are told the way, the manifest's own variables win, and an open network needs none", () => {
  const sandbox = (net: Network, env: Record<string, string> = {}) => ({ network: net, env }) as unknown as AgentSpec["sandbox"];
  expect(egressEnvironment(sandbox({ mode: "none" }, { HTTP_PROXY: "x" }))).toMatchObject({ HTTPS_PROXY: "http://127.0.0.1:3128" });
  expect(egressEnvironment(sandbox({ mode: "none" }, { HTTP_PROXY: "x" }))).not.toHaveProperty("HTTP_PROXY");
  expect(egressEnvironment(sandbox({ mode: "none" }))).not.toHaveProperty("SSL_CERT_FILE");
  expect(egressEnvironment(sandbox(network({ host: "a.dev", secret: "s" })))).toMatchObject({ SSL_CERT_FILE: "/beige/ca.pem" });
  expect(egressEnvironment(sandbox({ mode: "open" }))).toEqual({});
});
