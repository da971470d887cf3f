import { afterEach, expect, test } from "vitest";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { FakeAudit } from "../../test/fakes/audit.ts";
import { createOutward } from "../adapters/egress.ts";
import { makeCertificate } from "../adapters/certificate.ts";
import { createAuthority } from "../adapters/egress/authority.ts";
import { systemClock } from "../adapters/clock.ts";
import { egressPath } from "../core/paths.ts";
import { openRig, readAll, type Rig, type RigParts } from "./egress/rig.ts";

const rigs: Rig[] = [];
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close();
});

/** Authority and certificate of a host out there: not the gateway's own. */
const local = makeCertificate(Date.now(), "abcdef");
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

async function up(more: Partial<RigParts> = {}): Promise<Rig & { readonly audit: FakeAudit; rows(): FakeAudit["rows"] }> {
  const audit = new FakeAudit();
  const rig = await openRig({
    clock: systemClock,
    audit,
    network: (home, resolve) => createOutward({ home, clock: systemClock, resolve, ca: local.cert }),
    ...more,
  });
  rigs.push(rig);
  return Object.assign(rig, { audit, rows: () => audit.rows.filter((row) => row.phase !== "begin") });
}

/** A host of the sandbox's own walls: allowed by both words. */
function inside(rig: Rig, name: string, port: number, more: object = {}): void {
  rig.names.set(name, ["127.0.0.1"]);
  rig.host.egress.private.push(`${name}:${port}`);
  rig.allow({ host: name, ports: [port], private: true, ...more });
}

test("TLS to a named host goes through, and one row says where it went and how much", async () => {
  const rig = await up();
  const port = await rig.serve((request, response) => response.end(`hello ${request.headers.host}`), local);
  inside(rig, "localhost", port);
  expect(await rig.https(`localhost:${port}`, { ca: local.cert })).toContain(`hello localhost:${port}`);
  await pause(50);
  expect(rig.rows()).toHaveLength(1);
  expect(rig.rows()[0]).toMatchObject({
    phase: "end",
    row: { agent: "travel", type: "egress", tool: "connect", args: [`localhost:${port}`], decision: "allowed", host: "localhost", port },
    outcome: { outcome: "ok", exitCode: 0, ip: "127.0.0.1", bytesIn: expect.any(Number), bytesOut: expect.any(Number) },
  });
  expect(rig.rows()[0]?.outcome?.bytesIn).toBeGreaterThan(500);
  expect(rig.audit.open.size).toBe(0);
  expect(rig.egress.running(rig.agent.uid)).toBe(0);
  expect(rig.asked).toEqual(["localhost"]);
});

test("nothing is resolved or reached for a host that is not named, and the answer shows the line that would allow it (P121)", async () => {
  const rig = await up();
  rig.allow("a.dev");
  const { status, body } = await rig.connect("b.dev:443");
  expect(status).toBe(403);
  expect(body).toBe(
    'beige: b.dev:443 is not in the allowlist\nfix: spec.sandbox.network: {mode: allowlist, allow: ["a.dev", "b.dev:443"]}\n',
  );
  expect(rig.asked).toEqual([]);
  expect(rig.rows()).toMatchObject([{ phase: "denied", row: { decision: "denied", host: "b.dev", port: 443 } }]);
  rig.set({ mode: "none", allow: ["a.dev"] });
  expect((await rig.connect("a.dev:443")).body).toContain("mode is none");
});

test("a name that leads to any address that is not public is refused whole, in all clothes", async () => {
  const rig = await up();
  rig.allow("*.rebind.dev", "a.dev");
  const inner = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "fd00::1",
    "fe80::1",
    "0.0.0.0",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
  ];
  for (const [i, address] of inner.entries()) {
    rig.names.set(`n${i}.rebind.dev`, ["1.1.1.1", address]);
    expect([address, (await rig.connect(`n${i}.rebind.dev:443`)).status]).toEqual([address, 403]);
  }
  expect(rig.rows().every((row) => row.phase === "denied")).toBe(true);
  expect(rig.audit.open.size).toBe(0);
});

