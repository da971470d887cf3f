import { defineConfig } from "vitest/config";

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
        test: { name: "docker", include: ["test/docker/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 180_000, fileParallelism: false },
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
