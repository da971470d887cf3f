// Whether a sandbox may go somewhere, as the manifest and host policy are now; a refusal is on the record before it is said.
import type { AuditCall } from "../../core/audit.ts";
import { addressRefusal, notListed, ruleFor, rulesOf, targetText, type Refusal, type Rule, type Target } from "../../core/egress.ts";
import { asBeigeError } from "../../core/errors.ts";
import type { Agent } from "../../core/resource.ts";
import type { EgressDeps } from "./network.ts";

/** How a request goes out: through a tunnel, or as plain HTTP. */
export type How = "connect" | "http";

/** Why a client gets no connection, in words for whoever sits inside. */
export class EgressRefused extends Error {
  readonly status: number;
  readonly hint: string;
  constructor(status: number, reason: string, hint: string) {
    super(reason);
    this.status = status;
    this.hint = hint;
  }
}

/** A sandbox that is refused more often is answered late: it does not fill the record. */
const DENIALS_MAX = 60;
const DENIALS_MS = 10_000;
const LATE_MS = 1_000;

/** Rules by the list that they are of: parsed once a manifest. */
const parsed = new WeakMap<object, readonly Rule[]>();
export function rulesFor(network: Agent["spec"]["sandbox"]["network"]): readonly Rule[] {
  const known = parsed.get(network);
  if (known !== undefined) return known;
  const rules = rulesOf(network);
  parsed.set(network, rules);
  return rules;
}

/** A secret in the clear stays within the walls that the operator named. */
const inTheClear = (rule: Rule, how: How): boolean => how === "http" && rule.injection !== undefined && !rule.private;

export interface Asked {
  readonly row: AuditCall;
  readonly agent: Agent;
  readonly target: Target;
  readonly how: How;
}

export interface Judged {
  readonly rule: Rule;
  readonly addresses: readonly string[];
}

export interface Judge {
  /** Resolves the name, once. Throws EgressRefused when the refusal is written. */
  judge(asked: Asked): Promise<Judged>;
  /** Why what was allowed is not any more. */
  unallowed(uid: string, target: Target, was: Judged): string | undefined;
}

/** Waits where an agent is refused all the time. */
function brake({ clock }: Pick<EgressDeps, "clock">): (uid: string) => Promise<void> {
  const denials = new Map<string, { readonly since: number; count: number }>();
  return async (uid) => {
    const now = clock.monotonic();
    let seen = denials.get(uid);
    if (seen === undefined || now - seen.since > DENIALS_MS) denials.set(uid, (seen = { since: now, count: 0 }));
    if (++seen.count > DENIALS_MAX) await clock.sleep(LATE_MS);
  };
}

export function createJudge(deps: EgressDeps): Judge {
  const slow = brake(deps);
  const refuse = async ({ row, agent }: Asked, refusal: Refusal & { readonly status?: number }): Promise<never> => {
    await slow(agent.metadata.uid);
    await deps.audit.denied(deps.random.uuid(), { ...row, decision: "denied" }, refusal.reason);
    throw new EgressRefused(refusal.status ?? 403, refusal.reason, refusal.hint);
  };
  return {
    async judge(asked) {
      const { agent, target, how } = asked;
      const { network } = agent.spec.sandbox;
      const rule = ruleFor(rulesFor(network), target);
      if (rule === undefined) return refuse(asked, notListed(network, target));
      if (inTheClear(rule, how)) {
        const hint = "use https, or set private: true for a host within your own walls";
        return refuse(asked, { reason: `the secret of ${targetText(target)} would go over plain HTTP`, hint });
      }
      const addresses = await deps.network.resolve(target.host).catch((error: unknown) => {
        // On the record too: a name can carry words.
        const { message, hint } = asBeigeError(error);
        return refuse(asked, { reason: message, hint: hint ?? "check the name", status: 502 });
      });
      const bad = addressRefusal({ target, rule, host: deps.host() }, addresses);
      return bad === undefined ? { rule, addresses } : refuse(asked, bad);
    },
    unallowed(uid, target, was) {
      const now = deps.directory.agentByUid(uid);
      const rule = now === undefined ? undefined : ruleFor(rulesFor(now.spec.sandbox.network), target);
      if (rule === undefined || JSON.stringify(rule) !== JSON.stringify(was.rule)) return "the manifest no longer allows it";
      return addressRefusal({ target, rule, host: deps.host() }, was.addresses)?.reason;
    },
  };
}
