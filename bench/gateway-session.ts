// Opening one session more where hundreds are open: a prompt to a new one beside a prompt to one that is there.
import { makeGateway } from "../test/gateway.ts";
import { atEnd, IMAGE } from "./fleet.ts";
import { type Line, median, timed, within } from "./measure.ts";

const SESSIONS = 500;
const COUNTED = 40;

const STACK = `apiVersion: beige.dev/v1
kind: Provider
metadata: {name: offline}
spec: {api: echo}
---
apiVersion: beige.dev/v1
kind: Agent
metadata: {name: open}
spec: {model: {provider: offline, id: echo-1}, sandbox: {image: "${IMAGE}"}}
`;

export async function opening(program: string): Promise<readonly Line[]> {
  const gateway = makeGateway({ program });
  atEnd.push(() => gateway.clean());
  await gateway.start();
  await gateway.apply(STACK);
  const prompt = async (session: string): Promise<number> =>
    timed(async () => {
      const events = await gateway.stream("/api/agents/open/prompt", { text: "hello", session });
      if (events.at(-1)?.type !== "done") throw new Error(`prompt: ${JSON.stringify(events.at(-1))}`);
    });
  const [fresh, known]: [number[], number[]] = [[], []];
  for (let i = 1; i <= SESSIONS; i++) {
    const took = await prompt(`bench:${i}`);
    if (i <= SESSIONS - COUNTED) continue;
    fresh.push(took);
    known.push(await prompt(`bench:${i}`));
  }
  await gateway.clean();
  const value = median(fresh) - median(known);
  const note = `median of the last ${COUNTED}: ${median(fresh).toFixed(1)} ms for a first prompt, ${median(known).toFixed(1)} ms for a second one`;
  return [within({ line: `opening the ${SESSIONS}th session`, unit: "ms", limit: 5, note }, value)];
}
