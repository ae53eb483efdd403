// SIGINT and SIGTERM: sessions are released and tickets cancelled before the process ends.

import { setTimeout as delay } from "node:timers/promises";

import { Interrupted } from "./errors.js";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
/** How long a signal waits for releases. */
const RELEASE_TIMEOUT_MS = 10_000;

/** Aborts what is in progress. The promise resolves when the session is released or the queue left. */
type InterruptHandler = (error: Interrupted) => Promise<unknown>;

const handlers = new Set<InterruptHandler>();
let isInterrupted = false;

/** Calls the handler on a signal. Returns a function that removes it. */
export function onInterrupt(handler: InterruptHandler): () => void {
  if (handlers.size === 0) {
    for (const signal of SIGNALS) process.on(signal, handleSignal);
  }
  handlers.add(handler);
  return () => {
    if (handlers.delete(handler) && handlers.size === 0 && !isInterrupted) stopListening();
  };
}

async function handleSignal(signal: NodeJS.Signals): Promise<void> {
  // A second signal does not wait.
  if (!isInterrupted) {
    isInterrupted = true;
    const released = Promise.allSettled([...handlers].map((handler) => handler(new Interrupted(signal))));
    await Promise.race([released, delay(RELEASE_TIMEOUT_MS, undefined, { ref: false })]);
    isInterrupted = false;
  }
  stopListening();
  // The program decides what to do if it listens to the signal itself. Otherwise it ends as if it had not been handled.
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
}

function stopListening(): void {
  for (const signal of SIGNALS) process.off(signal, handleSignal);
  handlers.clear();
}
