// Builds of images in a fake engine: a container that runs until the test ends it, and an image in the end.
import { BeigeError } from "../../src/core/errors.ts";
import { buildName, DERIVED_LABEL } from "../../src/core/packages.ts";
import type { BuildSeen, ImageBuild, ImageBuilds } from "../../src/core/sandbox.ts";
import type { FakeBox, FakeEngine } from "./sandbox.ts";

const asleep = { memoryBytes: 0, cpus: 0, pids: 0, tmpBytes: 0, network: "none", profile: "strict" } as const;

export class FakeBuilds implements ImageBuilds {
  /** Every build that was begun. */
  readonly begun: ImageBuild[] = [];
  /** What a build says that ends badly. */
  readonly messages = new Map<string, string>();
  readonly #engine: FakeEngine;

  constructor(engine: FakeEngine) {
    this.#engine = engine;
  }

  #box(ref: string): FakeBox | undefined {
    return this.#engine.named(buildName(ref));
  }

  /** Ends the one build that runs; a message is a failure. */
  end(message?: string): void {
    const box = [...this.#engine.boxes.values()].find((each) => each.state === "running" && each.spec.labels[DERIVED_LABEL] !== undefined);
    if (box === undefined) throw new Error("no build runs");
    if (message !== undefined) this.messages.set(box.id, message);
    const change = (it: FakeBox): void => void Object.assign(it, { state: "exited", exitCode: message === undefined ? 0 : 1 });
    this.#engine.byHand(box.id, change, "die");
  }

  async #effect<T>(name: string, land: () => T): Promise<T> {
    await this.#engine.ping();
    return this.#engine.faults.effect(name, land);
  }

  begin(build: ImageBuild): Promise<void> {
    return this.#effect(`build ${build.ref}`, () => {
      if (this.#box(build.ref) !== undefined) return;
      this.begun.push(build);
      const labels = { ...build.labels, [DERIVED_LABEL]: JSON.stringify({ base: build.base, packages: build.packages }) };
      const user = { uid: 0, gid: 0 };
      this.#engine.addBuild({ name: buildName(build.ref), labels, image: build.base, user, env: {}, mounts: [], ...asleep });
    });
  }

  async seen(ref: string): Promise<BuildSeen | undefined> {
    await this.#engine.ping();
    const box = this.#box(ref);
    if (box === undefined) return undefined;
    const said = { id: box.id, ...(box.startedAt === undefined ? {} : { startedAt: box.startedAt }) };
    if (box.state === "running") return { ...said, state: "running", doing: "apt-get installs" };
    const message = this.messages.get(box.id);
    return message === undefined ? { ...said, state: "done" } : { ...said, state: "failed", message };
  }

  finish(ref: string): Promise<void> {
    return this.#effect(`finish ${ref}`, () => {
      const box = this.#box(ref);
      if (box === undefined) return;
      if (box.state !== "exited") throw new BeigeError("conflict", `the build of ${ref} is not done`);
      this.#engine.images.set(ref, `sha256:${ref}`);
      this.#engine.removeByHand(box.id);
    });
  }

  drop(ref: string): Promise<void> {
    return this.#effect(`drop ${ref}`, () => {
      if (![...this.#engine.boxes.values()].some((box) => box.spec.image === ref)) this.#engine.images.delete(ref);
    });
  }
}
