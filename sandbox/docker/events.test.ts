import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/clock.ts";
import type { Clock } from "../../src/core/world.ts";
import { readEvent, watchEvents, type EventSource } from "./events.ts";

const event = (more: object): string =>
  `${JSON.stringify({ Type: "container", Action: "start", timeNano: 5_000_000_001, Actor: { ID: "c1", Attributes: { a: "b" } }, ...more })}\n`;
const quick: Clock = { ...systemClock, sleep: (_ms, signal) => systemClock.sleep(1, signal) };

/** A source that plays one script a connection; an Error refuses it. */
function play(scripts: readonly ((stream: PassThrough) => void | Error)[]): { source: EventSource; opened: (string | undefined)[] } {
  const opened: (string | undefined)[] = [];
  return {
    opened,
    source: {
      open: async (since, signal) => {
        const script = scripts[Math.min(opened.length, scripts.length - 1)];
        opened.push(since);
        const stream = new PassThrough();
        signal.addEventListener("abort", () => stream.destroy());
        const refused = script?.(stream);
        if (refused instanceof Error) throw refused;
        return stream;
      },
      ping: () => Promise.resolve(),
      labels: (id) => Promise.resolve({ of: id }),
    },
  };
}

async function follow(source: EventSource, until: (log: readonly string[]) => boolean, clock = quick): Promise<readonly string[]> {
  const stop = new AbortController();
  const log: string[] = [];
  const note = (line: string): void => {
    log.push(line);
    if (until(log)) stop.abort();
  };
  await watchEvents(
    source,
    clock,
    {
      hint: (h) => note(`${h.action} ${h.id} ${JSON.stringify(h.labels)}`),
      relist: () => note("relist"),
      down: (e) => note(`down ${e.message}`),
    },
    stop.signal,
  );
  return log;
}

test("an event is a hint, those of commands and of no network are not, and junk is nothing", () => {
  expect(readEvent(event({}))).toMatchObject({ hint: { id: "c1", labels: { a: "b" }, action: "start" } });
  expect(readEvent(event({ Action: "exec_start: sh" }))).toBeUndefined();
  expect(
    readEvent(event({ Type: "network", Action: "connect", Actor: { ID: "n", Attributes: { name: "none", container: "c" } } })),
  ).toBeUndefined();
  expect(
    readEvent(event({ Type: "network", Action: "connect", Actor: { ID: "n", Attributes: { name: "bridge", container: "c" } } })),
  ).toMatchObject({ ask: true, hint: { id: "c" } });
  expect(readEvent("{")).toBeUndefined();
  expect(readEvent("{}")).toBeUndefined();
});

test("after a cut the stream is opened again just after the last event, and everything is listed anew (P71)", async () => {
  const { source, opened } = play([
    (stream) => {
      stream.write(event({}).slice(0, 20));
      setImmediate(() => stream.end(event({}).slice(20)));
    },
    (stream) => void stream.end(event({ Action: "die", timeNano: 6_000_000_000 })),
  ]);
  const log = await follow(source, (lines) => lines.filter((line) => line === "relist").length === 3);
  expect(log.slice(0, 4)).toStrictEqual(["relist", 'start c1 {"a":"b"}', "relist", 'die c1 {"a":"b"}']);
  expect(opened.slice(0, 3)).toStrictEqual([undefined, "5.000000002", "6.000000001"]);
});

test("an engine that is down is said once, however often it is tried, and again after it was up", async () => {
  const refuse = (): Error => new Error("refused");
  const cut = (stream: PassThrough): void => void setImmediate(() => stream.destroy(new Error("cut")));
  const { source } = play([refuse, refuse, refuse, cut, refuse, refuse, () => undefined]);
  const log = await follow(source, (lines) => lines.filter((line) => line === "relist").length === 2);
  expect(log).toStrictEqual(["down refused", "relist", "down cut", "relist"]);
});

test("a line without end is refused instead of kept", async () => {
  const { source } = play([(stream) => void stream.write("x".repeat(300_000)), () => undefined]);
  expect(await follow(source, (lines) => lines.length === 3)).toStrictEqual(["relist", "down an event is too long", "relist"]);
});

test("a connection that has been silent for long is replaced without a word (P71)", async () => {
  const silent: Clock = { ...quick, after: (_ms, run) => systemClock.after(10, run) };
  const { source } = play([() => undefined]);
  expect(await follow(source, (lines) => lines.length === 3, silent)).toStrictEqual(["relist", "relist", "relist"]);
});

test("a watcher that is ended while it waits returns at once", async () => {
  const stop = new AbortController();
  const { source } = play([() => new Error("refused")]);
  const watching = watchEvents(source, systemClock, { hint() {}, relist() {}, down: () => stop.abort() }, stop.signal);
  await watching;
});

test.each<[string, (stream: PassThrough) => void]>([
  ["is empty", (stream) => void stream.end()],
  ["is a page", (stream) => void stream.end("<html>login</html>")],
  ["is half an event", (stream) => void stream.end(event({}).slice(0, 30))],
  ["is cut", (stream) => void setImmediate(() => stream.destroy(new Error("cut")))],
  ["holds one event and ends", (stream) => void stream.end(event({}))],
])("an engine whose stream %s again and again is asked less and less often", async (_name, script) => {
  const waits: number[] = [];
  const stop = new AbortController();
  const noting: Clock = {
    ...systemClock,
    sleep: (ms, signal) => {
      waits.push(ms);
      if (waits.length === 8) stop.abort();
      return systemClock.sleep(0, signal);
    },
  };
  const { source, opened } = play([script]);
  await watchEvents(source, noting, { hint() {}, relist() {}, down() {} }, stop.signal);
  expect(opened).toHaveLength(8);
  expect(waits.at(-1)).toBeGreaterThan(4000);
});