test("a resolver that changes its mind is asked once: the connection goes to the address that was checked", async () => {
  const rig = await up();
  const port = await rig.serve((_, response) => response.end("checked"), local);
  inside(rig, "localhost", port);
  let asked = 0;
  const addresses = () => (++asked === 1 ? ["127.0.0.1"] : ["127.0.0.2"]);
  rig.names.get = () => addresses();
  expect(await rig.https(`localhost:${port}`, { ca: local.cert })).toContain("checked");
  expect(asked).toBe(1);
  await pause(50);
  expect(rig.rows()[0]?.outcome?.ip).toBe("127.0.0.1");
});

test("addresses in decimal, octal, hexadecimal and short form, and foreign forms of a target are refused", async () => {
  const rig = await up();
  rig.allow("a.dev", "*.dev");
  for (const target of [
    "2130706433:443",
    "0177.0.0.1:443",
    "0x7f.0.0.1:443",
    "127.1:443",
    "[::ffff:127.0.0.1]:443",
    "127.0.0.1:443",
    "[::1]:443",
    "a.dev",
    "a.dev:443@evil",
    "http://a.dev:443",
    "a.dev:99999",
    "a.dev:0443",
  ]) {
    const { status } = await rig.connect(target);
    expect([target, [400, 403, 0].includes(status)]).toEqual([target, true]);
  }
  expect(rig.asked).toEqual([]);
});

test("the TLS hello must name the host that was asked for", async () => {
  const rig = await up();
  let reached = 0;
  const port = await rig.raw((socket) => socket.on("data", (data) => (reached += data.length)));
  inside(rig, "localhost", port);
  expect(await rig.https(`localhost:${port}`, { ca: local.cert, servername: "other.dev" })).toMatch(/^(error|$)/);
  const plain = await rig.connect(`localhost:${port}`);
  plain.socket.write("GET / HTTP/1.1\r\nHost: other.dev\r\n\r\n");
  await readAll(plain.socket.resume());
  expect(reached).toBe(0);
  expect(rig.rows().map(({ row, outcome }) => [row.decision, outcome?.error])).toEqual([
    ["denied", "the client's TLS hello names other.dev, not localhost"],
    ["denied", "the client does not speak TLS"],
  ]);
});

test("a client that says nothing after CONNECT is ended", async () => {
  const rig = await up({ limits: { helloMs: 150 } });
  inside(rig, "localhost", await rig.raw(() => undefined));
  const { socket } = await rig.connect(rig.host.egress.private[0] ?? "");
  const from = Date.now();
  socket.resume();
  await once(socket, "close");
  expect(Date.now() - from).toBeLessThan(2000);
  await pause(20);
  expect(rig.rows()[0]?.outcome?.error).toBe("the client sent no TLS hello in time");
});

test("plain HTTP goes through in absolute form, framed anew, with the host of the address", async () => {
  const rig = await up();
  const port = await rig.serve((request, response) => {
    response.setHeader("x-seen", JSON.stringify([request.url, request.headers]));
    request.pipe(response);
  });
  inside(rig, "apt.corp", port);
  const answer = await rig.http(`http://apt.corp:${port}/dists?x=1`, {
    method: "POST",
    body: "some words",
    headers: { host: "evil.dev", "proxy-authorization": "x", connection: "x-hop", "x-hop": "1", "x-kept": "2", upgrade: "websocket" },
  });
  expect(answer).toMatchObject({ status: 200, body: "some words" });
  const [path, headers] = JSON.parse(String(answer.headers["x-seen"])) as [string, Record<string, string>];
  expect(path).toBe("/dists?x=1");
  expect(headers).toMatchObject({ host: `apt.corp:${port}`, "x-kept": "2" });
  for (const gone of ["proxy-authorization", "x-hop", "upgrade"]) expect(headers).not.toHaveProperty(gone);
  await pause(20);
  expect(rig.rows()).toMatchObject([{ row: { tool: "http", host: "apt.corp", port }, outcome: { outcome: "ok" } }]);
});

