// A container of an earlier beige goes on serving, and says what it lacks and how it gets that.
import { afterEach, expect, test } from "vitest";
import { agent, apply, close, converge, createSim, provider, serving, state, type Sim } from "./rig.ts";

let sim: Sim;
afterEach(async () => close(sim));

test("what an older container lacks is a condition with the command that mends it, and a restart of it mends it", async () => {
  sim = await createSim();
  const wanted = [provider(), agent()];
  await apply(sim, wanted);
  const old = serving(sim)?.id ?? "";
  sim.docker.byHand(old, (box) => {
    const { LANG: _, ...env } = box.spec.env;
    box.spec = {
      ...box.spec,
      labels: { ...box.spec.labels, "beige.dev/gateway-hash": "older" },
      mounts: box.spec.mounts.filter(({ target }) => target !== "/tools/packages"),
      env,
    };
  });
  await converge(sim, 80_000);
  expect(serving(sim)?.id).toBe(old);
  expect(state(sim, "Ready")?.status).toBe("True");
  expect(state(sim, "Degraded")).toMatchObject({
    status: "True",
    reason: "Outdated",
    message:
      "the container was made by an earlier beige and lacks /tools/packages (documentation of plugins), LANG; beige rollout restart agent/travel makes it anew",
  });
  await apply(sim, [
    provider(),
    { ...agent(), metadata: { name: "travel", annotations: { "beige.dev/restarted-at": "2026-01-01T00:00:00Z" } } },
  ]);
  await converge(sim, 80_000);
  expect(serving(sim)?.id).not.toBe(old);
  expect(state(sim, "Degraded")?.status).toBe("False");
});
