// The same promises, kept by a guest that was built to notice each wrong access and each undefined step.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildSanitized, hasCompiler } from "../../test/resident/sanitized.ts";
import { residentSuite } from "../../test/resident/suite.ts";

const folder = mkdtempSync(join(tmpdir(), "beige-sanitize-"));
let binary: string;
const there = hasCompiler();

beforeAll(() => {
  if (there) binary = buildSanitized(folder);
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

if (there) residentSuite("resident supervisor under sanitizers", () => binary);
else test("without gcc on this machine the guest is not built with sanitizers", () => expect(there).toBe(false));
