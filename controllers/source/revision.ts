// How people read a revision: branch and commit, with a mark when files changed and the commit did not. Pure.
import type { Tree } from "../../src/core/source.ts";

const SHORT = 7;

/** The content that a commit had when it was first seen: `base` of the status. */
export interface Base {
  readonly commit: string;
  readonly hash: string;
}

/** Kept from the last look as long as the commit stays. */
export function baseOf(tree: Pick<Tree, "hash" | "git">, before: Readonly<Record<string, unknown>> | undefined): Base | undefined {
  if (tree.git === undefined) return undefined;
  const { commit } = tree.git;
  const hash = before?.["commit"] === commit ? before["commitHash"] : undefined;
  return { commit, hash: typeof hash === "string" ? hash : tree.hash };
}

/** `main@3f9c2a1`, `3f9c2a1` without a branch, `main@3f9c2a1+77ab012` with other content than that commit came with, `#77ab012` outside of git. */
export function revisionText(tree: Pick<Tree, "hash" | "git">, base: Base | undefined): string {
  const content = tree.hash.slice(0, SHORT);
  if (tree.git === undefined || base === undefined) return `#${content}`;
  const { commit, branch } = tree.git;
  const name = `${branch === undefined ? "" : `${branch}@`}${commit.slice(0, SHORT)}`;
  return base.hash === tree.hash ? name : `${name}+${content}`;
}
