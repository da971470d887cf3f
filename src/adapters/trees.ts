// Folders of manifests: read whole as one snapshot when they have settled, and watched for hints.
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { BeigeError, type Problem } from "../core/errors.ts";
import { MAX_FILE, readManifests } from "../core/manifest.ts";
import type { ManifestFile } from "../core/control.ts";
import type { Clock, Log, Tree, Trees } from "../core/world.ts";
import { type FileRead, Moved, readBelow } from "./trees/file.ts";
import { checkoutOf } from "./trees/git.ts";
import { placeOf, WALK, walkFolder, type WalkLimits } from "./trees/walk.ts";
import { createWatches, type StartWatch, type Watch } from "./watch.ts";

export interface TreeLimits extends WalkLimits {
  /** Bytes of all files together. */
  readonly bytes: number;
  /** Time between two looks. */
  readonly gapMs: number;
  /** How long a folder may keep changing. */
  readonly patienceMs: number;
}
export const TREE: TreeLimits = { ...WALK, bytes: 64 * 1024 * 1024, gapMs: 100, patienceMs: 8_000 };

const TEXT_BYTES_MAX = 256 * 1024;
/** Files that are open at once. */
const SIDE_BY_SIDE = 16;
/** A watch that failed is tried again after this. */
const WATCH_AGAIN_MS = 300_000;

export interface TreesDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Something in the folder of this Source may have changed. */
  readonly onHint: (name: string) => void;
  readonly limits?: Partial<TreeLimits>;
  readonly startWatch?: StartWatch;
}

type Vars = Readonly<Record<string, string>>;

/** Which text files a manifest names: parsed once as long as neither it nor the variables change. */
function createNeeds() {
  let known = new Map<string, readonly string[]>();
  return {
    /** Forgets what was not asked for since the last call. */
    sweep(): void {
      known = asked;
      asked = new Map();
    },
    of(file: ManifestFile, vars: Vars): readonly string[] {
      if (!/\bfile\b/.test(file.text)) return [];
      const key = createHash("sha256").update(file.text).update("\0").update(JSON.stringify(vars)).digest("hex");
      const found = asked.get(key) ?? known.get(key) ?? [...new Set(readManifests([file]).needFiles.map(({ path }) => path))];
      asked.set(key, found);
      return found;
    },
  };
}
let asked = new Map<string, readonly string[]>();
