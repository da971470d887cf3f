import { expect, test } from "vitest";
import { roadTo, says, serve } from "../../test/road/provider.ts";
import type { RoadEvent } from "../core/road.ts";

test("a key that was revoked spends nothing more, whatever it had left waiting", async () => {
  await using server = await serve(says("hi"));
  let good = true;
  const road = roadTo([server], { goodKey: (name) => name !== "k" || good });
  const { metadata } = road.agent;
  const agent = { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid };
  const ask = (key: string): Promise<RoadEvent[]> => road.run(road.bare({ principal: { kind: "caller", key, agents: ["dev"] }, agent }));
  expect((await ask("k")).at(-1)?.type).toBe("done");
  good = false;
  expect((await ask("k")).at(-1)).toMatchObject({
    type: "error",
    failure: { code: "denied", message: "key k was revoked or has expired" },
  });
  expect((await ask("other")).at(-1)?.type).toBe("done");
  expect(server.asked).toHaveLength(2);
  expect(road.audit.rows.filter((row) => row.phase === "denied")).toMatchObject([{ principal: "key/k", agent: "dev" }]);
});
