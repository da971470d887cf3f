// beige key: API keys of the gateway. A key is printed when it is made, and never again.
import type { KeyShown } from "../../core/keys.ts";
import { BeigeError } from "../../core/errors.ts";
import { budgetOf } from "../budget.ts";
import { milliseconds, positive } from "../duration.ts";
import { type Context, type Input, type Run, word, words } from "../flags.ts";
import { pathOf, targetsOf } from "../names.ts";
import { find } from "../objects.ts";
import { oneLine } from "../output.ts";
import { drawTable } from "../render/table.ts";
import { whenText } from "../render/values.ts";

const MOST = 999_999_999;
const CENTURY_MS = 100 * 365 * 86_400_000;

const nameOf = (input: Input): string => {
  const name = input.args[0] ?? "";
  if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return name;
  throw new BeigeError("invalid", `"${name}" cannot name a key`, { hint: "lower-case letters, digits and '-', at most 63" });
};

function bodyOf(input: Input): object {
  const budget = budgetOf(input);
  const [requests, sessions, expires] = ["requests", "sessions", "expires"].map((flag) => word(input, flag));
  return {
    name: nameOf(input),
    role: word(input, "role") ?? "caller",
    agents: words(input, "agent"),
    ...(requests !== undefined && { requests: positive(requests, "--requests", MOST) }),
    ...(sessions !== undefined && { sessions: positive(sessions, "--sessions", MOST) }),
    ...(budget !== undefined && { budget }),
    ...(expires !== undefined && { expiresInMs: milliseconds(expires, "--expires", CENTURY_MS) }),
  };
}

export const create: Run = async (context, input) => {
  const made = await context.client.get<KeyShown & { readonly secret: string }>({ method: "POST", path: "/api/keys", body: bodyOf(input) });
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify(made, undefined, 2)}\n`);
  else {
    context.out.note(`key ${made.name} (${rights(made)}); it is shown only now:`);
    await context.out.write(`${made.secret}\n`);
    for (const agent of made.agents.filter((each) => each !== "*"))
      if (await isMissing(context, agent)) context.out.note(`there is no agent ${oneLine(agent)} yet: beige get agents -A`);
  }
  return 0;
};

/** A key may be made first; a slip of the pen looks the same, so it is said. */
async function isMissing(context: Context, agent: string): Promise<boolean> {
  const [target] = await targetsOf(context.client, [`agent/${agent}`], undefined);
  return target !== undefined && (await find(context, pathOf(target))) === undefined;
}

const rights = ({ role, agents }: KeyShown): string => (role === "caller" ? `caller of ${agents.join(", ")}` : role);

const state = (key: KeyShown, now: number): string =>
  key.revokedAt !== undefined ? "revoked" : key.expiresAt !== undefined && key.expiresAt <= now ? "expired" : "good";

const used = (n: number, of: number | undefined): string => (of === undefined ? String(n) : `${n} of ${of}`);

function cells(context: Context, key: KeyShown): readonly string[] {
  const when = (ms: number | undefined, never: string): string =>
    ms === undefined ? never : whenText(context.out, new Date(ms).toISOString(), context.now());
  return [
    key.name,
    key.role,
    key.agents.join(","),
    state(key, context.now()),
    used(key.used.requests, key.requests),
    used(key.used.sessions, key.sessions),
    when(key.lastUsedAt, "never"),
    when(key.expiresAt, "never"),
  ].map(oneLine);
}

export const list: Run = async (context, input) => {
  const { items } = await context.client.get<{ readonly items: readonly KeyShown[] }>({ path: "/api/keys" });
  if (word(input, "output") === "json") await context.out.write(`${JSON.stringify({ items }, undefined, 2)}\n`);
  else if (items.length === 0) context.out.note("no keys: beige key create NAME --agent AGENT");
  else {
    const heads = ["NAME", "ROLE", "AGENTS", "STATE", "REQUESTS", "SESSIONS", "LAST USED", "EXPIRES"];
    const drawn = drawTable(
      heads,
      items.map((key) => cells(context, key)),
    );
    await context.out.write(`${[drawn.header, ...drawn.rows].join("\n")}\n`);
  }
  return 0;
};

export const revoke: Run = async (context, input) => {
  const name = nameOf(input);
  await context.client.get({ method: "DELETE", path: `/api/keys/${name}` });
  await context.out.write(`key ${name} revoked\n`);
  return 0;
};
