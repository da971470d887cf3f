// For the tests of the workflows under docs/ci: their files as values, and a service that keeps comments as GitHub and GitLab do.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseYaml } from "../src/core/manifest.ts";
import { plainValue } from "../src/core/tree.ts";

const folder = join(dirname(fileURLToPath(import.meta.url)), "../docs/ci");

/** Every text of the file, wherever it stands. */
export function texts(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(texts) : [];
}

export function load(name: string): unknown {
  const { tree, faults } = parseYaml(readFileSync(join(folder, name), "utf8"));
  if (faults.length > 0) throw new Error(`${name}: ${JSON.stringify(faults)}`);
  if (tree === undefined) throw new Error(`${name} is empty`);
  return plainValue(tree);
}

export interface Kept {
  readonly id: number;
  body: string;
  readonly user: { readonly type: string };
}

export interface Service {
  readonly url: string;
  /** Each with what it was for. */
  readonly writes: string[];
  close(): void;
}

/** Keeps comments as both services do; says what was written. */
export async function service(comments: Kept[]): Promise<Service> {
  const writes: string[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const url = new URL(request.url ?? "", "http://localhost");
      const page = Number(url.searchParams.get("page") ?? 1);
      const method = request.method ?? "";
      response.setHeader("content-type", "application/json");
      if (method === "GET") return response.end(JSON.stringify(comments.slice((page - 1) * 100, page * 100)));
      const { body } = JSON.parse(Buffer.concat(parts).toString()) as { body: string };
      const known = comments.find((each) => url.pathname.endsWith(`/${each.id}`));
      writes.push(`${method} ${known?.id ?? "new"}`);
      if (known) known.body = body;
      else comments.push({ id: 900, body, user: { type: "Bot" } });
      return response.end("{}");
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, writes, close: () => void server.close() };
}
