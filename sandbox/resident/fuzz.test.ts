// Streams that are almost right, for a few seconds each way; `npm run fuzz -- SECONDS` takes longer.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { guestPath } from "../guest.ts";
import { fuzzGateway, fuzzSupervisor } from "../../test/resident/fuzz.ts";
import { buildSanitized, hasCompiler } from "../../test/resident/sanitized.ts";
import { fuzzDial } from "../../test/resident/strangers.ts";

const folder = mkdtempSync(join(tmpdir(), "beige-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const SECONDS = 2;

test("PID 1 lives through bent streams of a gateway, and works for the next one", async () => {
  const binary = hasCompiler() ? buildSanitized(folder) : guestPath();
  const { streams, failure } = await fuzzSupervisor(binary, SECONDS, 1);
  expect(failure).toBe(undefined);
  expect(streams).toBeGreaterThan(50);
}, 60_000);

test("the gateway ends each command of a supervisor that says anything, and takes no byte that did not come", async () => {
  const { streams, failure } = await fuzzGateway(SECONDS, 1);
  expect(failure).toBe(undefined);
  expect(streams).toBeGreaterThan(100);
}, 60_000);

test("whatever strangers say at the socket, the supervisor alone is let in and spoken to", async () => {
  const { streams, failure } = await fuzzDial(SECONDS, 1);
  expect(failure).toBe(undefined);
  expect(streams).toBeGreaterThan(20);
}, 60_000);
