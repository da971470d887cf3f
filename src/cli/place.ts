// Where things are: the package that this program belongs to, and the home of the gateway that it talks to.
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const built = basename(here) === "dist";

/** The package's folder: of a clone, or of an installed package. */
export const packageRoot = built ? dirname(here) : dirname(dirname(here));

/** The program that a gateway is: TypeScript in a clone, JavaScript in a published package. */
export const daemonFile = (): string => join(packageRoot, built ? "dist/src/daemon.js" : "src/daemon.ts");

export const version = (): string => (JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string }).version;

export const homeOf = (env: NodeJS.ProcessEnv, flag: string | undefined, cwd: string): string =>
  resolve(cwd, flag ?? (env["BEIGE_HOME"] || join(homedir(), ".beige")));

export const socketOf = (home: string): string => join(home, "beige.sock");

/** What to type for this program: a clone is run through npx. */
export const command = (): string => (existsSync(join(packageRoot, "src/cli/main.ts")) ? "npx beige" : "beige");
