// The fake engine keeps the promises of the port, so that what the sims show holds for the real one.
import { manualClock } from "../../src/engine/fixture.ts";
import { LABEL } from "../../src/core/sandbox.ts";
import { sandboxContract } from "../contract/sandbox.ts";
import { FakeEngine } from "../fakes/sandbox.ts";

sandboxContract("the fake engine", () => {
  const sandbox = new FakeEngine(manualClock());
  sandbox.images.set("tiny:1", "sha256:tiny");
  let count = 0;
  return Promise.resolve({
    sandbox,
    store: "store",
    shell: false,
    spec: (change = {}) => {
      const name = `fake-${++count}`;
      const labels = { [LABEL.store]: "store", [LABEL.uid]: name, [LABEL.kind]: "Agent", [LABEL.name]: name };
      return {
        name,
        labels,
        image: "tiny:1",
        user: { uid: 20_000, gid: 20_000 },
        env: {},
        mounts: [],
        memoryBytes: 64 * 1024 ** 2,
        cpus: 1,
        pids: 32,
        tmpBytes: 1024 ** 2,
        network: "none",
        profile: "strict",
        ...change,
      };
    },
    cleanup: () => Promise.resolve(),
  });
});
