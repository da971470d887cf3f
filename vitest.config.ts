import { defineConfig } from "vitest/config";

/** Journeys of a gateway on the real engine that no other one disturbs. */
const STORIES = [
  "adopt",
  "background",
  "bwrapdefault",
  "lazy",
  "outlive",
  "packages",
  "pains",
  "replace",
  "seen",
  "snapshot",
  "stores",
  "warm",
].map((name) => `test/docker/${name}.test.ts`);

export default defineConfig({
  test: {
    // Most tests wait for processes, sockets and disks: two at once keep two cores busy.
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: "unit",
          include: [
            "{src,controllers,sandbox,plugins}/**/*.test.ts",
            "test/{*,golden,contract,sim,journey}/**/*.test.ts",
            "test/*.test.ts",
          ],
          exclude: ["test/docker/**", "test/kubectl/**", "test/fakes/**", "node_modules/**"],
          testTimeout: 20_000,
        },
      },
      {
        // What has a deadline of its own, or an engine: one at a time.
        test: {
          name: "docker",
          include: ["test/docker/**/*.test.ts"],
          exclude: STORIES,
          testTimeout: 120_000,
          hookTimeout: 180_000,
          fileParallelism: false,
        },
      },
      {
        // Each on a gateway and a home of its own, waiting for most of the time: two at once.
        test: { name: "stories", include: STORIES, testTimeout: 120_000, hookTimeout: 180_000, maxWorkers: 2 },
      },
      {
        test: {
          name: "kubectl",
          include: ["test/kubectl/**/*.test.ts"],
          testTimeout: 30_000,
          hookTimeout: 180_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
