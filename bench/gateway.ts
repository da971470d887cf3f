// The lines of the one LLM road: what the gateway adds to a request between a client and its provider, each on one core.
import { opening } from "./gateway-session.ts";
import { leaving } from "./gateway-leave.ts";
import { holding } from "./gateway-memory.ts";
import { requests } from "./gateway-requests.ts";
import { startRig } from "./gateway-rig.ts";
import { starting } from "./gateway-start.ts";
import { streams } from "./gateway-streams.ts";
import { startNginx } from "./gateway-nginx.ts";
import { startPortkey } from "./gateway-portkey.ts";
import type { Line } from "./measure.ts";

export async function gatewaySpeed(program: string): Promise<readonly Line[]> {
  const rig = await startRig(program);
  const nginx = await startNginx(rig.direct);
  if (nginx === undefined) console.error("gateway: nginx is not here, so that no line says what it takes");
  const portkey = await startPortkey(rig.direct);
  return [
    ...(await requests(
      rig,
      [nginx, portkey].filter((peer) => peer !== undefined),
    )),
    ...(await streams(rig, nginx)),
    ...(await leaving(rig)),
    ...(await holding(rig)),
    ...(await starting(program)),
    ...(await opening(program)),
  ];
}
