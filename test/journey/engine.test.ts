// A gateway whose container engine answers, but not as Docker does: it says so, asks calmly, and serves everything else.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeGateway, pause, until } from "../gateway.ts";

const STACK = `
apiVersion: beige.dev/v1
kind: Provider
metadata: {name: scripted}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: a}
spec:
  model: {provider: scripted, id: echo-1}
  sandbox: {image: "beige-tiny:1", resources: {memory: 64Mi, cpus: 500m, pids: 64}}
`;
const WATCHED_MS = 2500;

/** Answers of something that is not Docker, or not well. */
const ODD: Readonly<Record<string, (answer: ServerResponse) => void>> = {
  "a login page": (answer) => void answer.setHeader("content-type", "text/html").end("<html>log in</html>"),
  "lists with holes": (answer) => void answer.setHeader("content-type", "application/json").end('[null,{"Labels":null}]'),
  "a cut connection": (answer) => void answer.destroy(),
};

test.each(Object.entries(ODD))(
  "an engine that answers %s is unreachable, is not asked in a loop, and stops nothing else",
  async (_name, odd) => {
    const folder = mkdtempSync(join(tmpdir(), "beige-odd-"));
    let asked = 0;
    const server = createServer((_request, answer) => {
      asked += 1;
      odd(answer);
    });
    const socket = join(folder, "engine.sock");
    await new Promise<void>((done) => server.listen(socket, done));
    const gateway = makeGateway({ env: { DOCKER_HOST: `unix://${socket}` } });
    try {
      await gateway.start();
      await gateway.stream("/api/apply", { files: [{ name: "s.yaml", folder, text: STACK }], wait: false });
      const ready = async () => {
        const { body } = await gateway.request("GET", "/apis/beige.dev/v1/namespaces/default/agents/a");
        return (body.status?.conditions as { type: string; status: string; reason: string }[] | undefined)?.find(
          (one) => one.type === "Ready",
        );
      };
      await until(async () => (await ready())?.reason === "EngineUnreachable", 5000, "the agent's condition says it");
      expect((await ready())?.status).toBe("Unknown");
      const before = asked;
      await pause(WATCHED_MS);
      expect(asked - before).toBeLessThan(100);
      expect((await gateway.request("GET", "/api/health")).status).toBe(200);
      const told = await gateway.stream("/api/agents/a/prompt", { text: "hello" });
      expect(told.at(-1)).toMatchObject({ type: "done", text: "hello" });
    } finally {
      await gateway.clean();
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  60_000,
);
