import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildOptions, createBuilds, imageConfig } from "./derive.ts";
import { doingOf, recipe, tailOf } from "./derivescript.ts";
import type { Door, Engine } from "./words.ts";

const build = {
  ref: "beige-derived:0123",
  base: "sha256:1",
  packages: ["jq"],
  labels: { "beige.dev/store": "s", "beige.dev/kind": "ImageBuild", "beige.dev/uid": "u" },
  network: "default",
  limitMs: 60_000,
} as const;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "beige-recipe-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs the recipe with a package manager that writes down what it was asked. PATH is only the folder, so that the machine's own is not found. */
function run(
  manager: string | undefined,
  packages: readonly string[],
  proxy?: string,
): { readonly said: string; readonly asked: string; readonly code: number | null } {
  if (manager !== undefined) {
    writeFileSync(
      join(folder, manager),
      `#!/bin/sh\nfor a in "$@"; do printf '<%s>' "$a"; done >>${folder}/asked\necho " proxy=\${http_proxy:-}" >>${folder}/asked\n`,
    );
    chmodSync(join(folder, manager), 0o755);
  }
  const words = recipe(packages, { limitMs: 60_000, ...(proxy === undefined ? {} : { proxy }) });
  // The real one adds the usual folders to PATH, and ends every process that it can see when its time is up.
  const script = (words[1] ?? "")
    .replace(/PATH="[^"]*"/, `PATH=${folder}`)
    .replace(/^\( sleep .*$/m, "")
    .replace("rm -rf /var", "true /var");
  const ran = spawnSync("/bin/sh", ["-c", script, ...words.slice(2)], { encoding: "utf8" });
  let asked = "";
  try {
    asked = readFileSync(join(folder, "asked"), "utf8");
  } catch {
    // Nobody was asked.
  }
  return { said: ran.stdout, asked, code: ran.status };
}

test("each package manager is asked in its own words, names as they are", () => {
  const { asked } = run("apt-get", ["g++", "python3=3.11.*"], "http://proxy:3128");
  expect(asked).toContain("<-q><update> proxy=http://proxy:3128\n");
  expect(asked).toContain("<--no-install-recommends><install><--><g++><python3=3.11.*>");
});

test("apk has another sign for versions that begin alike", () => {
  expect(run("apk", ["jq", "python3=3.11.*", "x=1.2-r0"]).asked).toContain("<add><--no-cache><jq><python3=~3.11><x=1.2-r0> proxy=\n");
});

test.each(["dnf", "microdnf"])("%s is used where it is what there is", (manager) => {
  expect(run(manager, ["jq"]).asked).toContain("<install><jq>");
});

test("an image without a package manager says so with a code of its own", () => {
  const { said, code } = run(undefined, ["jq"]);
  expect(code).toBe(3);
  expect(tailOf(said)).toBe("the image has no apt-get, apk, dnf or microdnf to install packages with");
});

test("the recipe is sh, and no package becomes a part of it", () => {
  const words = recipe(["jq"], { limitMs: 60_000 });
  execFileSync("/bin/sh", ["-n", "-c", words[1] ?? ""]);
  expect(words.slice(2)).toEqual(["beige-build", "", "60", "jq"]);
  expect(recipe(["x; reboot"], { limitMs: 1 })[1]).toBe(words[1]);
});

test("a build has limits and a network, and neither mounts nor variables nor the rights of a daemon", () => {
  const options = buildOptions(build, { User: "app", Entrypoint: ["/start"], Env: ["A=b"] });
  expect(options).toMatchObject({ name: "beige-build-0123", Image: "sha256:1", User: "0:0", Entrypoint: ["/bin/sh"] });
  expect(Object.keys(options)).not.toContain("Env");
  const host = options["HostConfig"] as Record<string, unknown>;
  expect(host).toMatchObject({
    Privileged: false,
    CapDrop: ["ALL"],
    PidsLimit: 512,
    Memory: 2 ** 31,
    MemorySwap: 2 ** 31,
    NetworkMode: "bridge",
  });
  expect(host["Mounts"] ?? host["Binds"] ?? host["Devices"]).toBeUndefined();
  expect(JSON.stringify(host["CapAdd"])).not.toMatch(/SYS_ADMIN|NET_|SYS_PTRACE|SYS_MODULE|MKNOD/);
  expect(buildOptions({ ...build, network: "none" }, {})["HostConfig"]).toMatchObject({ NetworkMode: "none" });
  expect(buildOptions(build, {})).toMatchObject({ Entrypoint: [], Cmd: ["/bin/sh", "-c", ...recipe(["jq"], build).slice(1)] });
  expect(Object.keys(buildOptions(build, {}))).not.toContain("User");
});

test("the image has its base's configuration, not the labels that would make its containers ours, and says what it was built of", () => {
  const derived = { base: "sha256:1", packages: ["jq"] };
  const ours = { "beige.dev/store": "", "beige.dev/kind": "", "beige.dev/uid": "", "beige.dev/derived": JSON.stringify(derived) };
  expect(imageConfig({ User: "app", Labels: { a: "b" } }, derived)).toEqual({ User: "app", Labels: { a: "b", ...ours } });
  // A base that says that it is somebody's.
  const lies = { "beige.dev/store": "s", "beige.dev/kind": "Agent", "beige.dev/name": "x", "beige.dev/derived": "{}" };
  expect(imageConfig({ Labels: lies }, derived)).toEqual({ Labels: { ...ours, "beige.dev/name": "" } });
});

test.each([
  ["/usr", true],
  ["/", true],
  ["/var/", true],
  ["/usr/share/nginx/html", false],
  ["/data", false],
])("a base with %s in a volume is refused: %s", async (volume, refused) => {
  const made: object[] = [];
  const door: Partial<Door> = {
    inspect: async () => Promise.reject(Object.assign(new Error("no such container"), { statusCode: 404 })),
    image: async () => ({ Id: "sha256:1", Config: { Volumes: { [volume]: {} } } }),
    create: async (options) => String(made.push(options)),
    start: async () => undefined,
  };
  const engine = { door, clock: { after: () => ({ cancel: () => undefined }) }, socketPath: "/engine" } as unknown as Engine;
  const begun = await createBuilds(engine)
    .begin(build)
    .then(
      () => "begun",
      (error: unknown) => String(error),
    );
  expect([made.length, begun]).toEqual(refused ? [0, expect.stringContaining("in a volume")] : [1, "begun"]);
});

test("the lines of trouble are shown, without what moves a terminal, and bounded", () => {
  const output =
    "beige: apt-get installs\nReading...\r\nW: Failed to fetch x\n\u001b[31mE: Unable to locate package y\u001b[0m\nE: Unable to locate package y\n";
  expect(tailOf(output)).toBe("W: Failed to fetch x; E: Unable to locate package y");
  expect(doingOf(output)).toBe("apt-get installs");
  expect(tailOf("one\ntwo\u0007")).toBe("one; two");
  expect(tailOf("")).toBe("");
  expect(tailOf(`E: ${"x".repeat(5000)}`).length).toBeLessThan(1000);
  expect(doingOf("")).toBe("it starts");
});

test.each(["running", "exited"])("a build that is %s and wrote more than a disk should take came to nothing", async (status) => {
  let bytes = 8 * 2 ** 30;
  const State = { Status: status, Running: status === "running", ExitCode: 0, Error: "", StartedAt: "2026-01-01T00:00:00Z" };
  const labels = { "beige.dev/derived": JSON.stringify({ base: "sha256:1", packages: ["jq"] }) };
  const door: Partial<Door> = {
    inspect: async () => ({ Id: "0123456789ab", State, Config: { Labels: labels, Cmd: [] } }) as never,
    written: async () => bytes,
    output: async () => Buffer.alloc(0),
  };
  const engine = { door, clock: { after: () => ({ cancel: () => undefined }) }, socketPath: "/engine" } as unknown as Engine;
  const builds = createBuilds(engine);
  expect(await builds.seen(build.ref)).toMatchObject({ state: status === "running" ? "running" : "done" });
  bytes += 1;
  expect(await builds.seen(build.ref)).toMatchObject({ state: "failed", message: "it wrote more than 8 GiB" });
});
