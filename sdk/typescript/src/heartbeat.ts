// Renews the lease of a session.

import { setTimeout as delay } from "node:timers/promises";

import { ApiError, SessionEnded } from "./errors.js";
import { backoffMs } from "./http.js";

/** Part of the lease after which a heartbeat is due. */
const DUE = 1 / 3;
/** Part of the lease after which the session may be over, so that work has to stop. */
const LOST = 5 / 6;

/**
 * Sends heartbeats until `stop` is aborted. Returns why the session ended. `send` sends one heartbeat, and repeats it until
 * its signal is aborted.
 */
export async function renewLease(
  send: (signal: AbortSignal) => Promise<unknown>,
  leaseSeconds: number,
  stop: AbortSignal,
): Promise<SessionEnded | undefined> {
  const leaseMs = leaseSeconds * 1000;
  let renewedAt = Date.now();
  for (let failures = 0; !stop.aborted; ) {
    const lostAt = renewedAt + leaseMs * LOST;
    const pause = failures === 0 ? leaseMs * DUE : Math.min(backoffMs(failures), lostAt - Date.now());
    await delay(pause, undefined, { signal: stop }).catch(() => {});
    const [sentAt, left] = [Date.now(), lostAt - Date.now()];
    if (left <= 0) return new SessionEnded(`the server was unreachable for most of the lease of ${leaseSeconds} s`);
    try {
      await send(AbortSignal.any([stop, AbortSignal.timeout(left)]));
      [renewedAt, failures] = [sentAt, 0];
    } catch (error) {
      if (error instanceof SessionEnded) return error;
      if (error instanceof ApiError && error.status < 500) return new SessionEnded(error.message);
      failures++;
    }
  }
  return undefined;
}
