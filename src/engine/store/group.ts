// Writes that come at one moment share one durable transaction, so that the disk is waited for once; each of them fails alone.
import type { DatabaseSync } from "node:sqlite";
import { setImmediate as breathe } from "node:timers/promises";
import type { Clock } from "../../core/world.ts";
import { STRETCH_MS } from "../pace.ts";
import { transact } from "./connection.ts";

/** What the caller keeps besides the disk, and how it goes back. */
export interface GroupState {
  /** Before the first member. */
  readonly begin: () => void;
  /** Before each member: answers how to undo it. */
  readonly mark: () => () => void;
  /** Before the commit, inside the transaction. */
  readonly closing: () => void;
  /** After the commit, before anybody is answered. */
  readonly committed: () => void;
  /** Nothing of it is on the disk. */
  readonly aborted: () => void;
}

interface Member {
  readonly run: () => unknown;
  readonly done: (answer: unknown) => void;
  readonly failed: (error: unknown) => void;
}

/** Queues a member. It runs synchronously in the transaction, after those before it, sees what they wrote, and is answered after the commit. */
export type Together = <T>(run: () => T) => Promise<T>;

export function createGroup(db: DatabaseSync, clock: Clock, state: GroupState): Together {
  const save = db.prepare("SAVEPOINT member");
  const release = db.prepare("RELEASE member");
  const back = db.prepare("ROLLBACK TO member");
  let waiting: Member[] = [];
  let draining = false;

  /** How it is answered once the others' writes and its own are on the disk. */
  function attempt({ run, done, failed }: Member): () => void {
    const undo = state.mark();
    save.run();
    try {
      const answer = run();
      release.run();
      return () => done(answer);
    } catch (error) {
      undo();
      back.run();
      release.run();
      return () => failed(error);
    }
  }

  /** As many as one stretch of the event loop holds, at least one. */
  function commit(members: readonly Member[]): { readonly answers: readonly (() => void)[]; readonly left: readonly Member[] } {
    const began = clock.monotonic();
    const answers: (() => void)[] = [];
    state.begin();
    try {
      transact(db, () => {
        for (const member of members) {
          if (answers.length > 0 && clock.monotonic() - began > STRETCH_MS) break;
          answers.push(attempt(member));
        }
        state.closing();
      });
    } catch (error) {
      state.aborted();
      return {
        answers: members.map(
          ({ failed }) =>
            () =>
              failed(error),
        ),
        left: [],
      };
    }
    state.committed();
    return { answers, left: members.slice(answers.length) };
  }

  async function drain(): Promise<void> {
    draining = true;
    while (waiting.length > 0) {
      // What arrives in this turn of the event loop still comes along.
      await breathe();
      const members = waiting;
      waiting = [];
      const { answers, left } = commit(members);
      waiting.unshift(...left);
      for (const answer of answers) answer();
    }
    draining = false;
  }

  return <T>(run: () => T) =>
    new Promise<T>((done, failed) => {
      waiting.push({ run, done: done as (answer: unknown) => void, failed });
      if (!draining) void drain();
    });
}
