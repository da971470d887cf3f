// Holds back what a client sends until it is wanted. A held-back connection would not hear the client leave: it is spoken to meanwhile.
import type { WebSocket } from "ws";
import type { Clock } from "../../core/world.ts";

const SPEAK_MS = 200;

export interface Tap {
  pause(): void;
  resume(): void;
}

export function createTap(ws: WebSocket, clock: Pick<Clock, "after">): Tap {
  let timer: { cancel(): void } | undefined;
  const speak = (): void => {
    if (ws.readyState !== ws.OPEN) return;
    // Asks for no answer, which would wait unread; fails soon when nobody is there.
    ws.pong(undefined, undefined, (error) => {
      if (error) ws.terminate();
    });
    timer = clock.after(SPEAK_MS, speak);
  };
  return {
    pause() {
      ws.pause();
      timer ??= clock.after(SPEAK_MS, speak);
    },
    resume() {
      timer?.cancel();
      timer = undefined;
      ws.resume();
    },
  };
}
