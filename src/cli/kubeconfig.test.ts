import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { json, stand, type Stand } from "./harness.ts";

let at: Stand;
afterEach(() => at.close());

async function open(kube: string | undefined): Promise<void> {
  at = await stand({ "GET /api/health": ({ response }) => json(response, { status: "ok", ...(kube !== undefined && { kube }) }) });
  mkdirSync(join(at.home, "kube"));
  writeFileSync(join(at.home, "kube/tls.crt"), "CERTIFICATE");
  writeFileSync(join(at.home, "token"), "t0ken\n");
}

test("the configuration names the server, its certificate, the token and the namespace", async () => {
  await open("https://127.0.0.1:7443");
  const { code, out } = await at.run(["kubeconfig", "-n", "team", "--context", "here"]);
  expect(code).toBe(0);
  expect(out).toBe(
    [
      "apiVersion: v1",
      "kind: Config",
      'current-context: "here"',
      'clusters: [{"name":"here","cluster":{"server":"https://127.0.0.1:7443","certificate-authority-data":"Q0VSVElGSUNBVEU="}}]',
      'users: [{"name":"here","user":{"token":"t0ken"}}]',
      'contexts: [{"name":"here","context":{"cluster":"here","user":"here","namespace":"team"}}]',
      "",
    ].join("\n"),
  );
});

test("a gateway without a port for kubectl is told with the command that gives it one", async () => {
  await open(undefined);
  const { code, err, out } = await at.run(["kubeconfig"]);
  expect([code, out]).toEqual([5, ""]);
  expect(err).toContain("beige gateway restart --kube-listen 7443");
});

test("names that would break the configuration are refused", async () => {
  await open("https://127.0.0.1:7443");
  for (const args of [
    ["-n", "a b"],
    ["--context", "x\ny"],
  ])
    expect((await at.run(["kubeconfig", ...args])).code).toBe(2);
});

test("a gateway that runs without the door is not said to have it, and its status is told in words", async () => {
  const warm = { levels: [{ image: "a:1", wanted: 2, ready: 1 }], waiting: ["c0ffee"] };
  at = await stand({ "GET /api/health": ({ response }) => json(response, { ready: true, schedules: true, warm, status: "ok" }) });
  const note = "it has no door for kubectl: beige gateway restart --kube-listen 7443\n";
  expect(await at.run(["gateway", "start", "--kube-listen", "7443"])).toMatchObject({ code: 0, err: note });
  const { out } = await at.run(["gateway", "status"]);
  expect(out).toContain("warm             1 of 2 sandboxes wait for an agent\n");
  expect(out).not.toMatch(/[{}]/);
  expect(JSON.parse((await at.run(["gateway", "status", "-o", "json"])).out)).toMatchObject({ warm });
});