test("two messages in one, two lengths, and other smuggling reach nobody", async () => {
  const rig = await up();
  const urls: string[] = [];
  const port = await rig.serve((request, response) => {
    urls.push(request.url ?? "");
    request.resume();
    response.end("ok");
  });
  inside(rig, "apt.corp", port);
  const at = `http://apt.corp:${port}`;
  const head = (...lines: string[]): string => [`POST ${at}/a HTTP/1.1`, `Host: apt.corp:${port}`, ...lines, "", ""].join("\r\n");
  const bad = [
    head("Content-Length: 4", "Content-Length: 5") + "abcde",
    head("Content-Length: 4", "Transfer-Encoding: chunked") + "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    head("Transfer-Encoding: xchunked") + "0\r\n\r\n",
    head("Transfer-Encoding : chunked") + "0\r\n\r\n",
    head("Content-Length: +4") + "abcd",
    head("X: a\nY: b"),
    head("X: a\0b"),
    `GET ${at}/a b HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET ${at}#x HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET http://user@apt.corp:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET http://evil.dev\\@apt.corp:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
    "GET / HTTP/1.1\r\nHost: apt.corp\r\n\r\n",
    `GET https://apt.corp:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET ${at}/ HTTP/1.1\r\n\r\n`,
  ];
  for (const text of bad) expect([text, (await rig.say(text, /\r\n\r\n/)).slice(9, 12)]).toEqual([text, "400"]);
  expect(urls).toEqual([]);
  // A second message behind a first is a message of its own, judged on its own.
  const two = `GET ${at}/one HTTP/1.1\r\nHost: x\r\n\r\nGET http://other.dev/two HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  const said = await rig.say(two);
  expect(said.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 403"]);
  expect(urls).toEqual(["/one"]);
});

test("huge headers are refused, and slow ones do not stay", async () => {
  const rig = await up();
  expect((await rig.say(`CONNECT a.dev:443 HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, /\r\n\r\n/)).slice(9, 12)).toBe("431");
  expect((await rig.say(`CONNECT ${"a".repeat(20_000)}:443 HTTP/1.1\r\n`, /\r\n\r\n/)).slice(9, 12)).toBe("431");
  const slow = await rig.dial();
  const from = Date.now();
  const timer = setInterval(() => slow.write("x"), 200);
  slow.write("CONNECT a.dev:443 HTTP/1.1\r\nX-");
  await readAll(slow);
  clearInterval(timer);
  expect(Date.now() - from).toBeLessThan(14_000);
}, 20_000);

