// A gateway's model road in a process that a test kills: takes up what was left, then sends messages until it is told to stop.
import { appendFileSync } from "node:fs";
import { createPi } from "../../src/adapters/pi.ts";
import { createChat } from "../../src/gateway/chat.ts";
import { createEcho } from "../../src/gateway/echo.ts";
import { createLimiter } from "../../src/gateway/limiter.ts";
import { createTurns } from "../../src/gateway/turns.ts";
import * as w from "./world.ts";

const [home = "", mode = "send", round = "0"] = process.argv.slice(2);
const agent = w.agent("dev", [["p", "m"]]);
const steps = [
  { match: ".", delayMs: 15, toolCall: { tool: "exec" as const, args: { command: "work" } } },
  { match: ".", from: "tool" as const, delayMs: 15, text: "answered" },
];
const directory = w.directory([agent], [w.echoProvider("p", steps)]);
const deps = {
  directory,
  clock: w.clock,
  random: w.random,
  log: w.memoryLog(),
  audit: w.memoryAudit(),
  shelf: w.memoryShelf(`${home}/shelf.json`),
};
const pi = createPi(deps);
const chat = createChat({
  ...deps,
  llm: () => createEcho(w.clock),
  secrets: w.memorySecrets(),
  hooks: w.noHooks,
  ledger: w.memoryLedger(),
  limiter: createLimiter(w.clock),
});
const door = createTurns({
  ...deps,
  chat,
  runtime: pi.runtime,
  home,
  tools: w.tools,
  async call(request) {
    await w.clock.sleep(10);
    return await w.echoCall(request);
  },
});
await door.resume();
if (mode === "send") {
  process.stdout.write("ready\n");
  for (let n = 0; ; n++) {
    const text = `message ${round}.${n}`;
    for await (const event of door.turn({ principal: { kind: "operator" }, agent: w.idOf(agent), text }, new AbortController().signal)) {
      if (event.type === "session") appendFileSync(`${home}/accepted`, `${text}\n`);
      if (event.type === "error") process.stderr.write(`${event.message}\n`);
    }
  }
}
while (door.sessions.open(agent.metadata.uid) > 0) await w.clock.sleep(20);
process.stdout.write("idle\n");
await door.stop();
