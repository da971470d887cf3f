import fc from "fast-check";
import { expect, test } from "vitest";
import { hostsOf, refusal, type Knock } from "./gate.ts";

const gate = { hosts: hostsOf(7433), token: "right-token", home: "/h", bodyBytes: 1000 };
const knock = (more: Partial<Knock> & { headers?: Record<string, string> } = {}): Knock => {
  const headers = { host: "127.0.0.1:7433", authorization: "Bearer right-token", ...more.headers };
  return { door: "tcp", method: "GET", url: "/apis", rawHeaders: Object.entries(headers).flat(), ...more, headers };
};

test("the operator passes by token over TCP and without one over the socket", () => {
  expect(refusal(knock(), gate)).toBeUndefined();
  expect(refusal(knock({ door: "socket", headers: { host: "anything", authorization: "" } }), gate)).toBeUndefined();
});

test.each([
  "evil.example",
  "127.0.0.1",
  "127.0.0.1:80",
  "localhost.:7433",
  "localhost:7433.evil.example",
  "evil@127.0.0.1:7433",
  "",
  "[::1]",
  "0.0.0.0:7433",
])("host %j is not served", (host) => {
  expect(refusal(knock({ headers: { host } }), gate)?.http).toBe(421);
});

test.each(["localhost:7433", "LOCALHOST:7433", "[::1]:7433", "127.0.0.1:7433"])("host %j is served", (host) => {
  expect(refusal(knock({ headers: { host } }), gate)).toBeUndefined();
});

test.each([
  "http://evil.example",
  "null",
  "https://127.0.0.1:7433",
  "http://127.0.0.1:3000",
  "http://localhost:7433.evil.example",
  "file://",
  "",
])("origin %j is foreign", (origin) => {
  expect(refusal(knock({ headers: { origin } }), gate)?.http).toBe(403);
  expect(refusal(knock({ door: "socket", headers: { origin } }), gate)?.http).toBe(403);
});

test("a page of our own may ask, a page of another site on this machine may not", () => {
  expect(refusal(knock({ headers: { origin: "http://127.0.0.1:7433", "sec-fetch-site": "same-origin" } }), gate)).toBeUndefined();
  expect(refusal(knock({ headers: { "sec-fetch-site": "same-site" } }), gate)?.http).toBe(403);
  expect(refusal(knock({ headers: { "sec-fetch-site": "cross-site" } }), gate)?.http).toBe(403);
});

test.each([
  "",
  "right-token",
  "Bearer",
  "Bearer ",
  "Bearer wrong",
  "Basic right-token",
  "Bearer right-token right-token",
  "Bearer right-toke",
  "Bearer right-token2",
])("authorization %j is refused", (authorization) => {
  expect(refusal(knock({ headers: { authorization } }), gate)?.http).toBe(401);
});

test("no token passes but the right one", () => {
  fc.assert(
    fc.property(fc.string(), (given) => {
      const passes = refusal(knock({ headers: { authorization: `Bearer ${given}` } }), gate) === undefined;
      return passes === (given.trim() === "right-token");
    }),
  );
});

test("an empty token in the gateway lets nobody in", () => {
  expect(refusal(knock({ headers: { authorization: "Bearer " } }), { ...gate, token: "" })?.http).toBe(401);
});

test("health alone is open, in exactly this spelling and method", () => {
  const open = (more: Partial<Knock>) => refusal(knock({ ...more, headers: { authorization: "" } }), gate)?.http;
  expect(open({ url: "/api/health" })).toBeUndefined();
  expect(open({ url: "/api/health?x=1" })).toBeUndefined();
  for (const url of ["/api/health/", "/api/health/../apis", "/api/healthx", "//api/health", "/api/health;x", "/api/%68ealth"])
    expect(open({ url })).toBe(401);
  expect(open({ url: "/api/health", method: "POST" })).toBe(401);
});

test("a body that says it is too long is refused, to the operator alone", () => {
  expect(refusal(knock({ method: "POST", headers: { "content-length": "1001" } }), gate)?.http).toBe(413);
  expect(refusal(knock({ method: "POST", headers: { "content-length": "1000" } }), gate)).toBeUndefined();
  expect(refusal(knock({ method: "POST", headers: { "content-length": "1001", authorization: "" } }), gate)?.http).toBe(401);
});

test("odd methods, absolute targets and doubled headers are refused", () => {
  for (const method of ["OPTIONS", "HEAD", "TRACE", "CONNECT", "BREW"]) expect(refusal(knock({ method }), gate)?.http).toBe(405);
  for (const url of ["http://evil.example/apis", "*", ""]) expect(refusal(knock({ url }), gate)?.http).toBe(400);
  for (const name of ["Host", "AUTHORIZATION", "origin"])
    expect(refusal(knock({ rawHeaders: [name, "a", name.toLowerCase(), "b"] }), gate)?.http).toBe(400);
});

test("a target with a fragment is refused: the router would see another path than what is matched before it", () => {
  expect(refusal(knock({ url: "/api/keys#x" }), gate)?.http).toBe(400);
});