test("an agent has so many connections and no more, and gets them back", async () => {
  const rig = await up({ limits: { connections: 3 } });
  const port = await rig.raw(() => undefined);
  inside(rig, "localhost", port);
  const open = await Promise.all([1, 2, 3].map(() => rig.connect(`localhost:${port}`)));
  expect(open.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect((await rig.connect(`localhost:${port}`)).status).toBe(503);
  for (const { socket } of open) socket.destroy();
  await pause(50);
  expect(rig.egress.running(rig.agent.uid)).toBe(0);
  expect((await rig.connect(`localhost:${port}`)).status).toBe(200);
});

test("a change of the manifest or of host policy cuts what it no longer allows, and nothing else", async () => {
  const rig = await up({ limits: { lookMs: 30 } });
  const port = await rig.serve((_, response) => void response.write("begun"));
  rig.names.set("b.corp", ["127.0.0.1"]);
  inside(rig, "a.corp", port);
  rig.host.egress.private.push(`b.corp:${port}`);
  const entry = (host: string) => ({ host, ports: [port], private: true });
  rig.allow(entry("a.corp"), entry("b.corp"));
  const begin = async (host: string) => {
    const socket = await rig.dial();
    socket.write(`GET http://${host}:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`);
    await once(socket, "data");
    return socket;
  };
  const [a, b] = [await begin("a.corp"), await begin("b.corp")];
  rig.allow(entry("b.corp"), "c.dev");
  await once(a.resume(), "close");
  expect(b.destroyed).toBe(false);
  rig.host.egress.private.length = 0;
  await once(b.resume(), "close");
  expect(rig.rows().map(({ outcome }) => outcome?.error)).toEqual([
    "cut: the manifest no longer allows it",
    expect.stringContaining("host.yaml does not allow it"),
  ]);
});

test("idle connections and those that carried too much are cut", async () => {
  const rig = await up({ limits: { idleMs: 100, lookMs: 30, bytes: 100_000 } });
  const port = await rig.serve((request, response) => {
    response.write("x");
    if (request.url === "/idle") return;
    const timer = setInterval(() => response.write("x".repeat(10_000)), 5);
    response.on("close", () => clearInterval(timer));
  });
  inside(rig, "a.corp", port);
  await rig.say(`GET http://a.corp:${port}/idle HTTP/1.1\r\nHost: x\r\n\r\n`);
  await rig.say(`GET http://a.corp:${port}/much HTTP/1.1\r\nHost: x\r\n\r\n`);
  await pause(20);
  expect(rig.rows().map(({ outcome }) => outcome?.error)).toEqual([
    expect.stringContaining("nothing went over it"),
    expect.stringContaining("more than 100000 bytes"),
  ]);
});

test("nothing leaves while the record cannot be written", async () => {
  const rig = await up();
  let reached = 0;
  const port = await rig.raw(() => reached++);
  inside(rig, "localhost", port);
  rig.audit.failure = new Error("disk full");
  expect((await rig.connect(`localhost:${port}`)).status).toBe(502);
  await pause(20);
  expect(reached).toBe(0);
  expect(rig.egress.running(rig.agent.uid)).toBe(0);
});

const VALUE = "s3cr3t-value-0123456789";

test("a secret is put in place of what the sandbox sent, over TLS that ends in the gateway, and never comes back", async () => {
  const rig = await up({ secrets: { "gh localhost:PORT": VALUE } });
  const seen: string[] = [];
  const port = await rig.serve((request, response) => {
    seen.push(String(request.headers.authorization));
    response.setHeader("x-echo", String(request.headers.authorization));
    const text = `you sent ${request.headers.authorization}!`;
    response.setHeader("content-length", text.length);
    response.write(text.slice(0, 25));
    setTimeout(() => response.end(text.slice(25)), 20);
  }, local);
  const more = await up({ secrets: { [`gh localhost:${port}`]: VALUE } });
  inside(more, "localhost", port, { secret: "gh" });
  more.egress.environment({
    metadata: more.agent,
    spec: { sandbox: { network: { mode: "allowlist", allow: [{ host: "localhost", secret: "gh" }] }, env: {} } },
  } as never);
  const bundle = `${more.home}/run/${more.agent.uid.slice(0, 10)}/ca.pem`;
  const ca = readFileSync(bundle, "utf8");
  const said = await more.https(`localhost:${port}`, { ca, headers: "Authorization: token placeholder\r\nAccept-Encoding: gzip\r\n" });
  expect(seen).toEqual([`Bearer ${VALUE}`]);
  expect(said).toContain("HTTP/1.1 200 OK");
  expect(said).toContain(`you sent Bearer ${"*".repeat(VALUE.length)}!`);
  expect(said).not.toContain(VALUE);
  expect(JSON.stringify(more.audit.rows)).not.toContain(VALUE);
  await pause(50);
  expect(more.rows()).toHaveLength(1);
  expect(more.rows()[0]).toMatchObject({ row: { tool: "connect" }, outcome: { outcome: "ok", ip: "127.0.0.1" } });
  expect(more.rows()[0]?.outcome?.bytesIn).toBeGreaterThan(500);
  // Another host's name inside the tunnel, or in its hello, gets nothing.
  expect(await more.https(`localhost:${port}`, { ca, headers: "" }).then((text) => text.slice(9, 12))).toBe("200");
  expect(await more.https(`localhost:${port}`, { ca: local.cert, headers: "" })).toMatch(/^error/);
  expect(await more.https(`localhost:${port}`, { ca, servername: "other.dev" })).toMatch(/^error|^$/);
  expect(seen).toHaveLength(2);
});

test("a secret goes to no host that host policy does not bind it to, and over plain HTTP only within the walls", async () => {
  const rig = await up({ secrets: {} });
  let reached = 0;
  const port = await rig.serve((_, response) => {
    reached++;
    response.end();
  });
  inside(rig, "a.corp", port, { secret: "gh" });
  expect((await rig.http(`http://a.corp:${port}/`)).body).toContain("may not be sent to");
  rig.allow({ host: "api.dev", ports: [80], secret: "gh" });
  expect((await rig.http("http://api.dev/")).body).toContain("would go over plain HTTP");
  expect(reached).toBe(0);
});

test("a secret goes over plain HTTP to a host of one's own", async () => {
  let seen = "";
  const first = await up();
  const port = await first.serve((request, response) => {
    seen = String(request.headers["x-key"]);
    response.end(`echo ${seen}`);
  });
  const rig = await up({ secrets: { [`gh a.corp:${port}`]: VALUE } });
  inside(rig, "a.corp", port, { secret: "gh", header: "X-Key" });
  expect((await rig.http(`http://a.corp:${port}/`, { headers: { "x-key": "placeholder" } })).body).toBe(`echo ${"*".repeat(VALUE.length)}`);
  expect(seen).toBe(VALUE);
});

test("a host whose certificate is not its own gets neither request nor secret", async () => {
  const first = await up();
  let reached = 0;
  const port = await first.serve(
    (_, response) => {
      reached++;
      response.end();
    },
    makeCertificate(Date.now(), "123456"),
  );
  const rig = await up({ secrets: { [`gh localhost:${port}`]: VALUE } });
  inside(rig, "localhost", port, { secret: "gh" });
  const ca = createAuthority(rig.home, systemClock).bundle();
  expect(await rig.https(`localhost:${port}`, { ca })).toContain("502 Bad Gateway");
  expect(reached).toBe(0);
});

test("the socket is the sandbox's alone, and is made again where a dead one lies", async () => {
  const rig = await up();
  expect(statSync(egressPath(rig.home, rig.agent.uid)).mode & 0o777).toBe(0o600);
  expect(statSync(`${rig.home}/run/${rig.agent.uid.slice(0, 10)}`).mode & 0o777).toBe(0o711);
});

test("a test of a target says what a connection would get, and makes none", async () => {
  const rig = await up();
  rig.allow("a.dev", { host: "b.dev", secret: "gh" });
  rig.names.set("a.dev", ["1.1.1.1"]);
  rig.names.set("b.dev", ["10.0.0.1"]);
  expect(await rig.egress.test(rig.agent, "a.dev")).toEqual({ target: "a.dev:443", allowed: true, addresses: ["1.1.1.1"] });
  expect(await rig.egress.test(rig.agent, "b.dev")).toMatchObject({
    allowed: false,
    secret: "gh",
    reason: expect.stringContaining("private"),
  });
  expect(await rig.egress.test(rig.agent, "c.dev:80")).toMatchObject({ allowed: false, hint: expect.stringContaining('"c.dev:80"') });
  await expect(rig.egress.test(rig.agent, "http://x")).rejects.toThrow("no host and port");
  expect(rig.audit.rows).toEqual([]);
});
